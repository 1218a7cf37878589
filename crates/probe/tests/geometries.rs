//! The detector against curves whose steps are known: simulated stores and synthetic faults.

use fastrand::Rng;
use pagelab_addr::{Asid, PageId, PageSize, Pfn, Vpn};
use pagelab_memory::LruSets;
use pagelab_memory::simd::Baseline;
use pagelab_probe::detect::{Curve, Options, Shape, StepFit, Steps, find_steps, plateaus};
use pagelab_translation::{
    ConventionalTlb, Ideal, Page, Tlb, TlbArrayConfig, TlbConfig, Translation,
};
use std::convert::Infallible;

/// A level of a TLB or cache: sets and ways.
type Level = (usize, usize);

const COSTS: [f64; 4] = [1.3, 5.0, 28.0, 90.0];

/// Mean latency of a cyclic walk over `places` consecutive places, in the order `order`.
fn simulated(levels: &[Level], order: &[u32]) -> f64 {
    let mut stores: Vec<LruSets> = levels.iter().map(|&(s, w)| LruSets::new(s, w)).collect();
    let mut total = 0.0;
    const LAPS: usize = 3;
    for lap in 0..LAPS {
        for &place in order {
            let mut cost = COSTS[levels.len()];
            for (depth, store) in stores.iter_mut().enumerate() {
                let set = place as usize % store.sets();
                if store.get(set, place).is_some() {
                    cost = cost.min(COSTS[depth]);
                } else {
                    store.insert(set, place, 0);
                }
            }
            if lap == LAPS - 1 {
                total += cost;
            }
        }
    }
    total / order.len() as f64
}

/// The same for a TLB of the simulator.
fn simulated_tlb(levels: &[Level; 2], order: &[u32]) -> f64 {
    let array = |(sets, ways): Level| TlbArrayConfig::new((sets * ways) as u32, ways as u32);
    let config = TlbConfig {
        l1_4k: array(levels[0]),
        l1_2m: None,
        l1_1g: None,
        l2_4k: array(levels[1]),
        l2_2m: None,
        l2_1g: None,
        l2_cycles: 8,
        asids: true,
    };
    let mut tlb = ConventionalTlb::new(&config).expect("whole sets");
    const LAPS: usize = 3;
    let mut total = 0.0;
    for lap in 0..LAPS {
        for &place in order {
            let page = Page {
                id: PageId(place),
                asid: Asid(0),
                vpn: Vpn(u64::from(place)),
            };
            let cost = if tlb.lookup_first::<Baseline>(page.id, false).is_some() {
                COSTS[0]
            } else if tlb.lookup_second::<Baseline>(page, false).is_some() {
                COSTS[1]
            } else {
                let translation = Translation {
                    pfn: Pfn(place),
                    size: PageSize::Base4K,
                    writable: true,
                };
                tlb.fill::<Baseline>(page, translation, &Ideal::new());
                COSTS[2]
            };
            if lap == LAPS - 1 {
                total += cost;
            }
        }
    }
    total / order.len() as f64
}

/// A guest that has 3 MiB of a last level of which the system claims 32 MiB: 13 ns up to there, 150 ns
/// behind. The step must be found where it is, and memory must be a plateau, not a slope.
#[test]
fn a_last_level_smaller_than_claimed_is_found_where_it_ends() {
    const KIB: usize = 1024 / 64;
    const LATENCIES: [f64; 4] = [0.9, 3.2, 13.0, 150.0];
    let levels: [(usize, usize); 3] = [(48 * KIB, 12), (1024 * KIB, 16), (3072 * KIB, 16)];
    let options = Options {
        dense_limit: 1 << 16,
        resamples: 25,
        ..Options::new(16, (128 * 1024 * KIB) as u64)
    };
    let found = detect(&options, 11, &BUSY, |places, _| {
        // Consecutive lines fall evenly into the sets: a set with more than it has ways misses all.
        let missing = |&(lines, ways): &(usize, usize)| {
            let sets = lines / ways;
            let over = places as usize % sets;
            let held = places as usize / sets;
            let full = if held >= ways { places as usize } else { 0 };
            let some = if held == ways {
                over * (ways + 1)
            } else {
                full
            };
            some as f64 / places as f64
        };
        let misses: Vec<f64> = levels.iter().map(missing).collect();
        let mut latency = LATENCIES[0];
        for (level, miss) in misses.iter().enumerate() {
            latency += miss * (LATENCIES[level + 1] - LATENCIES[level]);
        }
        latency
    });
    let last = found.steps.last().expect("a step to memory");
    let capacity = last.fit.expect("a fit").capacity;
    assert!(
        capacity.abs_diff(3072 * KIB as u64) * 20 < capacity,
        "{last:?}"
    );
    let plateaus: Vec<f64> = found.plateaus.iter().map(|p| p.level).collect();
    assert_eq!(plateaus.len(), LATENCIES.len(), "{plateaus:?}");
    let memory = found.plateaus.last().expect("memory");
    assert!(memory.first < 32 * 1024 * KIB as u64, "{memory:?}");
    assert!(memory.last == 128 * 1024 * KIB as u64, "{memory:?}");
    // The clock slows by 30 % over the rounds, so that latencies are known up to that.
    for (found, true_latency) in plateaus.iter().zip(LATENCIES) {
        assert!((found / true_latency - 1.0).abs() < 0.3, "{plateaus:?}");
    }
}

