//! Formats that are not read are named, and the message says what to do; addresses and sums that no
//! program has are refused where they stand.

mod common;

use common::drain;
use pagelab_events::{Format, TraceInfo, open_foreign};
use std::io::{Cursor, Write};

fn refusal(contents: &[u8]) -> String {
    match open_foreign(Cursor::new(contents.to_vec()), "t") {
        Ok((format, _)) => panic!("opened as {format}"),
        Err(error) => error.to_string(),
    }
}

/// The accesses and the error of what is opened.
fn read(contents: &[u8]) -> (usize, Option<String>) {
    let (_, mut source) = open_foreign(Cursor::new(contents.to_vec()), "t").unwrap();
    let (events, error) = drain(&mut source);
    (events.len(), error.map(|error| error.to_string()))
}

fn format(contents: &[u8]) -> Format {
    let opened = open_foreign(Cursor::new(contents.to_vec()), "t");
    opened.map(|(format, _)| format).unwrap()
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 0);
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// ChampSim's records of 64 bytes with one load each.
fn records(count: u64, change: impl Fn(u64, &mut [u64; 8])) -> Vec<u8> {
    let record = |number| {
        let mut words = [
            0x40_1000 + 4 * number,
            0,
            0,
            0,
            0x7f00_0000_0000 + 64 * number,
            0,
            0,
            0,
        ];
        change(number, &mut words);
        words
    };
    (0..count)
        .flat_map(record)
        .flat_map(u64::to_le_bytes)
        .collect()
}

/// By GNU tar's format: a header of 512 bytes, then the file.
fn tar(contents: &[u8]) -> Vec<u8> {
    let mut archive = vec![0; 512];
    archive[..11].copy_from_slice(b"ls.champsim");
    archive[257..263].copy_from_slice(b"ustar\0");
    archive.extend(contents);
    archive
}

#[test]
fn binary_formats_are_named() {
    let wide: Vec<u8> = "L,1000,8\nS,2000,8\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let marked = [b"\xff\xfe".to_vec(), wide.clone()].concat();
    for (contents, named) in [
        (
            tar(&records(9, |_, _| ())),
            "t: a tar archive, not a trace that can be read: unpack it",
        ),
        (xz(&tar(&records(9, |_, _| ()))), "a tar archive"),
        (xz(&xz(b"L,1000\n")), "compressed twice"),
        (wide, "text in UTF-16"),
        (marked, "text in UTF-16"),
        (vec![0; 4096], "nothing but zero bytes"),
        (b"pgwords\n\x01\0\0\0".to_vec(), "pagelab trace finish"),
    ] {
        let error = refusal(&contents);
        assert!(error.contains(named), "{error}");
    }
}

#[test]
fn formats_of_text_are_named() {
    for (text, named) in [
        (
            "kind;addr;size;gap;dep\nL;0x1000;8;2;0\n",
            "CSV with semicolons or tabs",
        ),
        ("L\t1000\nS\t2000\n", "CSV with semicolons or tabs"),
        (
            "3 20734016\n1 20846400\n6 20734208 20841280\n",
            "a trace of Ramulator",
        ),
        ("0x12345680 R\n0x4cbd56c0 W\n", "a trace of Ramulator"),
        ("2 408ed4\n0 10019d94\n2 408ed8\n", "a trace of Dinero"),
        (
            "0x401000: R 0x7ffd0000\n0x401004: W 0x7ffd0008\n",
            "Pin's pinatrace",
        ),
        (
            "  1  0:  3264 <marker: version 7>\n  3  1:  3264 read  8 byte(s) @ 0x7ffd0000 by PC 0x401000\n",
            "drmemtrace view",
        ),
        ("{\"kind\": \"compare\"}\n", "pagelab report"),
        ("<!DOCTYPE html>\n<title>Sign in</title>\n", "a web page"),
    ] {
        let error = refusal(text.as_bytes());
        assert!(error.contains(named), "{error}");
        assert!(error.contains("not a trace that can be read: "), "{error}");
    }
    // A damaged file is not another format.
    let (accesses, error) = read(b"L,1000\n3 20734016\n");
    assert_eq!(accesses, 1);
    assert!(error.unwrap().contains("line 2: found \"3 20734016\""));
}

#[test]
fn a_byte_order_mark_before_utf_8_is_passed_over() {
    assert_eq!(
        read(b"\xef\xbb\xbfkind,addr,size,gap,dep\nL,1000,8\n"),
        (1, None)
    );
    assert_eq!(read(b"\xef\xbb\xbfL,1000,8\r\nS,2000,8\r\n"), (2, None));
    assert_eq!(
        read("\u{feff} L 1000,8\r\n M 10,4\r\n".as_bytes()),
        (3, None)
    );
    let (_, error) = read(b"\xef\xbb\xbfQ,1000\n");
    assert!(error.unwrap().contains("line 1: found \"Q,1000\""));
}

