//! Machines' descriptions, and what is said of wrong ones.

use pagelab_machine::{MachineConfig, PRESETS, simulate};
use std::ops::ControlFlow;

fn error(machine: &str, overrides: &[&str]) -> String {
    let overrides: Vec<String> = overrides.iter().map(|&o| o.to_owned()).collect();
    MachineConfig::load(machine, &overrides)
        .unwrap_err()
        .to_string()
}

#[test]
fn every_preset_is_valid_and_runs() {
    for (name, _) in PRESETS {
        let config = MachineConfig::load(name, &[]).unwrap();
        assert_eq!(config.name, *name);
        let events = [
            crate::common::map(crate::common::BASE, 4096),
            crate::common::load(crate::common::BASE, 0, 0),
        ];
        let result =
            crate::common::run(&config, "radix", &mut crate::common::Cut::new(&events, 10));
        assert!(result.complete);
        assert_eq!((result.accesses, result.walks.count), (1, 2));
    }
}

#[test]
fn an_unknown_machine_lists_the_presets_and_the_nearest() {
    let message = error("skylake", &[]);
    assert!(message.contains("dpt-paper, skylake-sp"), "{message}");
    assert!(message.contains("did you mean skylake-sp?"), "{message}");
}

#[test]
fn an_unknown_key_is_named_with_the_nearest() {
    let message = error("dpt-paper", &["core.widht=4"]);
    assert!(message.contains("widht"), "{message}");
    assert!(message.contains("did you mean width?"), "{message}");
    assert!(error("dpt-paper", &["dpt.fab=true"]).contains("did you mean fap?"));
    let message = error("dpt-paper", &["memory_bytes=1GiB"]);
    assert!(
        message.contains("did you mean memory.memory_bytes?"),
        "{message}"
    );
}

#[test]
fn sizes_in_bytes_may_have_a_unit() {
    let memory = |overrides: &[&str]| {
        let overrides: Vec<String> = overrides.iter().map(|&o| o.to_owned()).collect();
        let config = MachineConfig::load("dpt-paper", &overrides).unwrap();
        (config.memory, config.nested.host_memory_bytes)
    };
    let written = memory(&[
        "memory.memory_bytes=1.5GiB",
        "memory.stack_limit=64MiB",
        "memory.zone_starts=[0, '16MiB']",
        "nested.host_memory_bytes=8GiB",
    ]);
    let counted = memory(&[
        "memory.memory_bytes=1610612736",
        "memory.stack_limit=67108864",
        "memory.zone_starts=[0, 16777216]",
        "nested.host_memory_bytes=8589934592",
    ]);
    assert_eq!(written, counted);
    for wrong in ["1GB2", "-1", "1.5", "true", "[1]"] {
        let message = error("dpt-paper", &[&format!("memory.memory_bytes={wrong}")]);
        assert!(message.contains("a size in bytes"), "{message}");
    }
}

#[test]
fn an_override_without_value_or_path_is_refused() {
    assert!(error("dpt-paper", &["core.width"]).contains("KEY.KEY=VALUE"));
    assert!(error("dpt-paper", &["name.x=1"]).contains("not a table"));
    assert!(error("dpt-paper", &["core.width=wide"]).contains("width"));
}

#[test]
fn a_file_may_say_only_what_differs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    std::fs::write(
        &path,
        "base = \"skylake-sp\"\nname = \"mine\"\n[core]\nghz = 3.0\n",
    )
    .unwrap();
    let mine = MachineConfig::load(path.to_str().unwrap(), &[]).unwrap();
    let base = MachineConfig::load("skylake-sp", &[]).unwrap();
    assert_eq!(mine.core.ghz, 3.0);
    assert_eq!((mine.core.width, mine.tlb), (base.core.width, base.tlb));
    std::fs::write(&path, "base = \"skylake\"").unwrap();
    assert!(error(path.to_str().unwrap(), &[]).contains("did you mean skylake-sp?"));
    std::fs::write(&path, "base = 5").unwrap();
    let message = error(path.to_str().unwrap(), &[]);
    assert!(
        message.contains("mine.toml: base = 5 is not the name"),
        "{message}"
    );
    std::fs::write(&path, "base = ").unwrap();
    assert!(error(path.to_str().unwrap(), &[]).contains("mine.toml"));
    assert!(error("nowhere.toml", &[]).contains("nowhere.toml"));
}

