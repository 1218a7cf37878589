//! A kept survey is what was seen, or nothing.

use super::SurveyFile;
use super::bad::BadSurvey;
use super::event::{Event, What};
use super::intervals::Intervals;
use super::kept;
use super::names::name;
use super::recent::{Line, Lines, Past, Used};
use super::survey::{GRAINS, Joint, Seen, Survey};
use pagelab_addr::Vpn;
use pagelab_events::{Advice, Backing, Control, Protection};
use proptest::prelude::*;

/// Small numbers that make an event of a kind.
type Drawn = (u64, u32, u64, u64);

fn event((after, process, kind, number): Drawn) -> Event {
    let addr = number << 12;
    let what = match kind {
        0..3 => What::Touch {
            vpn: Vpn(number),
            store: kind == 1,
        },
        3 => What::Fetch { vpn: Vpn(number) },
        4 => What::Control(Control::Unmap { addr, len: 4096 }),
        5 => What::Control(Control::Map {
            addr,
            len: 8192,
            prot: Protection(3),
            backing: Backing::Stack,
            populate: true,
        }),
        6 => What::Control(Control::Advise {
            addr,
            len: 1,
            advice: Advice::Other(77),
        }),
        7 => What::Control(Control::Fork { child: 9 }),
        _ => What::Control(Control::Exit { status: -3 }),
    };
    Event {
        after,
        process,
        what,
    }
}

fn seen(intervals: Intervals, interval: u64, events: &[Drawn], uses: &[(u64, u64)]) -> Seen {
    let start = intervals.start(interval);
    let end = intervals.end(interval).unwrap_or(intervals.accesses);
    let mut events: Vec<Event> = events.iter().copied().map(event).collect();
    for event in &mut events {
        event.after = start + event.after % (end - start + 1);
    }
    events.sort_by_key(|event| event.after);
    let uses = std::array::from_fn(|grain| {
        let own = uses.iter().skip(grain).step_by(GRAINS.len());
        let mut own: Vec<_> = own
            .map(|&(unit, at)| (name(unit), start + at % (end - start)))
            .collect();
        own.sort_unstable();
        own.dedup_by_key(|(name, _)| *name);
        own
    });
    let number_of_events = events.len();
    let gone = (0..uses[0].len() as u32).filter(|place| place % 3 == 1);
    let gone = gone.map(|place| (place, start + u64::from(place / 9)));
    let gone = gone.collect();
    let lines =
        [0, 1].map(|grain: usize| uses[grain].iter().map(|&(name, _)| Line(name)).collect());
    let [body, tail] = lines;
    Seen {
        events,
        uses,
        lines: [
            Lines {
                lines: body,
                gone,
                all: number_of_events < 50,
            },
            Lines {
                lines: tail,
                gone: Vec::new(),
                all: true,
            },
        ],
        broken: false,
        left_out: vec![start, end],
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn what_is_kept_is_what_was_seen(
        accesses in 1u64..3_000_000,
        events in proptest::collection::vec((any::<u64>(), 0u32..3, 0u64..9, 0u64..1 << 40), 0..60),
        uses in proptest::collection::vec((any::<u64>(), any::<u64>()), 0..200),
    ) {
        let intervals = Intervals::of(accesses, None);
        let mut joint = Joint::new(intervals);
        for interval in 0..intervals.count {
            let of = |all: usize| interval as usize * all / intervals.count as usize;
            let next = |all: usize| (interval as usize + 1) * all / intervals.count as usize;
            let part = seen(
                intervals,
                interval,
                &events[of(events.len())..next(events.len())],
                &uses[of(uses.len())..next(uses.len())],
            );
            let bytes = kept::seen_to_bytes(&part, intervals, interval).unwrap();
            prop_assert_eq!(&kept::seen_from_bytes(&bytes, intervals, interval).unwrap(), &part);
            joint.add(interval, part);
        }
        let survey = joint.survey;
        let bytes = survey.to_bytes().unwrap();
        prop_assert_eq!(&Survey::from_bytes(&bytes, accesses).unwrap(), &survey);
        // The survey of another stream.
        prop_assert!(Survey::from_bytes(&bytes, accesses + 1).is_err());
        // Damaged anywhere, or cut short.
        for at in (0..bytes.len()).step_by(7) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            // One bit of a frame's header means nothing.
            let read = Survey::from_bytes(&damaged, accesses);
            prop_assert!(read.is_err() || read.is_ok_and(|read| read == survey), "byte {}", at);
            prop_assert!(Survey::from_bytes(&bytes[..at], accesses).is_err(), "{} bytes", at);
        }
        let parts = survey.events.split_at(survey.events.len() / 2);
        let bytes = kept::events_to_bytes(parts.1).unwrap();
        let first = parts.0.last().map_or(0, |event| event.after);
        prop_assert_eq!(kept::events_from_bytes(&bytes, first, accesses).unwrap(), parts.1);
        let used = uses.iter().map(|&(line, until)| match until % 3 {
            0 => Used::that_is_there(Line(line)),
            _ => Used { line: Line(line), until },
        });
        let past: Past = (0..).zip(used).map(|(number, used)| (used, number / 5 * 7)).collect();
        let bytes = kept::lines_to_bytes(&past).unwrap();
        prop_assert_eq!(kept::lines_from_bytes(&bytes, accesses).unwrap(), past);
    }
}

#[test]
fn a_file_that_says_nothing_is_as_none() {
    let folder = tempfile::tempdir().unwrap();
    let file = SurveyFile(folder.path().join("a/b.survey"));
    assert!(file.read(5).is_none());
    let survey = Survey::of_nothing(5);
    file.write(&survey);
    assert_eq!(file.read(5), Some(survey));
    std::fs::write(&file.0, b"pagelab survey 5\n").unwrap();
    assert!(file.read(5).is_none());
    // Only the file itself is there.
    let files = std::fs::read_dir(folder.path().join("a")).unwrap();
    assert_eq!(files.count(), 1);
}

#[test]
fn a_small_file_does_not_become_a_large_survey() {
    let zeros = vec![0u8; 20 << 20];
    let mut encoder = zstd::Encoder::new(b"pagelab survey 5\n".to_vec(), 3).unwrap();
    std::io::Write::write_all(&mut encoder, &zeros).unwrap();
    let bytes = encoder.finish().unwrap();
    assert!(bytes.len() < 10_000);
    assert!(matches!(
        Survey::from_bytes(&bytes, 100),
        Err(BadSurvey::Impossible)
    ));
}