struct Disturbance {
    /// Standard deviation of each sample, relative.
    noise: f64,
    /// Share of samples hit by interference that multiplies them.
    hits: f64,
    /// Factor from the first to the last round, as a clock that slows down makes.
    drift: f64,
}

const QUIET: Disturbance = Disturbance {
    noise: 0.0,
    hits: 0.0,
    drift: 1.0,
};
const BUSY: Disturbance = Disturbance {
    noise: 0.01,
    hits: 0.1,
    drift: 1.3,
};

/// Runs the detector on `truth(places)` seen through a disturbance.
fn detect(
    options: &Options,
    seed: u64,
    disturbance: &Disturbance,
    mut truth: impl FnMut(u64, &mut Rng) -> f64,
) -> Steps {
    let mut rng = Rng::with_seed(seed);
    let mut noise = rng.fork();
    let result: Result<Steps, Infallible> = find_steps(options, &mut rng, |x, rounds| {
        let clean: Vec<f64> = x.iter().map(|&x| truth(x, &mut noise)).collect();
        let rounds = (0..rounds)
            .map(|round| {
                let drift = disturbance.drift.powf(round as f64 / rounds as f64);
                clean
                    .iter()
                    .map(|latency| {
                        let normal: f64 = (0..12).map(|_| noise.f64()).sum::<f64>() - 6.0;
                        let hit = noise.f64() < disturbance.hits;
                        let factor = if hit { 1.0 + 3.0 * noise.f64() } else { 1.0 };
                        latency * drift * factor * (1.0 + disturbance.noise * normal)
                    })
                    .collect()
            })
            .collect();
        Ok(Curve {
            x: x.to_vec(),
            rounds,
        })
    });
    let Ok(steps) = result;
    steps
}

fn detect_levels(
    levels: &[Level; 2],
    seed: u64,
    disturbance: &Disturbance,
    simulate: fn(&[Level; 2], &[u32]) -> f64,
) -> Steps {
    let largest = levels.iter().map(|(s, w)| s * w).max().unwrap_or(1) as u64;
    let options = Options {
        // Rounds without noise are all the same.
        resamples: if disturbance.noise > 0.0 { 25 } else { 2 },
        ..Options::new(4, largest * 4)
    };
    detect(&options, seed, disturbance, |places, rng| {
        let mut order: Vec<u32> = (0..places as u32).collect();
        rng.shuffle(&mut order);
        simulate(levels, &order)
    })
}