#[test]
fn what_cannot_be_built_is_named() {
    for (bad, named) in [
        ("cores=0", "cores"),
        ("core.walkers=0", "walkers"),
        ("caches.l2.ways=7", "512 KiB in 7 ways"),
        ("caches.l1.ways=0", "32 KiB in 0 ways"),
        ("caches.l1.kib=0", "0 KiB in"),
        (
            "core.execution.arithmetic.scaled_index=65",
            "core.execution.arithmetic.scaled_index",
        ),
        (
            "tlb.l2_4k={ entries = 1536, ways = 7 }",
            "1536 entries in 7 ways",
        ),
        ("memory.memory_bytes=1099511627776", "128 GiB"),
        ("memory.utilisation=1.5", "utilisation"),
        ("dram.gigabytes_per_second=0", "gigabytes_per_second"),
        // A line would take longer than memory counts.
        ("core.ghz=1e9", "gigabytes_per_second"),
        // In hertz instead of gigahertz.
        (
            "core.ghz=2.6e9",
            "core.ghz = 2.6e9 is not between 0 and 1000000000",
        ),
        (
            "dram.spread=[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1]",
            "dram.spread",
        ),
        (
            "dram.spread=[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]",
            "dram.spread",
        ),
        ("cost.fault_ns=-1", "fault_ns"),
        ("radix.levels=3", "levels"),
    ] {
        let error = match MachineConfig::load("dpt-paper", &[bad.to_owned()]) {
            Err(error) => error.to_string(),
            Ok(config) => {
                let mut nothing = crate::common::Cut::new(&[], 1);
                let mut go_on = |_: pagelab_machine::Progress| ControlFlow::Continue(());
                let simulated = simulate(&config, "radix", &mut nothing, &mut go_on);
                simulated.expect_err(bad).to_string()
            }
        };
        assert!(error.contains(named), "{bad}: {error}");
    }
}

#[test]
fn what_would_take_all_memory_is_refused_before_it_is_made() {
    for (bad, named) in [
        ("cores=1000000", "cores = 1000000 is not between 1 and 1024"),
        (
            "tlb.l2_4k={ entries = 1073741824, ways = 1 }",
            "tlb.l2_4k.entries = 1073741824 is not between 0 and 1048576",
        ),
        (
            "fetch={ tlb = { entries = 4294967295, ways = 1 }, l1 = { kib = 32, ways = 8 } }",
            "fetch.tlb.entries = 4294967295 is not",
        ),
        ("radix.pwc.pmd.entries=1073741824", "radix.pwc.pmd.entries"),
        (
            "caches.llc.kib=4000000000",
            "caches.llc.kib = 4000000000 is not between 0 and 4194304",
        ),
        ("ecpt.max_displacements=1073741824", "65536"),
        ("dram.latency_ns=1e300", "dram.latency_ns = 1e300 is not"),
        ("cost.fault_ns=nan", "cost.fault_ns = NaN is not"),
        (
            "dram.latency_ns=10000000000",
            "dram.latency_ns = 10000000000 is not",
        ),
        (
            "memory.memory_bytes=256GiB",
            "memory.memory_bytes = 274877906944 is not above 0 and at most 128 GiB",
        ),
        (
            "memory.memory_bytes=0",
            "memory.memory_bytes = 0 is not above 0",
        ),
    ] {
        let message = error("dpt-paper", &[bad]);
        assert!(message.contains(named), "{bad}: {message}");
    }
    let message = error("dpt-paper", &["cores=1024", "caches.l2.kib=65536"]);
    assert!(message.contains("at most 16 GiB in all"), "{message}");
    let large = "tlb.l2_4k={ entries = 65536, ways = 4 }";
    let message = error("dpt-paper", &["cores=1024", large]);
    assert!(message.contains("at most 16777216 in all"), "{message}");
}

#[test]
fn latencies_differ_by_rows_or_by_chance() {
    let rows = "dram.rows={ banks = 8, row_bytes = 4096, activate_ns = 10.0, precharge_ns = 10.0 }";
    let spread = "dram.spread=[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 9]";
    let config = MachineConfig::load("dpt-paper", &[rows.into(), spread.into()]).unwrap();
    let mut nothing = crate::common::Cut::new(&[], 1);
    let error = simulate(&config, "radix", &mut nothing, &mut |_| {
        ControlFlow::Continue(())
    })
    .unwrap_err();
    assert!(error.to_string().contains("dram.rows"), "{error}");
}

#[test]
fn an_unknown_design_lists_them_and_the_nearest() {
    let config = MachineConfig::load("dpt-paper", &[]).unwrap();
    let mut nothing = crate::common::Cut::new(&[], 1);
    let error = simulate(&config, "radx", &mut nothing, &mut |_| {
        ControlFlow::Continue(())
    })
    .unwrap_err()
    .to_string();
    assert!(
        error.contains("radix") && error.contains("me_hpt"),
        "{error}"
    );
    assert!(error.contains("did you mean radix?"), "{error}");
}
