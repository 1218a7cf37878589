use super::*;
use crate::conformance;

fn with(change: impl Fn(&mut MeHptConfig)) -> impl Fn(usize) -> MeHpt {
    let mut config = MeHptConfig::default();
    change(&mut config);
    move |cores| MeHpt::new(&config, cores).unwrap()
}

#[test]
fn the_default_conforms() {
    conformance::run(57, with(|_| {}));
}

#[test]
fn conforms_with_tiny_tables_that_grow_at_once() {
    let tiny = |config: &mut MeHptConfig| {
        config.entries = 64;
        config.cwt.entries = 64;
        config.chunk_kib = vec![4, 16, 64];
        config.l2p_entries = 2;
        config.occupancy = 0.05;
    };
    conformance::run(57, with(tiny));
}