/// Two-level TLBs as (sets, ways) pairs: shipped ones, non-powers of two in entries and in sets,
/// direct-mapped to fully associative.
const GEOMETRIES: [[Level; 2]; 36] = [
    [(16, 4), (128, 12)], // Skylake: 64, 1536
    [(16, 4), (128, 8)],  // Haswell: 64, 1024
    [(16, 4), (128, 4)],  // Sandy Bridge: 64, 512
    [(16, 6), (128, 16)], // Golden Cove: 96, 2048
    [(1, 64), (128, 12)], // Zen 1: 64 fully associative, 1536
    [(1, 72), (256, 12)], // Zen 4: 72, 3072
    [(1, 96), (256, 16)], // Zen 5: 96, 4096
    [(1, 48), (256, 4)],  // Cortex-A72: 48, 1024
    [(1, 48), (256, 5)],  // Neoverse N1: 48, 1280
    [(1, 44), (256, 6)],  // 44, 1536
    [(1, 40), (256, 8)],  // 40, 2048
    [(8, 4), (64, 4)],    // 32, 256
    [(8, 2), (64, 8)],    // 16, 512
    [(16, 1), (512, 1)],  // direct-mapped: 16, 512
    [(32, 2), (1024, 1)], // 64, 1024
    [(64, 1), (256, 2)],  // 64, 512
    [(1, 16), (1, 256)],  // fully associative
    [(1, 20), (1, 300)],
    [(1, 33), (1, 777)],
    [(1, 100), (1, 1000)],
    [(5, 4), (45, 7)],     // odd sets: 20, 315
    [(7, 3), (61, 5)],     // 21, 305
    [(12, 5), (100, 9)],   // 60, 900
    [(24, 4), (192, 6)],   // 96, 1152
    [(10, 8), (160, 10)],  // 80, 1600
    [(3, 16), (96, 16)],   // 48, 1536
    [(6, 8), (200, 5)],    // 48, 1000
    [(32, 4), (384, 4)],   // 128, 1536
    [(64, 4), (512, 6)],   // 256, 3072
    [(64, 4), (320, 8)],   // 256, 2560
    [(1, 12), (16, 8)],    // 12, 128
    [(2, 8), (32, 6)],     // 16, 192
    [(4, 6), (128, 3)],    // 24, 384
    [(11, 11), (121, 11)], // 121, 1331
    [(1, 56), (144, 14)],  // 56, 2016
    [(16, 5), (256, 7)],   // 80, 1792
];

fn sets_of(fit: StepFit) -> u64 {
    match fit.shape {
        Shape::Even { sets } => sets,
        _ => 0,
    }
}

#[test]
fn tlbs_of_the_simulator_are_read_back_exactly() {
    for (seed, levels) in GEOMETRIES.iter().enumerate() {
        let found = detect_levels(levels, seed as u64, &QUIET, simulated_tlb);
        let read: Vec<(u64, u64)> = found
            .steps
            .iter()
            .filter_map(|s| s.fit.map(|f| (f.capacity, sets_of(f))))
            .collect();
        let truth: Vec<(u64, u64)> = levels
            .iter()
            .map(|&(s, w)| ((s * w) as u64, s as u64))
            .collect();
        assert_eq!(read, truth, "{levels:?}: {:?}", found.steps);
        let doubts: Vec<_> = found
            .steps
            .iter()
            .filter_map(|s| s.no_conclusion.as_ref())
            .collect();
        assert!(doubts.is_empty(), "{levels:?}: {doubts:?}");
    }
}

/// Under noise, with every tenth sample hit by interference and a clock that slows by 30 %, the
/// interval must hold the truth, and must be narrow.
#[test]
fn noise_interference_and_drift_leave_the_truth_in_the_interval() {
    // Every third geometry: the bootstrap takes its time.
    const STEP: usize = 3;
    let (mut concluded, mut held, mut named) = (0, 0, 0);
    for (seed, levels) in GEOMETRIES.iter().enumerate().step_by(STEP) {
        let found = detect_levels(levels, 100 + seed as u64, &BUSY, |l, o| simulated(l, o));
        for &(sets, ways) in levels {
            let truth = (sets * ways) as u64;
            // The step of this level: the one whose sweep brackets it, give or take an octave.
            let step = found
                .steps
                .iter()
                .find(|s| s.before < truth * 2 && s.after > truth / 2);
            let Some((step, fit)) = step.and_then(|s| Some((s, s.fit?))) else {
                continue;
            };
            if step.no_conclusion.is_none() {
                concluded += 1;
                let margin = truth / 50;
                let range = fit.capacity_low.saturating_sub(margin)..=fit.capacity_high + margin;
                held += usize::from(range.contains(&truth));
                named += usize::from(step.nominal == Some(truth));
            }
        }
    }
    let levels = GEOMETRIES.len() / STEP * 2;
    assert!(
        concluded * 10 >= levels * 9,
        "{concluded} of {levels} concluded"
    );
    assert!(
        held * 100 >= concluded * 95,
        "{held} of {concluded} intervals hold the truth"
    );
    assert!(
        named * 10 >= concluded * 7,
        "{named} of {concluded} named exactly"
    );
}

/// Page walks get slower without a step as their tables spread over the caches.
fn slope(places: u64) -> f64 {
    2.0 * (places as f64).powf(0.01)
}

