//! A list of a guest's page walks, compared with the simulator's.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pagelab_guest::{WalkLines, judge};

fuzz_target!(|bytes: &[u8]| {
    let _ = judge(WalkLines::new(bytes));
});
