//! Every design that there is has a page, which says what it is called, what its keys are and what it
//! counts.

use crate::common::{BASE, Cut, load, map, run, small_machine, store};
use pagelab_machine::Design;
use std::path::Path;

/// The page of a page table, a TLB or a design around both.
fn page(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/designs");
    let names = [name.to_owned(), name.replace('_', "-")];
    let mut texts = (names.iter()).filter_map(|name| {
        let file = folder.join(format!("{name}.md"));
        std::fs::read_to_string(file).ok()
    });
    let text = texts.next();
    text.unwrap_or_else(|| panic!("docs/designs/{name}.md is missing"))
}

#[test]
fn every_design_has_a_page_with_its_keys_and_counters() {
    let events: Vec<_> = std::iter::once(map(BASE, 1 << 24))
        .chain((0..3000u64).map(|i| {
            let addr = BASE + i * 1237 % 4096 * 4096;
            if i % 3 == 0 {
                store(addr)
            } else {
                load(addr, 1, 1)
            }
        }))
        .collect();
    let config = small_machine();
    for design in Design::all() {
        let name = design.name();
        let mut parts: Vec<&str> = name.split('+').collect();
        if let Some(guest) = parts[0].strip_prefix("nested-") {
            parts[0] = guest;
            parts.push("nested");
        }
        let pages: Vec<String> = parts.iter().map(|part| page(part)).collect();
        for (part, text) in parts.iter().zip(&pages) {
            // A design without keys of its own says nothing of them.
            assert!(
                *part == "ideal" || text.contains(&format!("[{part}")),
                "the page of {part} has no keys"
            );
        }
        let result = run(&config, &name, &mut Cut::new(&events, 100));
        for counter in result.tlb_counters.keys() {
            let told = pages
                .iter()
                .any(|text| text.contains(&format!("`{counter}`")));
            assert!(told, "no page of {name} has {counter}");
        }
    }
}
