//! Which branches are recorded as mispredicted, in a program of which it is known.

mod common;

use common::{What, assemble};

/// Branches of each phase of tests/record/branches.s.
const ROUNDS: usize = 65536;

#[test]
fn mispredicted_branches_are_those_that_nobody_can_foresee() {
    let program = assemble("branches.s");
    let phase = program.symbols()["phase"];
    let mut mispredicted: Vec<Vec<u32>> = vec![Vec::new()];
    for event in program.record().events {
        match event.what {
            What::Access(access) if access.addr == phase => mispredicted.push(Vec::new()),
            What::Mispredicted(dep) => mispredicted.last_mut().unwrap().push(dep),
            _ => {}
        }
    }
    let [_, coin, pattern, four_ways, one_way, _] = &mispredicted[..] else {
        panic!("{} phases", mispredicted.len());
    };
    let share = |of: &[u32]| of.len() as f64 / ROUNDS as f64;
    assert!((0.48..0.52).contains(&share(coin)), "{}", share(coin));
    assert!(share(pattern) < 0.01, "{}", share(pattern));
    assert!(
        (0.70..0.80).contains(&share(four_ways)),
        "{}",
        share(four_ways)
    );
    assert!(share(one_way) < 0.01, "{}", share(one_way));
    // The load that decides is the last access but for branches of the loop itself, which wait for
    // nothing.
    for (phase, loads) in [coin, four_ways].into_iter().enumerate() {
        let decided = loads.iter().filter(|&&dep| dep == 1).count();
        assert!(
            loads.len() - decided < ROUNDS / 1000,
            "phase {phase}: {decided}"
        );
    }
}
