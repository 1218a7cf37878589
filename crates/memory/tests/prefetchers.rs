//! Prefetchers beside what is said of them.

use pagelab_memory::{NextLineKeys, PrefetchConfig, Prefetchers};

#[test]
fn the_next_lines_are_those_of_the_page() {
    let config = PrefetchConfig {
        next_line: Some(NextLineKeys { lines: 2 }),
        ..PrefetchConfig::NONE
    };
    let mut prefetchers = Prefetchers::new(&config).unwrap();
    for (line, expected) in [(64, vec![65, 66]), (126, vec![127]), (127, vec![])] {
        let mut fetched = Vec::new();
        prefetchers.asked(line, |_| None, |line| fetched.push(line));
        assert_eq!(fetched, expected);
    }
}

#[test]
fn keys_have_bounds() {
    let next_line = |lines| PrefetchConfig {
        next_line: Some(NextLineKeys { lines }),
        ..PrefetchConfig::NONE
    };
    assert!(Prefetchers::new(&next_line(1)).is_ok() && Prefetchers::new(&next_line(8)).is_ok());
    assert!(Prefetchers::new(&next_line(0)).is_err() && Prefetchers::new(&next_line(9)).is_err());
}