/// Bits 56 to 63 of an address are equal with five levels of page tables (Intel's SDM, volume 1, 3.3.7.1).
#[test]
fn addresses_of_57_bits_are_read_and_no_others() {
    let five_levels = records(2000, |number, words| {
        words[0] += 0xf0 << 48;
        words[4] = (0xff << 48) + 64 * number;
    });
    assert_eq!(read(&five_levels), (2000, None));
    for (word, expected) in [
        (0, "instruction pointer 0x1234567890abcdef"),
        (6, "memory operand 0x1234567890abcdef"),
    ] {
        // Wrong records among those from which the format is told, and behind them.
        for wrong in [0, 3, 1500] {
            let damaged = records(2000, |number, words| {
                if number == wrong {
                    words[word] = 0x1234_5678_90ab_cdef;
                }
            });
            let (accesses, error) = read(&damaged);
            assert_eq!(accesses as u64, wrong);
            let error = error.unwrap();
            let expected = format!("t: instruction {wrong}: {expected}");
            assert!(error.starts_with(&expected), "{error}");
        }
    }
    let flagged = records(2000, |number, words| {
        words[1] = if number == 1500 { 2 } else { 1 }
    });
    let (accesses, error) = read(&flagged);
    assert_eq!(accesses, 1500);
    assert!(
        error
            .unwrap()
            .contains("instruction 1500: 2 as a flag of a branch")
    );
    for line in [
        "L,1ffffffffffffff,1",
        "KS,7fffffffffffffff",
        "brk,fe00000000000000",
    ] {
        let (_, error) = read(format!("{line}\n").as_bytes());
        let error = error.unwrap();
        assert!(
            error.contains("an address whose bits 56 to 63 are equal"),
            "{error}"
        );
    }
    let (_, error) = read(b" L 1000,8\n S 1ffffffffffffff,8\n");
    assert!(
        error
            .unwrap()
            .contains("line 2: found \" S 1ffffffffffffff,8\", expected an address")
    );
}

#[test]
fn an_instruction_pointer_of_zero_is_read_wherever_it_is() {
    for at in [0, 1500] {
        let trace = records(2000, |number, words| {
            if number == at {
                *words = [0; 8];
            }
        });
        assert_eq!(read(&trace), (1999, None));
    }
    let none = records(2000, |_, words| words[0] = 0);
    assert_eq!(format(&none), Format::ChampSim);
    assert_eq!(read(&none), (2000, None));
}

#[test]
fn a_trace_without_accesses_says_what_it_has() {
    let (accesses, error) = read(&records(2000, |_, words| words[4] = 0));
    assert_eq!(accesses, 0);
    assert_eq!(
        error.unwrap(),
        "t: 2000 instructions, and no access to memory"
    );
    let (_, error) = read(b"==7== Lackey\nI  04001090,3\nI  04001093,5\n");
    assert_eq!(error.unwrap(), "t: 2 instructions, and no access to memory");
    let (_, error) = read(b"==7== Memcheck, a memory error detector\n");
    assert!(error.unwrap().contains("--tool=lackey --trace-mem=yes"));
}

#[test]
fn a_programs_output_among_lackeys_lines_is_counted() {
    let text = "Starting\n==7== Lackey\n--7-- WARNING: something\n**7** said by the program's client request\n\
        SB 04001090\nI  04001090,3\n L 1ffeffe7e,8\nHello, world\n== ?\nI  04001093,5\n S 1ffeffe58,8\n";
    let (found, mut source) = open_foreign(Cursor::new(text), "t").unwrap();
    assert_eq!(found, Format::Lackey);
    let info = TraceInfo::of_source(&mut source);
    assert_eq!((info.error, info.passed_over), (None, 3));
    assert_eq!((info.total.accesses, info.total.instructions), (2, 2));
    // No trace with some output in it.
    let (accesses, error) = read(format!(" L 1000,8\n{}", "some text\n".repeat(2)).as_bytes());
    assert_eq!(accesses, 1);
    assert!(
        error
            .unwrap()
            .contains("2 lines that are not Lackey's, and 1 that are")
    );
}

#[test]
fn numbers_that_would_be_cut_are_refused() {
    for line in [
        "L,1000,8,1,65536",
        "S,1000,8,1,70000",
        "L,1000,8,0,1:65537",
        "mispredicted,65536:65537",
    ] {
        let (_, error) = read(format!("{line}\n").as_bytes());
        let error = error.expect(line);
        assert!(
            error.contains("expected a load at most 65535 accesses back"),
            "{error}"
        );
    }
    for line in [
        "L,1000,8,1,65535",
        "L,1000,8,1,65535:131070",
        "L,1000,8,1,0:65535",
        "L,1,8,1,9:9",
    ] {
        assert_eq!(read(format!("{line}\n").as_bytes()), (1, None), "{line}");
    }
    let most = 1u64 << 62;
    for (lines, read_before) in [
        (format!("L,1\nskipped,{},0\n", u64::MAX), 1),
        (format!("L,1\nskipped,{},{}\n", u64::MAX, u64::MAX), 1),
        (format!("skipped,{most},0\nL,1\nskipped,0,1\n"), 2),
    ] {
        let (events, error) = read(lines.as_bytes());
        assert_eq!(events, read_before);
        assert!(
            error
                .unwrap()
                .contains("at most 2^62 instructions and accesses")
        );
    }
    assert_eq!(
        read(format!("skipped,{most},0\nL,1\n").as_bytes()),
        (2, None)
    );
}
