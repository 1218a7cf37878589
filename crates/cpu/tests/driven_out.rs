//! The store buffer beside a core that goes from slot to slot and has a first level whose lines come and go when
//! they do.

use fastrand::Rng;
use pagelab_cpu::{Core, CoreConfig, Trapped, Waits};
use std::collections::VecDeque;

const SETS: usize = 64;
const HIT: u64 = 8;

#[derive(Clone, Copy, Debug)]
struct Machine {
    width: u64,
    reorder_buffer: usize,
    store_buffer: usize,
    ways: usize,
    miss: u64,
}

/// So many other instructions, and a store to a line.
type Store = (u32, u32);

/// A set's lines, the one that was used last at the end.
fn touch(lines: &mut Vec<u32>, line: u32, ways: usize) -> bool {
    let hit = lines.iter().position(|&held| held == line);
    if let Some(place) = hit {
        lines.remove(place);
    } else if lines.len() == ways {
        lines.remove(0);
    }
    lines.push(line);
    hit.is_some()
}

/// When the last store retires, by what is in the first level at each moment.
fn by_moments(machine: Machine, stores: &[Store]) -> u64 {
    let mut sets = vec![Vec::new(); SETS];
    let set = |line: u32| line as usize % SETS;
    let mut coming: Vec<(u64, u32)> = Vec::new();
    // Instructions, with whether they are stores, and the lines of stores.
    let mut reorder_buffer = VecDeque::new();
    let mut buffer: VecDeque<u32> = VecDeque::new();
    let mut retired = 0;
    let mut left = stores.iter().copied();
    let mut next = left.next();
    let (mut now, mut last, mut next_write) = (0, 0, 0);
    while next.is_some() || !reorder_buffer.is_empty() {
        now += 1;
        let (there, later): (Vec<_>, Vec<_>) = coming.iter().partition(|&&(at, _)| at <= now);
        coming = later;
        for (_, line) in there {
            touch(&mut sets[set(line)], line, machine.ways);
        }
        if reorder_buffer.pop_front() == Some(true) {
            retired += 1;
            last = now;
        }
        let ask = |line: u32, sets: &[Vec<u32>], coming: &mut Vec<(u64, u32)>| {
            let there = sets[set(line)].contains(&line) || coming.iter().any(|of| of.1 == line);
            if !there {
                coming.push((now + machine.miss, line));
            }
        };
        if let Some((gap, line)) = &mut next
            && reorder_buffer.len() < machine.reorder_buffer
        {
            if *gap > 0 {
                *gap -= 1;
                reorder_buffer.push_back(false);
            } else if buffer.len() < machine.store_buffer {
                let line = *line;
                if sets[set(line)].contains(&line) {
                    touch(&mut sets[set(line)], line, machine.ways);
                }
                ask(line, &sets, &mut coming);
                buffer.push_back(line);
                reorder_buffer.push_back(true);
                next = left.next();
            }
        }
        if let Some(&line) = buffer.front()
            && retired > 0
            && now >= next_write
        {
            if sets[set(line)].contains(&line) {
                touch(&mut sets[set(line)], line, machine.ways);
                buffer.pop_front();
                retired -= 1;
                next_write = now + machine.width;
            } else {
                ask(line, &sets, &mut coming);
            }
        }
    }
    last
}

/// The same by the clock, whose caches go by the order of the program.
fn by_the_clock(machine: Machine, stores: &[Store], drives_out: bool) -> u64 {
    let config = CoreConfig {
        ghz: 1.0,
        width: machine.width as u32,
        reorder_buffer: machine.reorder_buffer as u32,
        store_buffer: machine.store_buffer as u32,
        miss_buffers: 1000,
        l2_miss_buffers: None,
        walkers: 1,
        misprediction: 0,
        integer_registers: None,
        arithmetic: false,
        scaled_index: 0,
        calls: 0,
        atomics: 0,
        forwarding: None,
        vector_forwarding: None,
        store_ports: 1,
    };
    let mut core = Core::new(&config, HIT).unwrap();
    if drives_out {
        core.drive_out((SETS, machine.ways), machine.miss);
    }
    let mut sets = vec![Vec::new(); SETS];
    for &(gap, line) in stores.iter() {
        let entry = core.dispatch(gap, Waits::default(), true);
        let hit = touch(&mut sets[line as usize % SETS], line, machine.ways);
        let start = entry.start;
        let done = if hit {
            core.under_way.line_there(line, start, start)
        } else if let Some(arrives) = core.under_way.line_arrives(line, start) {
            core.filled(line, arrives, true);
            arrives
        } else {
            core.under_way.ask_line(line, start, start + machine.miss);
            core.filled(line, start + machine.miss, true);
            start + machine.miss
        };
        if core.complete(entry, Trapped::default(), true, start, done) {
            core.written_late(line);
        }
    }
    core.now()
}

/// Stores to some lines that are so far apart, round and round or at random, with gaps up to some length.
fn stores(random: &mut Rng) -> Vec<Store> {
    let (lines, apart) = (random.u32(1..500), 1 << random.u32(0..8));
    let (gap, in_order) = (random.u32(1..60), random.bool());
    let store = |number| {
        let line = if in_order {
            number % lines
        } else {
            random.u32(0..lines)
        };
        (random.u32(0..gap), line * apart)
    };
    (0..4000).map(store).collect()
}

fn machine(random: &mut Rng) -> Machine {
    Machine {
        width: random.u64(1..9),
        reorder_buffer: random.usize(16..200),
        store_buffer: random.usize(4..80),
        ways: random.usize(4..13),
        miss: random.u64(20..150),
    }
}

/// Once some lines are late, more of what comes after them is: where that begins hangs by a little, and then
/// decides over factors. So it is asked how many streams are near, by themselves those that are late.
#[test]
fn as_where_lines_come_and_go_when_they_do() {
    let mut all = [0, 0];
    let mut near = [0, 0];
    let mut within_a_third = [0, 0];
    for seed in 1..=600u64 {
        let mut random = Rng::with_seed(seed);
        let machine = machine(&mut random);
        let stores = stores(&mut random);
        let slow = by_moments(machine, &stores) as f64;
        let by_the_clock = |drives_out| by_the_clock(machine, &stores, drives_out) as f64;
        let late = usize::from(slow > 1.1 * by_the_clock(false));
        let off = (by_the_clock(true) / slow - 1.0).abs();
        all[late] += 1;
        near[late] += usize::from(off < 0.05);
        within_a_third[late] += usize::from(off < 0.34);
    }
    let found = format!("{near:?}, {within_a_third:?} of {all:?}");
    assert!(near[0] * 100 > all[0] * 98, "{found}");
    // A line that is written again long after it has come is taken to leave later than it does.
    assert!(all[1] > 80 && near[1] * 3 > all[1], "{found}");
    assert!(within_a_third[1] * 5 > all[1] * 2, "{found}");
}
