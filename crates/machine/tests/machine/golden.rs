//! Statistics of tiny runs, as they were when somebody last looked at them: of three all, of the others
//! those of time, translation and caches.
//!
//! A change that should not change results must leave these alone; one that should is reviewed by
//! its difference here. `UPDATE_GOLDEN=1 cargo test -p pagelab-machine --test machine` rewrites
//! the files.

use crate::common::{run, small_machine};
use pagelab_machine::Design;
use pagelab_workloads::Workload;
use std::path::Path;

const WHOLE: [&str; 3] = [
    "random-updates.radix",
    "random-updates.dpt",
    "random-updates.radix+victima",
];
const SECTIONS: [&str; 7] = [
    "caches",
    "cycles",
    "design_counters",
    "dram",
    "tlb",
    "tlb_counters",
    "walks",
];

#[test]
fn tiny_runs_give_the_recorded_statistics() {
    let parameters: &[(&str, &[(&str, &str)])] = &[
        (
            "random-updates",
            &[("footprint", "8MiB"), ("updates", "3000")],
        ),
        ("pointer-chase", &[("pages", "300"), ("loads", "3000")]),
    ];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    for (workload, parameters) in parameters {
        let parameters: Vec<(String, String)> = parameters
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        // Radix stands for all page tables with other TLBs.
        let told = |d: &Design| !d.name().contains('+') || d.name().starts_with("radix+");
        for design in Design::all().filter(told) {
            let mut source = Workload::find(workload)
                .unwrap()
                .start(&parameters)
                .unwrap();
            let result = run(&small_machine(), &design.name(), &mut source);
            let mut json = serde_json::to_value(&result).unwrap();
            // The map is large and says what the counters say.
            json["memory_map"] = result.memory_map.len().into();
            json["timeline"] = result.timeline.len().into();
            let name = format!("{workload}.{}", design.name());
            if !WHOLE.contains(&name.as_str()) {
                let sections = json.as_object_mut().unwrap();
                sections.retain(|section, _| SECTIONS.contains(&section.as_str()));
            }
            let text = serde_json::to_string_pretty(&json).unwrap() + "\n";
            let path = folder.join(format!("{name}.json"));
            if std::env::var_os("UPDATE_GOLDEN").is_some() {
                std::fs::write(&path, &text).unwrap();
            }
            let golden = std::fs::read_to_string(&path)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(golden == text, "{} differs:\n{text}", path.display());
        }
    }
}
