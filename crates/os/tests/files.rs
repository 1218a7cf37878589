//! Mappings of files and of shared memory, against what Linux 6.18 counts in the same steps
//! (getrusage's minor faults, and which pages /proc/self/pagemap has, on ext4).

mod support;

use pagelab_addr::PAGE_BYTES;
use pagelab_events::{Advice, Backing, Control, Protection};
use pagelab_os::{Os, PagePolicy};
use std::ops::Range;
use support::{Machine, MapTable, Placement, READ_WRITE, config};

const PAGES: u64 = 1024;
/// Aligned as mappings of files are that mmap places.
const START: u64 = 1 << 20;

struct Program {
    machine: Machine<MapTable>,
    process: u32,
}

impl Program {
    fn new(backing: Backing) -> Self {
        let machine = Machine::new(
            config(PagePolicy::THP, 0.0),
            MapTable::new(Placement::Anywhere),
        );
        let mut program = Program {
            machine,
            process: 0,
        };
        program.map(START, PAGES, backing, false);
        program
    }

    fn control(&mut self, event: Control) {
        self.machine.control(self.process, event).unwrap();
    }

    fn map(&mut self, start: u64, pages: u64, backing: Backing, populate: bool) {
        self.control(Control::Map {
            addr: start * PAGE_BYTES,
            len: pages * PAGE_BYTES,
            prot: READ_WRITE,
            backing,
            populate,
        });
    }

    fn protect(&mut self, prot: Protection) {
        let (addr, len) = (START * PAGE_BYTES, PAGES * PAGE_BYTES);
        self.control(Control::Protect { addr, len, prot });
    }

    /// Faults that loads from pages take.
    fn read(&mut self, pages: impl Iterator<Item = u64>) -> u64 {
        let before = self.faults();
        for page in pages {
            let loaded = self.machine.load(self.process, START + page).unwrap();
            let written = self.machine.processes.read(self.process, START + page);
            assert_eq!(Some(loaded), written);
        }
        self.faults() - before
    }

    fn write(&mut self, pages: impl Iterator<Item = u64>) -> u64 {
        let before = self.faults();
        for page in pages {
            let store = self.machine.store(self.process, START + page, page + 1);
            store.unwrap();
        }
        self.faults() - before
    }

    fn faults(&self) -> u64 {
        self.machine.os.statistics(&self.machine.table).faults
    }

    fn mapped(&self, pages: Range<u64>) -> Vec<u64> {
        let pages = START + pages.start..START + pages.end;
        let asid = Os::asid(self.process).unwrap();
        let mapped = self
            .machine
            .table
            .entries()
            .map(|(id, _)| self.machine.directory.resolve(id));
        let inside = mapped.filter(|&(space, vpn)| space == asid && pages.contains(&vpn.0));
        let mut numbers: Vec<u64> = inside.map(|(_, vpn)| vpn.0 - START).collect();
        numbers.sort_unstable();
        numbers
    }

    fn end(mut self) {
        self.machine.check();
        self.machine.check_contents();
        self.machine.check_end(0..3);
    }
}

#[test]
fn a_load_maps_sixteen_pages_and_a_store_one() {
    let mut shared = Program::new(Backing::SharedFile);
    assert_eq!(shared.read(0..PAGES), 64);
    assert_eq!(shared.machine.effects.entries_around, 15);
    // Each store to a page of a file is noticed.
    assert_eq!(shared.write(0..PAGES), 1024);
    shared.protect(Protection(Protection::READ));
    shared.protect(READ_WRITE);
    assert_eq!(shared.write(0..PAGES), 0);
    let files = shared.machine.os.statistics(&shared.machine.table).files;
    let files = files.unwrap();
    assert_eq!((files.faults, files.pages), (64 + 1024, 1024));
    shared.end();

    let mut backward = Program::new(Backing::SharedFile);
    assert_eq!(backward.read((0..PAGES).rev()), 64);
    backward.end();

    let mut written = Program::new(Backing::SharedFile);
    assert_eq!(written.write(0..PAGES), 1024);
    written.end();
}

