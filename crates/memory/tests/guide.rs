//! The examples of docs/developers/adding.md say what is compiled.

use std::fs;
use std::path::Path;

const GUIDE: &str = include_str!("../../../docs/developers/adding.md");

/// The block of Rust of a section.
fn block(heading: &str) -> &'static str {
    let (_, section) = GUIDE.split_once(&format!("\n## {heading}\n")).unwrap();
    let (_, block) = section.split_once("```rust\n").unwrap();
    block.split("```\n").next().unwrap()
}

fn source(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(file)).unwrap()
}

/// Lines that name a part, other than those of its own file.
fn naming(text: &str, parts: &[&str]) -> Vec<String> {
    let names = |line: &&str| parts.iter().any(|part| line.contains(part));
    text.lines().filter(names).map(str::to_owned).collect()
}

#[test]
fn a_policy_is_a_file_and_a_line() {
    let list = source("replacement/mod.rs");
    assert!(list.contains(block("A replacement policy")));
    assert_eq!(
        naming(&list, &["nru"]),
        ["mod nru;", "use nru::Nru;", "    \"nru\": Nru;"]
    );
    for file in ["cache.rs", "lru_sets.rs", "hinted_sets.rs"] {
        assert!(naming(&source(file), &["nru", "Nru"]).is_empty(), "{file}");
    }
}

#[test]
fn a_prefetcher_is_a_file_and_a_line() {
    let list = source("prefetch/mod.rs");
    assert!(list.contains(block("A data prefetcher")));
    assert_eq!(
        naming(&list, &["next_line"]),
        [
            "mod next_line;",
            "pub use next_line::NextLineKeys;",
            "use next_line::NextLine;",
            "    next_line: NextLine(NextLineKeys);",
        ]
    );
}
