//! Memory in use before the programs start.

use pagelab_addr::Pfn;
use pagelab_os::{Os, OsConfig};
use pagelab_translation::{FrameUse, Frames};
use proptest::prelude::*;

fn os(utilisation: f64, fragmentation: f64, unmovable_share: f64, seed: u64) -> Os {
    let config = OsConfig {
        memory_bytes: 256 << 20,
        zone_starts: vec![0, 16 << 20],
        utilisation,
        fragmentation,
        unmovable_share,
        ..OsConfig::default()
    };
    Os::new(config, seed).unwrap()
}

fn uses(os: &Os) -> Vec<FrameUse> {
    (0..os.frames().count())
        .map(|pfn| os.frames().usage(Pfn(pfn)))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn shares_are_what_was_asked_for(
        utilisation in 0.0..=1.0,
        fragmentation in 0.0..=1.0,
        unmovable in 0.0..=1.0,
        seed in any::<u64>(),
    ) {
        let os = os(utilisation, fragmentation, unmovable, seed);
        let frames = f64::from(os.frames().count());
        let buddy = os.frames().buddy();
        let used = frames - f64::from(buddy.free_frames());
        prop_assert!((used - frames * utilisation).abs() <= 0.5);

        // Counted from the uses of frames, block by block, not from the allocator's counters.
        let uses = uses(&os);
        let free_blocks = uses.chunks(512).filter(|block| block.iter().all(|&u| u == FrameUse::Free));
        let usable = free_blocks.count() as f64 * 512.0;
        let free = frames - used;
        let blocks_left = frames / 512.0 - used;
        // Rounded to whole blocks; and a block without a frame in use is free, wanted or not.
        let wanted = (free * (1.0 - fragmentation)).max(blocks_left * 512.0);
        prop_assert!((usable - wanted).abs() <= 512.0, "{usable} {wanted}");

        let unmovable_frames = uses.iter().filter(|u| matches!(u, FrameUse::Unmovable(_))).count();
        let tolerance = 1024.0 + 0.05 * used;
        prop_assert!((unmovable_frames as f64 - used * unmovable).abs() <= tolerance);
    }
}

#[test]
fn the_same_seed_gives_the_same_machine() {
    let first = uses(&os(0.7, 0.5, 0.1, 1));
    assert_eq!(first, uses(&os(0.7, 0.5, 0.1, 1)));
    assert_ne!(first, uses(&os(0.7, 0.5, 0.1, 2)));
}

#[test]
fn impossible_configurations_are_refused_by_key() {
    let refused = |change: fn(&mut OsConfig)| {
        let mut config = OsConfig::default();
        change(&mut config);
        Os::new(config, 0).unwrap_err().key
    };
    assert_eq!(refused(|c| c.utilisation = 1.5), "utilisation");
    assert_eq!(refused(|c| c.fragmentation = f64::NAN), "fragmentation");
    assert_eq!(refused(|c| c.unmovable_share = -0.1), "unmovable_share");
    assert_eq!(refused(|c| c.memory_bytes = 0), "memory_bytes");
    assert_eq!(
        refused(|c| c.memory_bytes = (1 << 30) + 4096),
        "memory_bytes"
    );
    assert_eq!(refused(|c| c.memory_bytes = 16 << 40), "memory_bytes");
    assert_eq!(refused(|c| c.max_order = 30), "max_order");
    assert_eq!(refused(|c| c.zone_starts = vec![4096]), "zone_starts");
    assert_eq!(refused(|c| c.zone_starts = vec![]), "zone_starts");
    assert_eq!(refused(|c| c.zone_starts = vec![0, 12345]), "zone_starts");
}

#[test]
fn unknown_keys_are_refused_and_known_ones_optional() {
    let config: OsConfig = toml::from_str("utilisation = 0.7\npage_policy = 'thp'").unwrap();
    assert_eq!(config.utilisation, 0.7);
    assert_eq!(config.memory_bytes, OsConfig::default().memory_bytes);
    let error = toml::from_str::<OsConfig>("utilization = 0.7").unwrap_err();
    assert!(error.to_string().contains("utilization"), "{error}");
}
