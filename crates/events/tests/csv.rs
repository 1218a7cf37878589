//! The text form.

mod common;

use common::{any_batch, drain, flatten};
use pagelab_events::{
    Access, Advice, Backing, Batch, Control, CsvWriter, HugePages, Op, Protection, SourceError,
    open_foreign,
};
use proptest::prelude::*;
use std::io::Cursor;

fn read(text: &str) -> (Vec<common::Event>, Option<SourceError>) {
    let (_, mut source) = open_foreign(Cursor::new(text.to_owned()), "text.csv").unwrap();
    drain(&mut source)
}

const EVERY_KIND: &str = "kind,addr,size,gap,dep\n\
     # A comment, then an empty line.\n\
     \n\
     map, 0x7000 ,0x2000\n\
     map,9000,4096,r-x,private-file,populate  # with everything\n\
     map,a000,4096,,stack\n\
     L,7010\n\
     S,0x7FfF,4,2,1\r\n\
     KL,7010,,3\n\
     KL+,7018\n\
     KS,ffffffffffffffff,8191,4294967295,65535:70000\n\
     P,7020\n\
     P,8000,0,2,1\n\
     unmap,7000,4096\n\
     protect,8000,4096,-w-\n\
     remap,8000,4096,c000,8192\n\
     advise,c000,8192,dontneed\n\
     advise,c000,8192,12\n\
     huge-pages,where-advised\n\
     brk,55000\n\
     fork,1\n\
     process,1\n\
     exec\n\
     exit,-1\n\
     process,0\n\
     thread-start,2\n\
     thread,2\n\
     S,7010,1\n\
     thread-end,2\n\
     skipped,10,3\n\
     exit,139";

#[test]
fn every_kind_of_line_is_understood() {
    let (events, error) = read(EVERY_KIND);
    assert!(error.is_none(), "{error:?}");
    let mut parent = Batch::default();
    let map = |addr, len, prot, backing, populate| Control::Map {
        addr,
        len,
        prot: Protection(prot),
        backing,
        populate,
    };
    parent.push_control(map(0x7000, 0x2000, 3, Backing::Anonymous, false));
    parent.push_control(map(0x9000, 0x1000, 5, Backing::PrivateFile, true));
    parent.push_control(map(0xa000, 0x1000, 3, Backing::Stack, false));
    for (addr, op, gap, dep) in [
        (0x7010, Op::load(8), 0, 0),
        (0x7fff, Op::store(4), 2, 1),
        (0x7010, Op::load(8).by_kernel(), 3, 0),
        (0x7018, Op::load(8).by_kernel().continuing(true), 0, 0),
        (
            u64::MAX,
            Op::store(8191).by_kernel(),
            u32::MAX,
            4465 << 16 | 65535,
        ),
        (0x7020, Op::PREFETCH, 0, 0),
        (0x8000, Op::PREFETCH, 2, 1),
    ] {
        parent.push(Access { addr, op, gap, dep });
    }
    let (addr, len) = (0x8000, 0x1000);
    for control in [
        Control::Unmap { addr: 0x7000, len },
        Control::Protect {
            addr,
            len,
            prot: Protection(2),
        },
        Control::Remap {
            old_addr: addr,
            old_len: len,
            new_addr: 0xc000,
            new_len: 0x2000,
        },
        Control::Advise {
            addr: 0xc000,
            len: 0x2000,
            advice: Advice::DontNeed,
        },
        Control::Advise {
            addr: 0xc000,
            len: 0x2000,
            advice: Advice::Other(12),
        },
        Control::HugePages {
            allowed: HugePages::WhereAdvised,
        },
        Control::Brk { end: 0x55000 },
        Control::Fork { child: 1 },
    ] {
        parent.push_control(control);
    }
    let mut child = Batch {
        process: 1,
        ..Batch::default()
    };
    child.push_control(Control::Exec);
    child.push_control(Control::Exit { status: -1 });
    let mut later = Batch::default();
    later.push_control(Control::ThreadStart { thread: 2 });
    later.push_control(Control::Thread { thread: 2 });
    later.push(Access {
        addr: 0x7010,
        op: Op::store(1),
        gap: 0,
        dep: 0,
    });
    later.push_control(Control::ThreadEnd { thread: 2 });
    later.push_control(Control::Skipped {
        instructions: 10,
        accesses: 3,
    });
    later.push_control(Control::Exit { status: 139 });
    assert_eq!(events, flatten([&parent, &child, &later]));
}

