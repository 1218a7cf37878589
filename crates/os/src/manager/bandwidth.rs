//! The `bandwidth` manager: pages dealt out to the nodes by weight.

use super::{About, Manager, Run, take};
use crate::OsConfigError;
use crate::frames::buddy::Buddy;
use pagelab_addr::Pfn;

/// Orders between two page sizes.
const TABLE_ORDER: u32 = 9;

pub(super) const ABOUT: About = (
    "bandwidth",
    "pages dealt out to the nodes by weight, weights=3:2: private memory only (bwmfs)",
);

/// Weighted interleaving (Tabatabai et al., "FBMM", USENIX ATC 2024, section 5.2).
#[derive(Clone, Debug)]
pub(super) struct Bandwidth {
    /// By page size, since a round of small pages tells nothing about large ones.
    rounds: [Round; 3],
    /// Pages of 4 KiB that each node gave.
    placed: Vec<u64>,
}

impl Bandwidth {
    pub(super) fn new(weights: &str, nodes: usize) -> Result<Self, OsConfigError> {
        let round = Round::new(weights, nodes)?;
        Ok(Bandwidth {
            rounds: [round.clone(), round.clone(), round],
            placed: vec![0; nodes],
        })
    }
}

impl Manager for Bandwidth {
    fn boxed(&self) -> Box<dyn Manager> {
        Box::new(self.clone())
    }

    fn is_file_system(&self) -> bool {
        true
    }

    fn has_large_pages(&self) -> bool {
        true
    }

    fn alloc(&mut self, memory: &mut Buddy, run: &mut Run) -> Option<Pfn> {
        let node = self.rounds[(run.order / TABLE_ORDER) as usize].next();
        let head = take(memory, node, run.order)?;
        self.placed[memory.node_of(head)] += 1 << run.order;
        Some(head)
    }

    fn placed(&self) -> &[u64] {
        &self.placed
    }
}

/// Rounds in which each node has as many turns as its weight, spread evenly: at each turn every
/// node gains its weight, and the one that has most pays the sum of all (as in bwmfs, the module
/// in `linux/modules/`).
#[derive(Clone, Debug)]
struct Round {
    weights: Vec<i64>,
    credit: Vec<i64>,
}

impl Round {
    fn new(weights: &str, nodes: usize) -> Result<Self, OsConfigError> {
        let parsed: Result<Vec<u16>, _> = weights.split(':').map(str::parse).collect();
        match parsed {
            Ok(parsed) if parsed.len() <= nodes && parsed.iter().any(|&weight| weight > 0) => {
                let mut weights: Vec<i64> = parsed.into_iter().map(i64::from).collect();
                weights.resize(nodes, 0);
                let credit = vec![0; nodes];
                Ok(Round { weights, credit })
            }
            _ => Err(OsConfigError {
                key: "manager.weights",
                reason: format!(
                    "{weights:?} are not weights from 0 to 65535 for up to {nodes} nodes, such as \
                     \"3:2\", one of them above 0"
                ),
            }),
        }
    }

    fn next(&mut self) -> usize {
        let mut best = 0;
        for node in 0..self.weights.len() {
            self.credit[node] += self.weights[node];
            if self.credit[node] > self.credit[best] {
                best = node;
            }
        }
        self.credit[best] -= self.weights.iter().sum::<i64>();
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// After whole rounds the proportion is exact; within one no node is a page off its share.
        #[test]
        fn nodes_have_their_shares(weights in proptest::collection::vec(0u16..40, 1..5)) {
            prop_assume!(weights.iter().any(|&weight| weight > 0));
            let text: Vec<String> = weights.iter().map(u16::to_string).collect();
            let mut round = Round::new(&text.join(":"), weights.len()).unwrap();
            let sum: i64 = weights.iter().map(|&weight| i64::from(weight)).sum();
            let mut given = vec![0i64; weights.len()];
            for turn in 1..=3 * sum {
                given[round.next()] += 1;
                for (&given, &weight) in given.iter().zip(&weights) {
                    let due = turn * i64::from(weight);
                    prop_assert!((given * sum - due).abs() < sum * weights.len() as i64);
                    if turn % sum == 0 {
                        prop_assert_eq!(given * sum, due);
                    }
                }
            }
        }
    }

    #[test]
    fn weights_that_cannot_be_are_refused() {
        for weights in ["", "0:0", "1:2:3", "a", "3:-2", "70000:1"] {
            assert!(Round::new(weights, 2).is_err(), "{weights}");
        }
        assert!(Round::new("0:1", 2).is_ok());
    }
}