#[test]
fn a_store_to_a_page_of_a_private_file_copies_it() {
    let mut private = Program::new(Backing::PrivateFile);
    assert_eq!(private.read(0..PAGES), 64);
    assert_eq!(private.write(0..PAGES), 1024);
    assert_eq!(private.machine.effects.pages_copied, 1);
    assert_eq!(private.write(0..PAGES), 0);
    private.protect(Protection(Protection::READ));
    private.protect(READ_WRITE);
    assert_eq!(private.write(0..PAGES), 0);
    private.end();

    let mut half = Program::new(Backing::PrivateFile);
    assert_eq!(half.write((0..PAGES).step_by(2)), 512);
    assert_eq!(half.read(0..PAGES), 64);
    half.end();
}

#[test]
fn fork_copies_entries_of_a_file_of_which_a_page_was_written() {
    for (written, faults) in [(false, 64), (true, 0)] {
        let mut program = Program::new(Backing::PrivateFile);
        program.read(0..PAGES);
        if written {
            program.write(0..1);
        }
        program.control(Control::Fork { child: 1 });
        program.process = 1;
        assert_eq!(program.read(0..PAGES), faults, "written {written}");
        // The child has the parent's page cache.
        let resident = program.machine.os.resident_bytes();
        assert_eq!(resident, (PAGES + u64::from(written)) * PAGE_BYTES);
        program.end();
    }
}

#[test]
fn what_was_dropped_is_in_the_page_cache_still() {
    let mut program = Program::new(Backing::PrivateFile);
    program.read(0..PAGES);
    program.write(0..1);
    program.control(Control::Advise {
        addr: START * PAGE_BYTES,
        len: PAGES * PAGE_BYTES,
        advice: Advice::DontNeed,
    });
    assert_eq!(program.read(0..PAGES), 64);
    assert_eq!(program.machine.os.resident_bytes(), PAGES * PAGE_BYTES);
    program.end();
}

/// A window that begins with the mapping has 16 pages, too, and ends where it may.
#[test]
fn windows_are_aligned_but_at_a_mappings_start() {
    let mut program = Program::new(Backing::PrivateFile);
    program.control(Control::Unmap {
        addr: START * PAGE_BYTES,
        len: PAGES * PAGE_BYTES,
    });
    program.map(START + 3, 64, Backing::PrivateFile, false);
    program.read(8..9);
    assert_eq!(program.mapped(0..80), Vec::from_iter(3..19));
    program.read(23..24);
    assert_eq!(program.mapped(0..80), Vec::from_iter(3..32));
    program.read(66..67);
    assert_eq!(program.mapped(32..80), [64, 65, 66]);
    // Not over the end of a page of PTEs.
    program.map(START + 509, 64, Backing::PrivateFile, false);
    program.read(510..511);
    assert_eq!(program.mapped(500..600), [509, 510, 511]);
    program.end();
}

/// Shared memory is mapped around only where it exists: where somebody has touched it.
#[test]
fn shared_memory_is_mapped_around_where_it_exists() {
    let mut program = Program::new(Backing::SharedAnonymous);
    assert_eq!(program.read(0..PAGES), 1024);
    assert_eq!(program.write(0..PAGES), 0);
    program.control(Control::Fork { child: 1 });
    program.process = 1;
    assert_eq!(program.read(0..PAGES), 64);
    assert_eq!(program.write(0..PAGES), 0);
    program.end();
}

/// Populating loads from shared files and stores to private ones (`populate_vma_page_range`).
#[test]
fn populating_leaves_shared_files_to_be_written() {
    for (backing, faults) in [(Backing::SharedFile, 1024), (Backing::PrivateFile, 0)] {
        let mut program = Program::new(backing);
        program.map(START, PAGES, backing, true);
        assert_eq!(program.read(0..PAGES), 0);
        assert_eq!(program.write(0..PAGES), faults, "{backing:?}");
        program.end();
    }
}