#[test]
fn a_wrong_line_is_named_and_what_comes_before_is_read() {
    for (line, expected) in [
        (
            "M,7000,8",
            "expected a line that starts with L, S, KL, KS, P, map",
        ),
        ("l,7000,8", "expected a line that starts with L, S"),
        (",7000", "expected a line that starts with L, S"),
        ("brk+,7000", "expected a line that starts with L, S"),
        ("L", "expected KIND,ADDR[,SIZE[,GAP[,DEP]]]"),
        ("L,70g0,8", "expected KIND,ADDR"),
        ("L,7000,8192", "a size up to 8191"),
        ("L,7000,8,0,0,0", "expected KIND,ADDR"),
        ("P,7000,8", "expected P,ADDR[,0[,GAP[,DEP]]]"),
        ("L,7000,8,4294967296", "expected KIND,ADDR"),
        ("L,10000000000000000", "expected KIND,ADDR"),
        ("L,-1", "expected KIND,ADDR"),
        // No processor has these.
        (
            "L,100000000000000",
            "expected an address whose bits 56 to 63 are equal",
        ),
        (
            "L,7fffffffffffffff",
            "expected an address whose bits 56 to 63 are equal",
        ),
        (
            "S,fe00000000000000",
            "expected an address whose bits 56 to 63 are equal",
        ),
        (
            "brk,8000000000000000",
            "expected an address whose bits 56 to 63 are equal",
        ),
        // No system call takes these.
        ("map,7001,4096", "ADDR a page's"),
        ("unmap,7fff,4096", "ADDR a page's"),
        ("protect,7800,4096,r", "ADDR a page's"),
        ("remap,7000,4096,8008,4096", "pages' addresses"),
        ("advise,7ff0,4096,free", "ADDR a page's"),
        ("map,7000", "expected map,ADDR,LEN"),
        ("map,7000,4096,rwz", "letters of rwx"),
        ("map,7000,4096,rw,file", "private-file"),
        ("map,7000,4096,rw,stack,yes", "expected map,ADDR,LEN"),
        ("exec,1", "expected exec alone"),
        ("exit", "expected exit,STATUS"),
        ("process,4294967296", "expected process,NUMBER"),
        ("advise,7000,4096,please", "dontneed"),
        ("unmap,7000,4k", "expected unmap,ADDR,LEN"),
    ] {
        let (events, error) = read(&format!("L,1\nL,2\n{line}\nL,3\n"));
        assert_eq!(events.len(), 2, "{line}");
        let error = error.expect(line).to_string();
        let found = format!("line 3: found {line:?}, expected ");
        assert!(error.contains(&found), "{error}");
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn addresses_at_the_ends_of_both_halves_are_read() {
    let (events, error) = read(
        "L,0\nL,800000000000\nL,ffffffffffffff\nL,ff00000000000000\nL,ffffffffffffffff\n\
         map,fffffffffff000,4095\n",
    );
    assert!(error.is_none(), "{error:?}");
    assert_eq!(events.len(), 6);
}

#[test]
fn a_line_without_end_is_no_memory_hog() {
    let (events, error) = read(&format!("L,1\n{}", "L,".repeat(1 << 16)));
    assert_eq!(events.len(), 1);
    let error = error.unwrap().to_string();
    assert!(
        error.contains("line 2: a line of more than 64 KiB"),
        "{error}"
    );
}

/// The same with addresses that there are, those of pages where a system call takes no other, and no more
/// left out than a program executes.
fn possible(mut batch: Batch) -> Batch {
    let canonical = |addr: &mut u64| *addr = (addr.cast_signed() << 7 >> 7).cast_unsigned();
    let page = |addr: &mut u64| {
        canonical(addr);
        *addr &= !4095;
    };
    batch.addr.iter_mut().for_each(canonical);
    for (_, control) in &mut batch.controls {
        match control {
            Control::Map { addr, .. }
            | Control::Unmap { addr, .. }
            | Control::Protect { addr, .. }
            | Control::Advise { addr, .. }
            | Control::Touched { addr, .. } => page(addr),
            Control::Remap {
                old_addr, new_addr, ..
            } => {
                page(old_addr);
                page(new_addr);
            }
            Control::Brk { end: addr }
            | Control::Allocated { addr, .. }
            | Control::Freed { addr } => canonical(addr),
            Control::Skipped {
                instructions,
                accesses,
            } => {
                *instructions >>= 16;
                *accesses >>= 16;
            }
            _ => {}
        }
    }
    batch
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read(batches in proptest::collection::vec(any_batch(50), 0..8)) {
        let batches: Vec<_> = batches.into_iter().map(possible).collect();
        let mut writer = CsvWriter::new(Vec::new()).unwrap();
        for batch in &batches {
            writer.write(batch).unwrap();
        }
        let text = String::from_utf8(writer.finish().unwrap()).unwrap();
        let (events, error) = read(&text);
        prop_assert!(error.is_none());
        prop_assert_eq!(events, flatten(&batches));
    }
}
