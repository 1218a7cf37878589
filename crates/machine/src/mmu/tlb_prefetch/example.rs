//! The worked example of docs/developers/adding.md, "An addition, whole", says what there is.

use super::stride::{Stride, StrideKeys};
use super::{Miss, Prefetcher};
use std::fs;
use std::path::{Path, PathBuf};

const GUIDE: &str = include_str!("../../../../../docs/developers/adding.md");

fn section() -> &'static str {
    let (_, section) = GUIDE.split_once("\n## An addition, whole\n").unwrap();
    section.split("\n## ").next().unwrap()
}

#[test]
fn the_file_is_shown_and_short() {
    let shown = "<!-- file: ../crates/machine/src/mmu/tlb_prefetch/stride.rs -->";
    assert!(section().contains(shown));
    assert!(include_str!("stride.rs").lines().count() < 60);
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// Lines of the crate that name it, in the form in which the guide has them.
#[test]
fn no_other_line_of_the_simulator_names_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    let own = ["stride.rs", "example.rs"];
    let mut named = Vec::new();
    for path in files
        .iter()
        .filter(|path| !own.iter().any(|own| path.ends_with(own)))
    {
        let name = path.strip_prefix(root).unwrap().display().to_string();
        let text = fs::read_to_string(path).unwrap();
        let names = |line: &&str| {
            let parts = ["mod stride;", "stride::", "\"stride\""];
            parts.iter().any(|part| line.contains(part))
        };
        let lines = text.lines().filter(names).map(str::to_owned);
        named.extend(lines.map(|line| format!("{name} {line}")));
    }
    let mut file = "";
    let mut told = Vec::new();
    let (_, lines) = section().split_once("```rust\n").unwrap();
    for line in lines.split("```\n").next().unwrap().lines() {
        match line.strip_prefix("// crates/machine/") {
            Some(name) => file = name,
            None => told.push(format!("{file} {line}")),
        }
    }
    named.sort();
    told.sort();
    assert_eq!(named, told);
}

#[test]
fn it_says_the_pages_of_the_guide() {
    let mut stride = Stride::from(StrideKeys::default());
    let mut next = Vec::new();
    for page in [10, 13, 16] {
        assert!(next.is_empty());
        let instruction = Some(1);
        stride.missed(Miss { page, instruction }, &mut next);
    }
    assert_eq!(next, [19]);
}
