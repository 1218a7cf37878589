//! Branches that are recorded as mispredicted, in a program of which it is known.

mod common;

use common::{What, assemble};
use pagelab_events::{Access, Batch, Mispredicted, dependence};
use std::collections::HashMap;

/// Branches of each phase of tests/record/branches.s.
const ROUNDS: usize = 65536;

#[test]
fn mispredicted_branches_are_those_that_nobody_can_foresee() {
    let program = assemble("branches.s");
    let phase = program.symbols()["phase"];
    let mut mispredicted: Vec<Vec<Mispredicted>> = vec![Vec::new()];
    for event in program.record().events {
        match event.what {
            What::Access(access) if access.addr == phase => mispredicted.push(Vec::new()),
            What::Mispredicted(branch) => mispredicted.last_mut().unwrap().push(branch),
            _ => {}
        }
    }
    let [_, coin, pattern, four_ways, one_way, computed, _] = &mispredicted[..] else {
        panic!("{} phases", mispredicted.len());
    };
    let share = |of: &[Mispredicted]| of.len() as f64 / ROUNDS as f64;
    assert!((0.48..0.52).contains(&share(coin)), "{}", share(coin));
    assert!(share(pattern) < 0.01, "{}", share(pattern));
    assert!(
        (0.70..0.80).contains(&share(four_ways)),
        "{}",
        share(four_ways)
    );
    assert!(share(one_way) < 0.01, "{}", share(one_way));
    // All before one access: after the first of them the others are counted only.
    let last = computed.last().unwrap();
    let all = computed.len() + last.more as usize;
    assert!(
        (0.48..0.52).contains(&(all as f64 / ROUNDS as f64)),
        "{all}"
    );
    assert_eq!(computed.len(), Batch::MAX_MISPREDICTED);
    // The load that decides is the last access but for branches of the loop itself, which wait for
    // nothing.
    for (phase, branches) in [coin, four_ways].into_iter().enumerate() {
        let decided = branches.iter().filter(|branch| branch.dep == 1).count();
        assert!(
            branches.len() - decided < ROUNDS / 1000,
            "phase {phase}: {decided}"
        );
    }
    // The coin skips an instruction. Of four ways it is not known where they meet.
    assert!(coin.iter().filter(|branch| !branch.reconverges).count() < ROUNDS / 1000);
    assert!(!four_ways.iter().any(|branch| branch.reconverges));
}

/// A round of tests/record/wrong_paths.s: the branches mispredicted in it, and its loads, by their places
/// in the program's data.
struct Round {
    branches: Vec<Mispredicted>,
    loads: HashMap<u64, Access>,
}

/// The dependences are those that the comments of the program give.
#[test]
fn wrong_paths_are_followed_to_where_they_join_the_right_one() {
    let program = assemble("wrong_paths.s");
    let symbols = program.symbols();
    let [phase, random, inside, otherwise, free, pages] =
        ["phase", "random", "inside", "otherwise", "free", "pages"].map(|name| symbols[name]);
    let mut phases: Vec<Vec<Round>> = Vec::new();
    for event in program.record().events {
        match event.what {
            What::Access(access) if access.addr == phase => phases.push(Vec::new()),
            What::Access(access) => {
                let Some(rounds) = phases.last_mut() else {
                    continue;
                };
                if (random..random + ROUNDS as u64).contains(&access.addr) {
                    rounds.push(Round {
                        branches: Vec::new(),
                        loads: HashMap::new(),
                    });
                }
                if let Some(round) = rounds.last_mut() {
                    round.loads.insert(access.addr, access);
                }
            }
            What::Mispredicted(branch) => {
                if let Some(round) = phases.last_mut().and_then(|rounds| rounds.last_mut()) {
                    round.branches.push(branch);
                }
            }
            What::Control(_) => {}
        }
    }
    let [skipping, choosing, calling, _] = &phases[..] else {
        panic!("{} phases", phases.len());
    };
    // The first rounds do not know the code yet, and the last branch of one leaves the loop.
    let settled = |rounds: &'_ [Round]| rounds.len() - 1;
    let mut kinds = [0; 4];
    for round in &skipping[100..settled(skipping)] {
        let wrong = !round.branches.is_empty();
        let executed = round.loads.get(&inside);
        kinds[2 * usize::from(wrong) + usize::from(executed.is_some())] += 1;
        if wrong {
            let expected = Mispredicted {
                dep: 1,
                reconverges: true,
                more: 0,
            };
            assert_eq!(round.branches, [expected]);
        }
        assert_eq!(round.loads[&free].dep, 0);
        let by_index = dependence::near(round.loads[&pages].dep);
        if let Some(inside) = executed {
            assert_eq!(inside.dep, u32::from(wrong));
            assert_eq!(by_index, 2);
        } else {
            assert_eq!(by_index == 2, wrong, "{by_index}");
        }
    }
    assert!(kinds.iter().all(|&kind| kind > ROUNDS / 8), "{kinds:?}");
    for round in &choosing[100..settled(choosing)] {
        let wrong = !round.branches.is_empty();
        assert!(round.branches.iter().all(|branch| branch.reconverges));
        assert_eq!(round.loads[&free].dep, 0);
        let one = [inside, otherwise].map(|place| round.loads.get(&place));
        let ([Some(one), None] | [None, Some(one)]) = one else {
            panic!("both ways or none");
        };
        assert_eq!(one.dep, u32::from(wrong));
    }
    for round in &calling[100..settled(calling)] {
        assert!(!round.branches.iter().any(|branch| branch.reconverges));
    }
}
