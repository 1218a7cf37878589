use super::*;
use crate::conformance;

fn with(change: impl Fn(&mut EcptConfig)) -> impl Fn(usize) -> Ecpt {
    let mut config = EcptConfig::default();
    change(&mut config);
    move |cores| Ecpt::new(&config, cores).unwrap()
}

#[test]
fn the_default_conforms() {
    conformance::run(57, with(|_| {}));
}

#[test]
fn conforms_with_tiny_tables() {
    let tiny = |config: &mut EcptConfig| {
        config.entries = 64;
        config.cwt.entries = 64;
        config.growth = 2;
        config.occupancy = 0.1;
    };
    conformance::run(57, with(tiny));
}
