//! The core in times that can be worked out by hand.

use pagelab_cpu::{Core, CoreConfig, Idle, Trapped};

fn core(reorder_buffer: u32, walkers: u32) -> Core {
    let config = CoreConfig {
        ghz: 1.0,
        width: 4,
        reorder_buffer,
        store_buffer: 56,
        miss_buffers: 10,
        l2_miss_buffers: None,
        execution: None,
        store_ports: 1,
        walkers,
        misprediction: 0,
    };
    Core::new(&config, 0).unwrap()
}

#[test]
fn independent_misses_overlap_and_dependent_ones_do_not() {
    let run = |dep| {
        let mut core = core(224, 1);
        for _ in 0..100 {
            let part = core.dispatch(0, [dep, 0].into(), false);
            core.complete(
                part,
                Trapped::default(),
                false,
                part.start,
                part.start + 800,
            );
        }
        core.now()
    };
    assert_eq!(run(1), 1 + 100 * 800);
    assert!(run(0) < 1100);
}

/// Anybody may ask for any time.
const ANY: Idle = Idle { from: 0, least: 1 };

#[test]
fn a_second_walk_waits_for_the_only_walker() {
    let mut one = core(224, 1);
    let walker = one.walker(10, || 290);
    assert_eq!(walker.begins, 10);
    one.walked(walker, 300, ANY);
    assert_eq!(one.walker(20, || 290).begins, 300);
    let mut two = core(224, 2);
    let walker = two.walker(10, || 290);
    two.walked(walker, 300, ANY);
    assert_eq!(two.walker(20, || 290).begins, 20);
}

#[test]
fn a_walk_that_is_ready_earlier_does_not_wait_for_one_that_comes_before_it_in_the_program() {
    let mut core = core(224, 1);
    let later = core.walker(1000, || 200);
    core.walked(later, 1200, ANY);
    // The walker is idle until 1000, which is time for one walk of 300 and two of 350.
    for (asked, length, begins) in [
        (20, 300, 20),
        (30, 350, 320),
        (40, 350, 1200),
        (50, 330, 670),
    ] {
        let walker = core.walker(asked, || length);
        assert_eq!(walker.begins, begins);
        core.walked(walker, begins + length, ANY);
    }
}

#[test]
fn idle_time_that_nobody_can_use_is_not_kept() {
    let mut core = core(224, 1);
    let later = core.walker(1000, || 200);
    // From 900 on, a walk of at least 60 fits, but not before a walk of at least 150.
    let mut other = core.clone();
    core.walked(
        later,
        1200,
        Idle {
            from: 900,
            least: 60,
        },
    );
    assert_eq!(core.walker(910, || 60).begins, 910);
    other.walked(
        later,
        1200,
        Idle {
            from: 900,
            least: 150,
        },
    );
    assert_eq!(other.walker(910, || 60).begins, 1200);
}

#[test]
fn a_value_out_of_range_is_named() {
    let good = CoreConfig {
        ghz: 2.66,
        width: 4,
        reorder_buffer: 224,
        store_buffer: 56,
        miss_buffers: 10,
        l2_miss_buffers: None,
        execution: None,
        store_ports: 1,
        walkers: 1,
        misprediction: 0,
    };
    let refused = |config: CoreConfig| Core::new(&config, 0).unwrap_err().to_string();
    let error = refused(CoreConfig { walkers: 0, ..good });
    assert!(error.contains("walkers"), "{error}");
    let error = refused(CoreConfig {
        l2_miss_buffers: Some(0),
        ..good
    });
    assert!(error.contains("l2_miss_buffers"), "{error}");
    let error = refused(CoreConfig {
        ghz: f64::NAN,
        ..good
    });
    assert!(error.contains("ghz"), "{error}");
}
