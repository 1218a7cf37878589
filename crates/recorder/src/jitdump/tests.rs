//! Dumps are written here as text, a record a line in hexadecimal, so that they can be compared with the
//! specification.

use super::*;
use proptest::prelude::*;

/// A header, with this in place of its padding.
pub(crate) fn header(padding: u32) -> String {
    [
        hex(&MAGIC.to_le_bytes()),
        hex(&1u32.to_le_bytes()),
        hex(&40u32.to_le_bytes()),
        hex(&62u32.to_le_bytes()),
        hex(&padding.to_le_bytes()),
        hex(&[0; 20]),
        "\n".to_owned(),
    ]
    .concat()
}

pub(crate) fn load(start: u64, size: u64, index: u64, name: &str) -> String {
    // The code is as long as it is said to be, or there is none of it.
    let code = vec![0xcc; size.min(64) as usize];
    let fields = [0, start, start, size, index].map(|field: u64| hex(&field.to_le_bytes()));
    record(
        0,
        &[&fields.concat(), &hex(name.as_bytes()), "00", &hex(&code)].concat(),
    )
}

pub(crate) fn lines(start: u64, entries: &[(u64, u32, &str)], filled: usize) -> String {
    let fields = [start, entries.len() as u64].map(|field| hex(&field.to_le_bytes()));
    let mut all = fields.concat();
    for (address, line, file) in entries {
        all += &hex(&address.to_le_bytes());
        all += &hex(&line.to_le_bytes());
        all += &hex(&[0; 4]);
        // The mark of the same file again is no text.
        all += &if *file == "again" {
            "ff".to_owned()
        } else {
            hex(file.as_bytes())
        };
        all += "00";
    }
    all += &"00".repeat(filled);
    record(2, &all)
}

fn moved(from: u64, to: u64, size: u64, index: u64) -> String {
    let fields = [0, to, from, to, size, index].map(|field: u64| hex(&field.to_le_bytes()));
    record(1, &fields.concat())
}

fn record(id: u32, payload: &str) -> String {
    let length = (16 + payload.len() / 2) as u32;
    [
        &hex(&id.to_le_bytes()),
        &hex(&length.to_le_bytes()),
        &hex(&[0; 8]),
        payload,
        "\n",
    ]
    .concat()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn bytes(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    (0..digits.len() / 2)
        .map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap())
        .collect()
}

fn all(bytes: &[u8]) -> Vec<Function> {
    let mut found = Vec::new();
    let more = read(bytes, &mut |function| {
        found.push(function.clone());
        true
    });
    assert!(!more.unwrap());
    found
}

/// Findings of `all`: start, end, name, and of each line where it begins, its file and number.
fn told(functions: &[Function]) -> String {
    let told = functions.iter().map(|one| {
        let lines = one.lines.iter();
        let lines = lines.map(|at| format!(" {:x}:{}:{}", at.offset, at.file, at.line));
        format!(
            "{:x}-{:x} {}{}\n",
            one.start,
            one.end,
            one.name,
            lines.collect::<String>()
        )
    });
    told.collect()
}

/// By hand from tools/perf/Documentation/jitdump-specification.txt.
#[test]
fn a_dump_written_by_hand_is_read() {
    let dump = bytes(
        "4454694a 01000000 28000000 3e000000 00000000 d2040000 0100000000000000 0000000000000000
         02000000 47000000 0200000000000000  0010000000000000 0200000000000000
            0010000000000000 07000000 00000000 612e6a7300
            0410000000000000 08000000 00000000 ff00
         00000000 42000000 0300000000000000  d2040000 d2040000 0010000000000000 0010000000000000
            0800000000000000 0500000000000000 6600 90909090909090c3
         04000000 18000000 0400000000000000  0000000000000000
         01000000 40000000 0500000000000000  d2040000 d2040000 0020000000000000 0010000000000000
            0020000000000000 0800000000000000 0500000000000000
         03000000 10000000 0600000000000000",
    );
    let found = all(&dump);
    let lines = " 0:a.js:7 4:a.js:8\n";
    assert_eq!(
        told(&found),
        format!("1000-1008 f{lines}2000-2008 f{lines}")
    );
    let line = |address| found[1].line(address).map(|line| line.line);
    assert_eq!(
        [0x1fff, 0x2000, 0x2003, 0x2004, 0x2007].map(line),
        [None, Some(7), Some(7), Some(8), Some(8)]
    );
}

#[test]
fn lines_are_those_of_the_function_that_is_loaded_next_at_their_address() {
    let dump = header(0)
        + &lines(0x1000, &[(0x1000, 1, "a")], 7)
        + &load(0x2000, 16, 1, "other")
        + &load(0x1000, 16, 2, "late")
        // The first is replaced, and they are put in order.
        + &lines(0x3000, &[(0x3000, 1, "a")], 0)
        + &lines(0x3000, &[(0x3008, 0, "a"), (0x3002, 2, "b"), (0x3004, 3, "again")], 0)
        + &load(0x3000, 16, 3, "f");
    let found = all(&bytes(&dump));
    let expected = "2000-2010 other\n1000-1010 late\n3000-3010 f 2:b:2 4:b:3 8:a:0\n";
    assert_eq!(told(&found), expected);
    let line = |address| found[2].line(address).map(|line| line.line);
    assert_eq!(
        [0x3001, 0x3002, 0x3007, 0x3008].map(line),
        [None, Some(2), Some(3), None]
    );
}

