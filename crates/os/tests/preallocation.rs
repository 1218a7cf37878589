//! Memory in use before the programs start.

use pagelab_addr::Pfn;
use pagelab_os::{NodeConfig, Os, OsConfig};
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

/// 256 MiB with so many free blocks of each order.
fn with_free_blocks(free_blocks: Vec<u32>) -> OsConfig {
    OsConfig {
        memory_bytes: 256 << 20,
        zone_starts: vec![0, 16 << 20],
        free_blocks,
        ..OsConfig::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn free_blocks_are_those_asked_for(
        small in prop::collection::vec(0u32..200, 1..=6),
        large in prop::collection::vec(0u32..12, 0..=5),
        seed in any::<u64>(),
    ) {
        let mut wanted = small;
        if !large.is_empty() {
            wanted.resize(6, 0);
            wanted.extend(large);
        }
        let os = Os::new(with_free_blocks(wanted.clone()), seed).unwrap();
        wanted.resize(11, 0);
        prop_assert_eq!(os.frames().buddy().free_blocks(), wanted.clone());
        // Counted from the uses of frames: no two free halves of one block.
        let uses = uses(&os);
        for (order, &count) in wanted.iter().enumerate().take(10) {
            let free = |frames: &[FrameUse]| frames.iter().all(|&u| u == FrameUse::Free);
            let lone = uses.chunks(2 << order).filter(|both| {
                let (lower, upper) = both.split_at(1 << order);
                free(lower) != free(upper)
            });
            prop_assert_eq!(lone.count() as u32, count, "order {}", order);
        }
    }
}

#[test]
fn small_free_blocks_lie_scattered_over_few_pageblocks_of_the_upper_zone() {
    let mut os = Os::new(with_free_blocks(vec![512, 256, 128]), 1).unwrap();
    let mut frames = Vec::new();
    for _ in 0..512 {
        frames.push(os.frames_mut().allocate_table(0).unwrap().0);
    }
    let neighbours = frames.windows(2).filter(|pair| pair[1] == pair[0] + 1);
    assert!(neighbours.count() < 16);
    assert!(frames.iter().all(|&pfn| pfn >= 16 << 8));
    // 1,536 frames, 45 % of their pageblocks.
    let mut blocks: Vec<u32> = frames.iter().map(|pfn| pfn / 512).collect();
    blocks.sort_unstable();
    blocks.dedup();
    assert_eq!(blocks.len(), 7);
}

/// Aligned blocks of each order from 1 to 9 that had some of their frames free but not all, in a guest that had built
/// kernels for hours (`/proc/kpageflags`), and its free blocks.
#[test]
fn small_free_blocks_lie_together_as_on_a_real_machine() {
    let free = [
        22146, 11680, 7453, 3734, 2024, 4284, 5904, 2914, 1340, 215, 2345,
    ];
    let real = [22146, 25305, 22833, 16221, 10412, 9804, 9974, 7884, 5195];
    let os = Os::new(
        OsConfig {
            memory_bytes: 6_553_600 << 12,
            free_blocks: free.to_vec(),
            ..OsConfig::default()
        },
        3,
    )
    .unwrap();
    assert_eq!(os.frames().buddy().free_blocks(), free);
    let uses = uses(&os);
    for (order, real) in (1..).zip(real) {
        let blocks = uses.chunks(1 << order).filter(|frames| {
            let free = frames.iter().filter(|&&u| u == FrameUse::Free).count();
            free > 0 && free < 1 << order
        });
        let ratio = blocks.count() as f64 / f64::from(real);
        assert!((0.8..1.2).contains(&ratio), "order {order}: {ratio:.2}");
    }
}

#[test]
fn free_blocks_that_cannot_be_are_refused() {
    let refused = |config: OsConfig| Os::new(config, 0).unwrap_err();
    for blocks in [
        vec![0; 12],
        vec![(1 << 15) + 1],
        vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 65],
        {
            let mut all = vec![0; 11];
            (all[0], all[10]) = (1, 64);
            all
        },
    ] {
        assert_eq!(refused(with_free_blocks(blocks)).key, "free_blocks");
    }
    let mut nodes = with_free_blocks(vec![1]);
    nodes.nodes = vec![NodeConfig {
        bytes: nodes.memory_bytes,
        latency_ns: 80.0,
        gigabytes_per_second: 20.0,
    }];
    assert_eq!(refused(nodes).key, "free_blocks");
}
