//! The examples of docs/developers/adding.md are what is compiled.

use std::fs;
use std::path::Path;

const GUIDE: &str = include_str!("../../../docs/developers/adding.md");

/// The blocks of Rust of a section.
fn blocks(heading: &str) -> Vec<&'static str> {
    let (_, section) = GUIDE.split_once(&format!("\n## {heading}\n")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let blocks = section.split("```rust\n").skip(1);
    blocks
        .map(|block| block.split_once("```\n").unwrap().0)
        .collect()
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
    let blocks = blocks("A replacement policy");
    assert_eq!(blocks[0], source("replacement/nru.rs"));
    let list = source("replacement/mod.rs");
    assert!(list.contains(blocks[1]));
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
    let blocks = blocks("A data prefetcher");
    let list = source("prefetch/mod.rs");
    assert!(list.contains(blocks[0]));
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
