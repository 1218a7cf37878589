//! Addresses over time, against a grid made of every single access, and against patterns that are
//! known.

use crate::common::{BASE, Cut, Event, load, map, run, small_machine, store};
use pagelab_events::{
    Access, Backing, Batch, Control, Op, Protection, Source, SourceError, Unit, WarmUp, WarmedUp,
};
use pagelab_machine::{Design, HeatMapResult, HeatRow, MachineConfig, Tally};
use std::collections::BTreeSet;

const FILE: u64 = BASE + (1 << 36);
const STACK: u64 = BASE + (1 << 40);
const HEAP: u64 = 0x55_5555_0000;

fn drawn() -> MachineConfig {
    MachineConfig {
        heat_map: true,
        ..small_machine()
    }
}

fn map_as(addr: u64, len: u64, backing: Backing) -> Event {
    Event::Control(Control::Map {
        addr,
        len,
        prot: Protection(Protection::READ | Protection::WRITE),
        backing,
        populate: false,
    })
}

/// An access, and the kind of memory that it is to.
type Kinded = (u64, &'static str);

/// Accesses to all kinds of memory, some over the end of a page, some of a second process; anonymous
/// memory becomes a file on the way. `spread` is how far apart they lie.
fn generated(seed: u64, accesses: u64, spread: u64) -> (Vec<Event>, Vec<Kinded>) {
    let pages = |count: u64| count << 12;
    let mut events = vec![
        map_as(BASE, spread, Backing::Anonymous),
        map_as(FILE + pages(3), pages(5), Backing::PrivateFile),
        map_as(FILE + pages(8), pages(2), Backing::SharedFile),
        map_as(STACK, pages(8), Backing::Stack),
        Event::Control(Control::Brk { end: HEAP }),
        Event::Control(Control::Brk {
            end: HEAP + pages(20),
        }),
    ];
    let mut list = Vec::new();
    let mut random = seed;
    let mut anonymous = "anonymous";
    for number in 0..accesses {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let draw = random >> 33;
        if number == accesses / 2 {
            let half = spread / 2;
            events.push(Event::Control(Control::Unmap {
                addr: BASE,
                len: half,
            }));
            events.push(map_as(BASE, half, Backing::SharedFile));
            anonymous = "shared-file";
        }
        let (addr, kind) = match random >> 61 {
            // Up to 64 places of the large region: memory for its tables is scarce.
            0 => (BASE + draw % 32 * (spread / 64) + 8, anonymous),
            1 => (
                BASE + spread / 2 + draw % 32 * (spread / 64) + 8,
                "anonymous",
            ),
            2 => (FILE + pages(3) + draw % 5 * 4096, "private-file"),
            3 => (FILE + pages(8) + draw % 2 * 4096, "shared-file"),
            // The second half of it is in the next page.
            4 => (HEAP + draw % 19 * 4096 + 4092, "heap"),
            5 => (HEAP + draw % 20 * 4096, "heap"),
            _ => (STACK + draw % 8 * 4096, "stack"),
        };
        events.push(match draw % 3 {
            0 => store(addr),
            _ => load(addr, (draw % 5) as u32, 0),
        });
        list.push((addr, kind));
    }
    (events, list)
}

/// The events with an instruction of its own for each access.
struct Numbered {
    inner: Cut,
    next: u32,
}

impl Source for Numbered {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.site.clear();
        let more = self.inner.next_batch(batch)?;
        for _ in 0..batch.len() {
            batch.site.push(self.next);
            self.next += 1;
        }
        Ok(more)
    }

    fn has_code(&self) -> bool {
        true
    }
}

/// The grid that follows from all single accesses: the smallest powers of two that give at most 128
/// rows and 256 columns.
fn slow(list: &[Kinded], tallies: &[Tally]) -> HeatMapResult {
    const KINDS: [&str; 7] = [
        "heap",
        "stack",
        "anonymous",
        "shared-anonymous",
        "private-file",
        "shared-file",
        "none",
    ];
    let rank = |kind: &str| KINDS.iter().position(|&other| other == kind).unwrap();
    let blocks = |bytes: u64| -> BTreeSet<(usize, u64)> {
        let blocks = list.iter().map(|&(addr, kind)| (rank(kind), addr / bytes));
        blocks.collect()
    };
    let mut bytes = 4096;
    while blocks(bytes).len() > 128 {
        bytes *= 2;
    }
    let mut per_column = 1;
    while list.len().div_ceil(per_column) > 256 {
        per_column *= 2;
    }
    let columns = list.len().div_ceil(per_column);
    let row = |(kind, block): (usize, u64)| {
        let count = |of: &dyn Fn(&Tally) -> u64| {
            let mut counts = vec![0; columns];
            for (number, &(addr, name)) in list.iter().enumerate() {
                if (rank(name), addr / bytes) == (kind, block) {
                    counts[number / per_column] += of(&tallies[number]);
                }
            }
            counts
        };
        let seldom = |counts: Vec<u64>| {
            let any = counts.iter().any(|&count| count > 0);
            if any { counts } else { Vec::new() }
        };
        HeatRow {
            kind: KINDS[kind],
            address: block * bytes,
            accesses: count(&|tally| tally.accesses),
            l2_tlb_misses: seldom(count(&|tally| tally.l2_tlb_misses)),
            faults: seldom(count(&|tally| tally.faults)),
        }
    };
    HeatMapResult {
        accesses_per_column: per_column as u64,
        bytes_per_row: bytes,
        rows: blocks(bytes).into_iter().map(row).collect(),
    }
}