#[test]
fn a_curve_without_steps_has_none() {
    for seed in 0..40 {
        for disturbance in [QUIET, BUSY] {
            let found = detect(&Options::new(4, 1 << 14), seed, &disturbance, |x, _| {
                slope(x)
            });
            let claimed: Vec<_> = found
                .steps
                .iter()
                .filter(|s| s.no_conclusion.is_none())
                .collect();
            assert!(claimed.is_empty(), "seed {seed}: {claimed:?}");
        }
    }
}

#[test]
fn a_level_that_the_sweep_does_not_overflow_is_not_invented() {
    let levels = [(16, 4), (128, 12)];
    let options = Options::new(4, 1400);
    let found = detect(&options, 7, &BUSY, |places, _| {
        let order: Vec<u32> = (0..places as u32).collect();
        simulated(&levels, &order)
    });
    let nominal: Vec<_> = found.steps.iter().map(|s| s.nominal).collect();
    assert_eq!(nominal, [Some(64)]);
}

#[test]
fn lost_samples_do_not_move_a_step() {
    let found = detect(&Options::new(4, 1024), 3, &QUIET, |places, rng| {
        if rng.f64() < 0.15 {
            return f64::NAN;
        }
        let order: Vec<u32> = (0..places as u32).collect();
        simulated(&[(1, 48)], &order)
    });
    let nominal: Vec<_> = found.steps.iter().map(|s| s.nominal).collect();
    assert_eq!(nominal, [Some(48)]);
}

/// Noise larger than the steps: whatever is reported must be reported as not concluded.
#[test]
fn hopeless_noise_gives_no_conclusion() {
    let hopeless = Disturbance {
        noise: 1.5,
        hits: 0.5,
        drift: 3.0,
    };
    let mut claims = 0;
    for seed in 0..30 {
        let found = detect(&Options::new(4, 4096), seed, &hopeless, |x, _| {
            if x <= 64 { 1.3 } else { 1.5 }
        });
        claims += found
            .steps
            .iter()
            .filter(|s| s.no_conclusion.is_none())
            .count();
    }
    assert!(claims <= 1, "{claims} claims");
}

#[test]
fn random_replacement_is_recognised_and_its_capacity_read() {
    for (seed, capacity) in [64u64, 200, 512].into_iter().enumerate() {
        let found = detect(
            &Options::new(4, capacity * 16),
            seed as u64,
            &QUIET,
            |places, rng| randomly_replaced(capacity as usize, places as usize, rng),
        );
        assert_eq!(found.steps.len(), 1, "{:?}", found.steps);
        let fit = found.steps[0].fit.expect("a fit");
        assert_eq!(fit.shape, Shape::RandomReplacement);
        assert!(
            fit.capacity.abs_diff(capacity) * 20 <= capacity,
            "{capacity}: {fit:?}"
        );
    }
}

/// Physically indexed caches under random frames, and hashed TLBs: the slope begins far below
/// the capacity.
#[test]
fn scattered_places_are_recognised_and_their_capacity_read() {
    for (seed, (sets, ways)) in [(256usize, 16usize), (1024, 4), (128, 12)]
        .into_iter()
        .enumerate()
    {
        let capacity = sets * ways;
        let options = Options::new(8, capacity as u64 * 4);
        let found = detect(&options, seed as u64, &QUIET, |places, rng| {
            const DRAWS: usize = 9;
            let missing: usize = (0..DRAWS)
                .map(|_| {
                    let mut held = vec![0usize; sets];
                    (0..places).for_each(|_| held[rng.usize(0..sets)] += 1);
                    held.iter().filter(|&&h| h > ways).sum::<usize>()
                })
                .sum();
            2.0 + 10.0 * missing as f64 / (places as usize * DRAWS) as f64
        });
        assert_eq!(found.steps.len(), 1, "{:?}", found.plateaus);
        let fit = found.steps[0].fit.expect("a fit");
        assert!(matches!(fit.shape, Shape::Scattered { .. }), "{fit:?}");
        assert!(
            fit.capacity.abs_diff(capacity as u64) * 20 <= capacity as u64,
            "{fit:?}"
        );
    }
}

