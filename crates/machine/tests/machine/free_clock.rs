//! Cost of translation by the second clock, beside what `ideal` saves.

use crate::common::run;
use pagelab_machine::{MachineConfig, RunResult};
use pagelab_workloads::Workload;

/// A cause of time that the two have in common would hide a difference, so faults take none.
fn machine() -> MachineConfig {
    let overrides = [
        "free_clock=true",
        "memory.memory_bytes=1073741824",
        "memory.utilisation=0.1",
        "cost.fault_ns=0.0",
        "cost.zero_4k_ns=0.0",
        "cost.table_page_ns=0.0",
        "cost.probe_ns=0.0",
    ];
    MachineConfig::load("dpt-paper", &overrides.map(str::to_owned)).unwrap()
}

fn simulate(design: &str, workload: &str, parameters: &[(&str, &str)]) -> RunResult {
    let parameters: Vec<(String, String)> = parameters
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    let workload = Workload::find(workload).unwrap();
    run(
        &machine(),
        design,
        &mut workload.start(&parameters).unwrap(),
    )
}

/// `ideal` has other cache contents, too: no entries of page tables, and data in other frames.
#[test]
fn free_translation_saves_what_the_second_clock_says() {
    for (workload, footprint, length) in [
        ("random-updates", "128MiB", ("updates", "100K")),
        ("kv", "256MiB", ("operations", "20K")),
        ("stream", "24MiB", ("iterations", "1")),
    ] {
        let parameters = &[("windows", "0"), ("footprint", footprint), length];
        let ideal = simulate("ideal", workload, parameters).cycles;
        assert_eq!(ideal.causes.recoverable, Some(0));
        for design in ["radix", "dpt", "ecpt", "me_hpt"] {
            let cycles = simulate(design, workload, parameters).cycles;
            let said = cycles.causes.recoverable.unwrap() as f64;
            let saved = cycles.total as f64 - ideal.total as f64;
            assert!(
                (said - saved).abs() <= 0.05 * saved,
                "{workload} {design}: {said} cycles said, {saved} saved of {}",
                cycles.total
            );
        }
    }
}

#[test]
fn it_changes_nothing_else() {
    let workload = Workload::find("random-updates").unwrap();
    let parameters = [("footprint", "8MiB"), ("updates", "3000")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()));
    let mut config = machine();
    let with = run(&config, "radix", &mut workload.start(&parameters).unwrap());
    config.free_clock = false;
    let without = run(&config, "radix", &mut workload.start(&parameters).unwrap());
    assert_eq!(without.cycles.causes.recoverable, None);
    let value = |run: &RunResult| {
        let mut value = serde_json::to_value(run).unwrap();
        value["machine"] = ().into();
        value["cycles"]
            .as_object_mut()
            .unwrap()
            .remove("recoverable");
        for window in value["windows"].as_array_mut().unwrap() {
            window.as_object_mut().unwrap().remove("recoverable");
        }
        value
    };
    assert_eq!(value(&with), value(&without));
}
