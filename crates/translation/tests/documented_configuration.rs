//! The configuration that a design's page shows is the default.

use pagelab_translation::{
    ClusteredConfig, DptConfig, EcptConfig, FlattenedConfig, MeHptConfig, MosaicConfig,
    NestedConfig, RadixConfig, RangeConfig,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Shown<T> {
    #[serde(
        alias = "radix",
        alias = "flattened",
        alias = "clustered",
        alias = "ecpt",
        alias = "me_hpt",
        alias = "dpt",
        alias = "mosaic",
        alias = "nested",
        alias = "range"
    )]
    design: T,
}

/// The indented block below a page's heading "Configuration".
fn shown<T: for<'a> Deserialize<'a>>(page: &str) -> T {
    let (_, section) = page.split_once("\n## Configuration\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let lines = section.lines().filter_map(|line| line.strip_prefix("    "));
    let text = lines.collect::<Vec<_>>().join("\n");
    toml::from_str::<Shown<T>>(&text).unwrap().design
}

#[test]
fn of_radix() {
    let page = include_str!("../../../docs/designs/radix.md");
    assert_eq!(shown::<RadixConfig>(page), RadixConfig::default());
}

#[test]
fn of_dpt() {
    let page = include_str!("../../../docs/designs/dpt.md");
    assert_eq!(shown::<DptConfig>(page), DptConfig::default());
}

#[test]
fn of_flattened() {
    let page = include_str!("../../../docs/designs/flattened.md");
    assert_eq!(shown::<FlattenedConfig>(page), FlattenedConfig::default());
}

#[test]
fn of_clustered() {
    let page = include_str!("../../../docs/designs/clustered.md");
    assert_eq!(shown::<ClusteredConfig>(page), ClusteredConfig::default());
}

#[test]
fn of_ecpt() {
    let page = include_str!("../../../docs/designs/ecpt.md");
    assert_eq!(shown::<EcptConfig>(page), EcptConfig::default());
}

#[test]
fn of_me_hpt() {
    let page = include_str!("../../../docs/designs/me_hpt.md");
    assert_eq!(shown::<MeHptConfig>(page), MeHptConfig::default());
}

#[test]
fn of_mosaic() {
    let page = include_str!("../../../docs/designs/mosaic.md");
    assert_eq!(shown::<MosaicConfig>(page), MosaicConfig::default());
}

#[test]
fn of_nested() {
    let page = include_str!("../../../docs/designs/nested.md");
    assert_eq!(shown::<NestedConfig>(page), NestedConfig::default());
}

#[test]
fn of_range() {
    let page = include_str!("../../../docs/designs/range.md");
    assert_eq!(shown::<RangeConfig>(page), RangeConfig::default());
}