#[test]
fn v8_adds_the_bytes_of_an_elf_header() {
    let entries = [(0x1040, 5, "a.js"), (0x1047, 6, "a.js")];
    let records = lines(0x1000, &entries, 0) + &load(0x1000, 16, 1, "f");
    let expect = |padding, lines: &str| {
        let found = all(&bytes(&(header(padding) + &records)));
        assert_eq!(told(&found), format!("1000-1010 f{lines}\n"));
    };
    expect(V8, " 0:a.js:5 7:a.js:6");
    expect(0, " 40:a.js:5 47:a.js:6");
}

#[test]
fn lines_that_contradict_their_record_are_none() {
    let good = [(0x1000, 1, "a"), (0x1004, 2, "b")];
    for (entries, filled) in [
        (&good[..], 8),
        (&[(0xfff, 1, "a")], 0),
        (&[(0x1000, 1, "again")], 0),
    ] {
        let dump = header(0) + &lines(0x1000, entries, filled) + &load(0x1000, 16, 1, "f");
        assert_eq!(
            told(&all(&bytes(&dump))),
            "1000-1010 f\n",
            "{entries:?} {filled}"
        );
    }
    // More are announced than there are.
    let mut dump = bytes(&(header(0) + &lines(0x1000, &good, 0) + &load(0x1000, 16, 1, "f")));
    dump[40 + 16 + 8] = 3;
    assert_eq!(told(&all(&dump)), "1000-1010 f\n");
}

#[test]
fn what_is_no_function_is_not_told() {
    let dump = header(0)
        + &load(0x1000, 0, 1, "empty")
        + &load(0x1000, 16, 2, " ")
        + &load(u64::MAX - 3, 16, 3, "high")
        + &moved(0x1000, 0x2000, 16, 9)
        + &load(0x1000, 16, 4, "f")
        + &moved(0x3000, 0x2000, 16, 4)
        + &moved(0x1000, u64::MAX, 16, 4)
        + &record(77, "0102")
        + &load(0x5000, 16, 5, "after");
    assert_eq!(told(&all(&bytes(&dump))), "1000-1010 f\n5000-5010 after\n");
    // A record whose length is less than a header's does not say where the next one is.
    let dump = bytes(&(header(0) + "00000000 0f000000 0000000000000000" + &load(1, 1, 1, "f")));
    assert_eq!(told(&all(&dump)), "");
}

#[test]
fn other_files_are_refused_and_short_ones_say_nothing() {
    let none = |bytes: &[u8]| {
        read(bytes, &mut |_| panic!("a function"))
            .unwrap_err()
            .to_string()
    };
    let mut other_order = bytes(&header(0));
    other_order[..4].reverse();
    let mut newer = bytes(&header(0));
    newer[4] = 2;
    for wrong in [other_order, newer, vec![0; 40]] {
        assert_eq!(none(&wrong), "it is no jitdump of version 1");
    }
    assert_eq!(all(b"JiTD"), []);
}

#[test]
fn a_reader_that_has_enough_is_told_no_more() {
    let dump = header(0) + &load(0x1000, 16, 1, "f") + &load(0x2000, 16, 2, "g");
    let mut count = 0;
    let more = read(bytes(&dump).as_slice(), &mut |_| {
        count += 1;
        false
    });
    assert!(more.unwrap());
    assert_eq!(count, 1);
}

proptest! {
    /// Whatever stands there, and wherever it ends: functions lie in the address space, names are
    /// short, and lines in order.
    #[test]
    fn damaged_dumps_do_no_harm(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut dump = bytes(
            &(header(0)
                + &lines(0x1000, &[(0x1000, 1, "a.js"), (0x1004, 2, "again")], 3)
                + &load(0x1000, 16, 1, "f")
                + &moved(0x1000, 0x2000, 16, 1)
                + &lines(0x3000, &[(0x3000, 1, "b.js")], 0)
                + &load(0x3000, 16, 2, "g")),
        );
        for (at, value) in changes {
            let at = at.index(dump.len());
            dump[at] = value;
        }
        dump.truncate(cut.index(dump.len()) + 1);
        let mut count = 0;
        let _ = read(dump.as_slice(), &mut |function| {
            count += 1;
            assert!(function.start < function.end);
            assert!(function.name.chars().count() <= super::MAX_KEPT);
            assert!(function.lines.is_sorted_by_key(|line| line.offset));
            let _ = (function.line(function.start), function.line(u64::MAX));
            true
        });
        // A record has 16 bytes at the least.
        prop_assert!(count <= dump.len() / 16);
    }
}
