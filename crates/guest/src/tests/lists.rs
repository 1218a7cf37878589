//! Lists of walks as text.

use super::*;
use crate::WalkList;

#[test]
fn a_list_of_walks_is_read_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("walks");
    let mut walks = walks_of(4);
    walks.truncate(100);
    walks.push(Guest::new(4).walk(0x1000, 0x5000));
    walks[3].purpose = Purpose::Store;
    walks[4].purpose = Purpose::Fetch;
    let mut list = WalkList::create(&path).unwrap();
    for walk in &walks {
        list.write(7, 3, walk).unwrap();
    }
    list.finish().unwrap();
    let read: Vec<_> = WalkLines::open(&path)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    // A list has where the page is, not the address in it.
    for walk in &mut walks {
        if let Some((paddr, size)) = &mut walk.found {
            *paddr &= !(size.bytes() - 1);
        }
    }
    let written: Vec<_> = walks.into_iter().map(|walk| (3, walk)).collect();
    assert_eq!(read, written);
}

#[test]
fn lines_that_are_no_walks_are_refused_by_number() {
    for line in [
        "1",
        "1,x",
        "1,0,jump,0,0,0",
        "1,0,load,zz,0,0",
        "1,0,load,0,5,0,",
        "1,0,load,0,0,0",
        "1,0,load,0,0,0,7",
        "1,0,load,0,0,0,7/8",
        "1,0,load,0,0,0,7/8/x",
        "1,0,load,0,0,0,,12",
    ] {
        let text = format!("# a comment\n{line}\n");
        let error = WalkLines::new(text.as_bytes()).next().unwrap().unwrap_err();
        assert!(
            error.to_string().starts_with("line 2 is no walk: "),
            "{line}: {error}"
        );
    }
}

/// Neither a key nor a line decides how much memory is taken.
#[test]
fn a_list_takes_no_memory_for_what_it_only_names() {
    let far = "0,0,load,7000,0,0,ffffffffffffffff/0+64/,1e40080=2c0\n";
    assert_eq!(judged_lines(far).faults, 1);
    let endless = "0,0,load,7000,0,0,,".to_owned() + &"1=1,".repeat(1 << 16);
    let error = WalkLines::new(endless.as_bytes()).next().unwrap();
    let error = error.unwrap_err().to_string();
    assert_eq!(error, "line 1 is no walk: it is longer than any walk");
}

#[test]
fn memory_beyond_what_tables_name_is_refused() {
    let far = "0,0,load,40000000,1073741824,b0640000000,,2000=3000001,3008=27\n";
    let error = judge(WalkLines::new(far.as_bytes()))
        .unwrap_err()
        .to_string();
    assert!(error.contains("0xb0640000000 lies beyond"), "{error}");
}