#[test]
fn every_design_draws_what_a_slow_twin_draws() {
    for (seed, design) in (1..).zip(Design::all()) {
        let spread = 1 << (20 + seed % 4 * 2);
        let length = 700 + seed * 97;
        let (events, list) = generated(seed, length, spread);
        let cut = [1, 7, 250, 1000][seed as usize % 4];
        let mut source = Numbered {
            inner: Cut::new(&events, cut),
            next: 0,
        };
        let found = run(&drawn(), &design.name(), &mut source);
        assert!(found.complete, "{}: {:?}", design.name(), found.stopped);
        let [program] = &found.by_code[..] else {
            panic!("one program has run");
        };
        assert_eq!(
            found.heat_map.unwrap(),
            slow(&list, &program.sites),
            "{}",
            design.name()
        );
    }
}

/// Accesses, misses and faults of all cells.
fn sums(heat_map: &HeatMapResult) -> [u64; 3] {
    let of = |counts: fn(&HeatRow) -> &Vec<u64>| heat_map.rows.iter().flat_map(counts).sum();
    [
        of(|row| &row.accesses),
        of(|row| &row.l2_tlb_misses),
        of(|row| &row.faults),
    ]
}

#[test]
fn nothing_but_the_picture_depends_on_whether_it_is_drawn() {
    let (events, _) = generated(9, 5000, 1 << 24);
    for design in ["radix", "dpt", "radix+victima", "ideal"] {
        let json = |config: &MachineConfig| {
            let mut run = run(config, design, &mut Cut::new(&events, 300));
            run.machine.heat_map = false;
            let heat_map = run.heat_map.take();
            (serde_json::to_string(&run).unwrap(), heat_map)
        };
        let (with, drawn) = json(&drawn());
        let (without, none) = json(&small_machine());
        assert_eq!(with, without);
        assert!(drawn.is_some() && none.is_none());
    }
}

#[test]
fn what_warms_the_machine_up_is_not_in_the_picture() {
    let (events, _) = generated(3, 6000, 1 << 22);
    for unit in [Unit::Accesses, Unit::Instructions] {
        let warm_up = WarmUp { length: 1501, unit };
        let mut source = WarmedUp::new(Cut::new(&events, 300), warm_up);
        let run = run(&drawn(), "radix", &mut source);
        let drawn = run.heat_map.unwrap();
        assert!(run.warm_up_accesses > 0);
        let [accesses, misses, _] = sums(&drawn);
        assert_eq!((accesses, misses), (run.accesses, run.tlb.l2_misses));
    }
}

/// Two arrays of 16 MiB: each access to the next page of the first is followed by one to the second
/// at random.
#[test]
fn two_arrays_look_like_what_walks_them() {
    const PAGES: u64 = 4096;
    let other = BASE + (PAGES << 13);
    let mut events = vec![map(BASE, PAGES << 12), map(other, PAGES << 12)];
    let mut random: u64 = 1;
    let mut touched = BTreeSet::new();
    for page in 0..PAGES {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        events.push(load(BASE + (page << 12), 3, 0));
        let draw = (random >> 40) % PAGES;
        touched.insert(draw);
        events.push(store(other + (draw << 12)));
    }
    let run = run(&drawn(), "radix", &mut Cut::new(&events, 999));
    let drawn = run.heat_map.unwrap();
    // 8192 accesses in 256 columns, and 8192 pages in 128 rows.
    assert_eq!(drawn.accesses_per_column, 32);
    assert_eq!(drawn.bytes_per_row, 64 << 12);
    assert_eq!(drawn.rows.len(), 128);
    let (forward, at_random) = drawn.rows.split_at(64);
    for (number, row) in forward.iter().enumerate() {
        assert_eq!(row.address, BASE + ((number as u64 * 64) << 12));
        // 64 pages, of which a column has 16; each is new to TLB and kernel.
        let diagonal: Vec<u64> = (0..256)
            .map(|column| if column / 4 == number { 16 } else { 0 })
            .collect();
        assert_eq!(row.accesses, diagonal);
        assert_eq!(row.l2_tlb_misses, diagonal);
        assert_eq!(row.faults, diagonal);
    }
    for column in 0..256 {
        let accesses: u64 = at_random.iter().map(|row| row.accesses[column]).sum();
        assert_eq!(accesses, 16);
    }
    let faults: u64 = at_random.iter().flat_map(|row| &row.faults).sum();
    assert_eq!(faults, touched.len() as u64);
    let used = at_random.iter().flat_map(|row| &row.accesses);
    assert!(used.filter(|&&accesses| accesses > 0).count() > 3000);
}

/// Programs that use more of an address space than a grid has small rows for.
#[test]
fn a_grid_is_bounded_whatever_is_accessed() {
    let mut events = vec![map(4096, (1 << 46) - 4096)];
    for number in 0..600u64 {
        events.push(load((number << 36) + 4096, 0, 0));
    }
    let run = run(&drawn(), "radix", &mut Cut::new(&events, 100));
    let drawn = run.heat_map.unwrap();
    assert!((64..=128).contains(&drawn.rows.len()));
    assert_eq!(sums(&drawn)[0], 600);
}

/// An access of several lines is one access.
#[test]
fn an_access_over_the_end_of_a_page_may_miss_twice() {
    let mut events = vec![map(BASE, 2 << 12)];
    events.push(Event::Access(Access {
        addr: BASE + 4092,
        op: Op::load(8),
        ..Access::default()
    }));
    let run = run(&drawn(), "radix", &mut Cut::new(&events, 10));
    let drawn = run.heat_map.unwrap();
    assert_eq!(drawn.rows.len(), 1);
    assert_eq!(sums(&drawn), [1, 2, 2]);
}