/// Sixteen ways of which four are replaced, as the second-level TLB of Zen 5 does: neither a cliff
/// nor a slope from below, and it must be told from them.
#[test]
fn stores_that_resist_cyclic_walks_are_recognised_and_their_capacity_read() {
    for (seed, (sets, ways)) in [(64usize, 16usize), (256, 16), (96, 8)]
        .into_iter()
        .enumerate()
    {
        let capacity = sets * ways;
        let options = Options::new(8, capacity as u64 * 8);
        let found = detect(&options, seed as u64, &QUIET, |places, rng| {
            2.0 + 10.0 * missing_where_a_quarter_is_replaced(sets, ways, places as usize, rng)
        });
        assert_eq!(found.steps.len(), 1, "{:?}", found.plateaus);
        let step = &found.steps[0];
        let fit = step.fit.expect("a fit");
        assert!(matches!(fit.shape, Shape::Resistant { .. }), "{fit:?}");
        assert!(
            fit.capacity.abs_diff(capacity as u64) * 20 <= capacity as u64,
            "{fit:?}"
        );
        assert_eq!(step.no_conclusion, None);
    }
}

/// Share of a cyclic walk over consecutive places that misses sets of which a quarter of the ways
/// is replaced at random and the rest never.
fn missing_where_a_quarter_is_replaced(
    sets: usize,
    ways: usize,
    places: usize,
    rng: &mut Rng,
) -> f64 {
    let (kept, changing, laps) = (ways - ways / 4, ways / 4, 40);
    // Sets that hold as many places behave alike: one of each of the two numbers that occur.
    let missing_in = |held: usize, rng: &mut Rng| -> f64 {
        if held <= ways {
            return 0.0;
        }
        let mut entries: Vec<usize> = (kept..ways).collect();
        let mut missing = 0;
        for _ in 0..laps {
            for place in kept..held {
                if !entries.contains(&place) {
                    missing += 1;
                    entries[rng.usize(0..changing)] = place;
                }
            }
        }
        f64::from(missing) / laps as f64
    };
    let fuller = places % sets;
    let missing = missing_in(places / sets + 1, rng) * fuller as f64
        + missing_in(places / sets, rng) * (sets - fuller) as f64;
    missing / places as f64
}

fn randomly_replaced(capacity: usize, places: usize, rng: &mut Rng) -> f64 {
    let mut held = vec![false; places];
    let mut entries: Vec<usize> = Vec::new();
    let (mut misses, warm, laps) = (0, 12, 20);
    for lap in 0..laps {
        for place in 0..places {
            if held[place] {
                continue;
            }
            misses += usize::from(lap >= warm);
            held[place] = true;
            if entries.len() < capacity {
                entries.push(place);
            } else {
                let victim = &mut entries[rng.usize(0..capacity)];
                held[std::mem::replace(victim, place)] = false;
            }
        }
    }
    COSTS[0] + (COSTS[1] - COSTS[0]) * misses as f64 / (places * (laps - warm)) as f64
}

/// Lines of a guest on a Zen 4 as they were measured: 32 KiB, 1 MiB, and of the last level, which
/// other guests use, the 6 MiB or so that they leave, in which longer laps are slower; and the same
/// an hour later.
#[test]
fn a_level_that_rises_between_two_plateaus_is_one() {
    for text in [
        include_str!("measured/zen4-guest-lines.csv"),
        include_str!("measured/zen4-guest-lines-later.csv"),
    ] {
        let found = plateaus(&as_measured(text));
        let own = (found.iter()).find(|plateau| (12.0..16.0).contains(&plateau.level));
        let own = own.unwrap_or_else(|| panic!("{found:?}"));
        assert!(own.first > 16_384 && own.last < 131_072, "{found:?}");
    }
}

/// A curve with these medians and intervals.
fn as_measured(text: &str) -> Curve {
    let fields = |line: &str| {
        line.split(',')
            .map(|field| field.parse().unwrap())
            .collect()
    };
    let points: Vec<Vec<f64>> = text.lines().skip(1).map(fields).collect();
    let ends = [(1, 1), (1, 2), (2, 2), (2, 2), (2, 2), (2, 3), (3, 3)];
    let mut rng = Rng::with_seed(1);
    let mut rounds = vec![Vec::new(); ends.len()];
    for point in &points {
        let mut values = ends.map(|(from, to)| (point[from] + point[to]) / 2.0);
        rng.shuffle(&mut values);
        (rounds.iter_mut().zip(values)).for_each(|(round, value)| round.push(value));
    }
    let x = points.iter().map(|p| p[0] as u64).collect();
    Curve { x, rounds }
}
