//! Walks of distributed page tables that Linux has built.

use super::*;

/// Walks by hash of Linux guests of 1280 MB: tables in the frame that the hash names, and 1, 2, 3 and 4
/// frames and blocks of 2 MB and of 1 GB further; the last one of a page of 2 MB.
const HASHED: &str = "\
7,0,store,7ffe2598e950,4096,1587b000,6/0+327648/0,2a439c0=ffffffffc0ffffff,2f3db80=fffffcafffffffff,2ebe100=ffffffffff492fff,27cd9c70=800000001587b867
7,0,fetch,430e50,4096,20c50000,6/0+327648/13,2a43e40=fffffffffffcdfff,2f3d8c0=ffffffffffffffc0,2ebe6c0=ffffffffffffffcd,407f9180=20c50025
7,1,store,a7ed58,4096,44cbe000,8/0+327648/8,2f32440=fffffff23fffffff,2f5df00=ffffffffffffffc0,2a2c680=ffffffffffffffc0,44cc03f0=8000000044cbe867
7,1,store,7fffc7d9bf89,4096,36838000,8/0+327648/9,2f329c0=fffffffffffc9fff,2f5dd40=ffffffffff47ffff,2a2c500=ffffffffff280fff,2d66acd8=8000000036838867
7,1,load,7f411dd73270,4096,44cc6000,8/0+327648/5,2f32880=ffff005fffffffff,2f5d640=ffffffffc5ffffff,2a2c500=ffffffffff280fff,185c1b98=8000000044cc6025
7,3,load,7fff8632ec38,4096,3929f000,5/0+327648/17,2eb3c40=f47fffffffffffff,2eb2cc0=fffffffffffd1fff,2eb0ec0=ffffffffff17ffff,39250970=800000003929f867
7,3,store,20000003943b,2097152,29800000,3/0+327648/0,2f4a040=ffffffffffffffff,2ebebc0=ffffffffffffffc0,2532b40=ffffffffffffffca,29ba6000=80000000298008e7
";

/// A walk of a table that lies in none of its places.
fn exception(walk: &str) -> String {
    walk.replace("+327648/0,", "+327648/3,")
        .replace(",27cd9c70", ",1f00000=2f00000,2f00040=1234,1234c70")
}

#[test]
fn frames_that_linux_chose_by_hash_are_the_simulators() {
    let text = HASHED.replace("3/0+327648/", "6/0+327648/");
    let judged = judged_lines(&text);
    assert_eq!(judged.different, 0, "{:?}", judged.differences);
    assert_eq!((judged.hashed, judged.reads), ([(3, 7)].into(), 7));
    // The next frame, another key, number of frames or metadata: not where the hash leads.
    let wrong = [
        text.replace("27cd9c70", "27cdac70"),
        text.replace("6/0+327648", "9/0+327648"),
        text.replace("+327648", "+327680"),
        text.replace("+327648/0,", "+327648/4,"),
    ];
    for text in wrong {
        let judged = judged_lines(&text);
        assert!(judged.different > 0, "{text}");
    }
}

/// Memory with a hole is numbered without it.
#[test]
fn frames_above_a_hole_are_the_simulators() {
    let first = HASHED.lines().next().unwrap();
    let hole = first.replace("0+327648", "0+256.1100+327392");
    let above = hole.replace("27cd9c70", "28cd9c70");
    let inside = hole.replace("27cd9c70", "800c70");
    let different = [above, hole, inside].map(|text| judged_lines(&text).different);
    assert_eq!(different, [0, 1, 1]);
}

/// The metadata say that a table is in none of its places: it may be anywhere.
#[test]
fn exceptions_are_not_where_the_hash_leads() {
    let first = HASHED.lines().next().unwrap();
    let judged = judged_lines(&exception(first));
    assert_eq!(judged.different, 0, "{:?}", judged.differences);
    assert_eq!(judged.hashed, [(5, 1)].into());
}

/// The first of two pages in one table needs a frame, the second none; an exception of the same process comes next.
#[test]
fn an_exception_may_follow_a_table_that_was_there() {
    let first = HASHED.lines().next().unwrap();
    let second = first
        .replace("7ffe2598e950", "7ffe2598f950")
        .replace("27cd9c70", "27cd9c78");
    let third = exception(&first.replace("7ffe2598e950", "7ffe2998e950"));
    let text = format!("{first}\n{second}\n{third}\n");
    let judged = judged_lines(&text);
    assert_eq!(judged.different, 0, "{:?}", judged.differences);
}
