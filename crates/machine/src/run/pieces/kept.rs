//! A survey as bytes, and in a file.
//!
//! Whoever names the file answers for its being about the stream. What is in it is checked for being
//! whole (a checksum) and possible, and nothing that it says can make a run wrong unnoticed: memory
//! is compared at each cut.

use super::bad::BadSurvey;
use super::event::{Event, What};
use super::intervals::Intervals;
use super::names::{name, unit};
use super::recent::{Line, Lines, Past, Used};
use super::survey::{GRAINS, Seen, Survey};
use pagelab_addr::{PAGE_SHIFT, Vpn};
use pagelab_events::coding::{put, put_control, take, take_control, unzigzag, zigzag};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Another version is another way to look at a stream, or to write down what was seen.
const MAGIC: &[u8; 17] = b"pagelab survey 5\n";

/// Bytes that an access may take in a survey, at the most: an event, and a use of each grain.
const BYTES_AN_ACCESS: u64 = 128;
/// Bytes besides.
const BYTES: u64 = 16 << 20;

/// A file for what was seen of one stream, which may not be there yet.
#[derive(Clone, Debug)]
pub struct SurveyFile(pub PathBuf);

impl SurveyFile {
    /// Kept survey of a stream of so many accesses; `None` where there is none that can be used.
    pub(super) fn read(&self, accesses: u64) -> Option<Survey> {
        let bytes = fs::read(&self.0).ok()?;
        let survey = Survey::from_bytes(&bytes, accesses).ok()?;
        survey.is_complete().then_some(survey)
    }

    /// Keeps it, whole or not at all. Where that fails the next run looks again.
    pub(super) fn write(&self, survey: &Survey) {
        let _ = survey.to_bytes().and_then(|bytes| replace(&self.0, &bytes));
    }
}

/// Writes under another name, and renames: others may read, or write the same.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fs::create_dir_all(folder)?;
    let mut part = path.as_os_str().to_owned();
    part.push(format!(".{}.part", std::process::id()));
    let part = PathBuf::from(part);
    let written = File::create(&part).and_then(|mut file| file.write_all(bytes));
    let kept = written.and_then(|()| fs::rename(&part, path));
    if kept.is_err() {
        let _ = fs::remove_file(&part);
    }
    kept
}

impl Survey {
    pub(super) fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let mut raw = Vec::new();
        let Intervals {
            count, accesses, ..
        } = self.intervals;
        for number in [accesses, count, self.leaves_out.into(), self.broken.into()] {
            put(&mut raw, number);
        }
        put_events(&mut raw, &self.events);
        put(&mut raw, self.uses.len() as u64);
        for (interval, uses) in (0..).zip(&self.uses) {
            put_uses(&mut raw, uses, self.intervals.start(interval));
        }
        for lines in self.lines.iter().flatten() {
            put_known(&mut raw, lines);
        }
        compressed(&raw)
    }

    /// Survey of a stream of so many accesses.
    pub(super) fn from_bytes(bytes: &[u8], accesses: u64) -> Result<Self, BadSurvey> {
        let raw = decompressed(bytes, accesses)?;
        let mut rest = raw.as_slice();
        let survey = take_survey(&mut rest).ok_or(BadSurvey::Impossible)?;
        if survey.intervals.accesses != accesses || !rest.is_empty() {
            return Err(BadSurvey::Impossible);
        }
        Ok(survey)
    }
}

/// Survey of one interval.
pub(super) fn seen_to_bytes(
    seen: &Seen,
    intervals: Intervals,
    interval: u64,
) -> io::Result<Vec<u8>> {
    let mut raw = Vec::new();
    put_events(&mut raw, &seen.events);
    put_uses(&mut raw, &seen.uses, intervals.start(interval));
    for lines in &seen.lines {
        put_known(&mut raw, lines);
    }
    put(&mut raw, seen.broken.into());
    put(&mut raw, seen.left_out.len() as u64);
    for &after in &seen.left_out {
        put(&mut raw, after);
    }
    compressed(&raw)
}

pub(super) fn seen_from_bytes(
    bytes: &[u8],
    intervals: Intervals,
    interval: u64,
) -> Result<Seen, BadSurvey> {
    let raw = decompressed(bytes, intervals.accesses)?;
    let mut rest = raw.as_slice();
    let seen = take_seen(&mut rest, intervals, interval);
    (seen.filter(|_| rest.is_empty())).ok_or(BadSurvey::Impossible)
}

fn take_seen(input: &mut &[u8], intervals: Intervals, interval: u64) -> Option<Seen> {
    let end = intervals.end(interval).unwrap_or(intervals.accesses);
    Some(Seen {
        events: take_events(input, intervals.start(interval), end)?,
        uses: take_uses(input, intervals, interval)?,
        lines: take_both(input)?,
        broken: take_bool(input)?,
        left_out: {
            let count = take(input)?;
            (0..count).map(|_| take(input)).collect::<Option<_>>()?
        },
    })
}

/// A part of the events of a stream.
pub(super) fn events_to_bytes(events: &[Event]) -> io::Result<Vec<u8>> {
    let mut raw = Vec::new();
    put_events(&mut raw, events);
    compressed(&raw)
}

/// Events between two places of a stream.
pub(super) fn events_from_bytes(bytes: &[u8], from: u64, to: u64) -> Result<Vec<Event>, BadSurvey> {
    let raw = decompressed(bytes, to)?;
    let mut rest = raw.as_slice();
    let events = take_events(&mut rest, from, to);
    (events.filter(|_| rest.is_empty())).ok_or(BadSurvey::Impossible)
}

fn compressed(raw: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = zstd::Encoder::new(MAGIC.to_vec(), 3)?;
    encoder.include_checksum(true)?;
    encoder.write_all(raw)?;
    encoder.finish()
}

fn decompressed(bytes: &[u8], accesses: u64) -> Result<Vec<u8>, BadSurvey> {
    let frame = bytes.strip_prefix(MAGIC).ok_or(BadSurvey::Other)?;
    let most = BYTES.saturating_add(accesses.saturating_mul(BYTES_AN_ACCESS));
    let mut raw = Vec::new();
    let decoder = zstd::Decoder::with_buffer(frame)?;
    decoder.take(most + 1).read_to_end(&mut raw)?;
    if raw.len() as u64 > most {
        return Err(BadSurvey::Impossible);
    }
    Ok(raw)
}

fn take_survey(input: &mut &[u8]) -> Option<Survey> {
    let accesses = take(input)?;
    let count = take(input)?;
    let intervals = Intervals::of(accesses, None);
    if intervals.count != count {
        return None;
    }
    let leaves_out = take_bool(input)?;
    let broken = take_bool(input)?;
    let events = take_events(input, 0, accesses)?;
    let seen = take(input)?;
    if seen > count {
        return None;
    }
    let uses = (0..seen).map(|interval| take_uses(input, intervals, interval));
    let uses = uses.collect::<Option<_>>()?;
    let lines = (0..seen).map(|_| take_both(input));
    let lines = lines.collect::<Option<_>>()?;
    Some(Survey {
        intervals,
        events,
        uses,
        lines,
        leaves_out,
        broken,
    })
}

fn take_bool(input: &mut &[u8]) -> Option<bool> {
    match take(input)? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

const LOAD: u64 = 0;
const STORE: u64 = 1;
const CONTROL: u64 = 2;
const FETCH: u64 = 3;

fn put_events(out: &mut Vec<u8>, events: &[Event]) {
    put(out, events.len() as u64);
    let (mut after, mut page) = (0, 0);
    for event in events {
        put(out, event.after - after);
        after = event.after;
        match event.what {
            What::Touch { vpn, .. } | What::Fetch { vpn } => {
                let kind = match event.what {
                    What::Touch { store: true, .. } => STORE,
                    What::Touch { store: false, .. } => LOAD,
                    _ => FETCH,
                };
                put(out, kind);
                put(out, event.process.into());
                put(out, zigzag(vpn.0.wrapping_sub(page) as i64));
                page = vpn.0;
            }
            What::Control(control) => {
                put(out, CONTROL);
                put(out, event.process.into());
                put_control(out, control);
            }
        }
    }
}

/// Events between two places of a stream.
fn take_events(input: &mut &[u8], from: u64, to: u64) -> Option<Vec<Event>> {
    let count = take(input)?;
    let mut events = Vec::new();
    let (mut after, mut page) = (0u64, 0u64);
    for _ in 0..count {
        after = after.checked_add(take(input)?)?;
        if !(from..=to).contains(&after) {
            return None;
        }
        let kind = take(input)?;
        let process = u32::try_from(take(input)?).ok()?;
        let what = match kind {
            LOAD | STORE | FETCH => {
                page = page.wrapping_add(unzigzag(take(input)?) as u64);
                if page > u64::MAX >> PAGE_SHIFT {
                    return None;
                }
                let vpn = Vpn(page);
                match kind {
                    FETCH => What::Fetch { vpn },
                    _ => What::Touch {
                        vpn,
                        store: kind == STORE,
                    },
                }
            }
            CONTROL => What::Control(take_control(input)?),
            _ => return None,
        };
        events.push(Event {
            after,
            process,
            what,
        });
    }
    Some(events)
}

type IntervalUses = [Vec<(u64, u64)>; GRAINS.len()];

/// By unit: near ones differ by little, and their names by much.
fn put_uses(out: &mut Vec<u8>, uses: &IntervalUses, start: u64) {
    for uses in uses {
        let mut units: Vec<_> = uses
            .iter()
            .map(|&(name, last)| (unit(name), last))
            .collect();
        units.sort_unstable();
        put(out, units.len() as u64);
        let mut before = 0;
        for (unit, last) in units {
            put(out, unit - before);
            put(out, last - start);
            before = unit;
        }
    }
}

fn take_uses(input: &mut &[u8], intervals: Intervals, interval: u64) -> Option<IntervalUses> {
    let start = intervals.start(interval);
    let end = intervals.end(interval).unwrap_or(intervals.accesses);
    let mut all = IntervalUses::default();
    for uses in &mut all {
        let count = take(input)?;
        let mut unit = 0u64;
        for _ in 0..count {
            unit = unit.checked_add(take(input)?)?;
            let last = start.checked_add(take(input)?)?;
            if last >= end {
                return None;
            }
            uses.push((name(unit), last));
        }
        uses.sort_unstable();
    }
    Some(all)
}

fn put_known(out: &mut Vec<u8>, Lines { lines, gone, all }: &Lines) {
    put_lines(out, lines);
    put_times(out, gone);
    put(out, u64::from(*all));
}

fn take_both(input: &mut &[u8]) -> Option<[Lines; 2]> {
    Some([take_known(input)?, take_known(input)?])
}

fn take_known(input: &mut &[u8]) -> Option<Lines> {
    let lines = take_lines(input)?;
    let gone = take_times(input, lines.len())?;
    let all = take_bool(input)?;
    Some(Lines { lines, gone, all })
}

/// Places of some lines, in order, each with a time: mostly that of the one before.
fn put_times(out: &mut Vec<u8>, gone: &[(u32, u64)]) {
    put(out, gone.len() as u64);
    let (mut next, mut before) = (0, 0u64);
    for &(place, time) in gone {
        put(out, u64::from(place) - next);
        put(out, zigzag(time.wrapping_sub(before) as i64));
        (next, before) = (u64::from(place) + 1, time);
    }
}

fn take_times(input: &mut &[u8], lines: usize) -> Option<Vec<(u32, u64)>> {
    let count = take(input)?;
    let (mut next, mut before) = (0u64, 0u64);
    let gone = (0..count).map(|_| {
        let place = next.checked_add(take(input)?)?;
        before = before.wrapping_add(unzigzag(take(input)?) as u64);
        next = place + 1;
        (place < lines as u64).then_some((place as u32, before))
    });
    gone.collect()
}

/// Each as far as it is from the one before.
fn put_lines(out: &mut Vec<u8>, lines: &[Line]) {
    put(out, lines.len() as u64);
    let mut before = 0u64;
    for &Line(line) in lines {
        put(out, zigzag(line.wrapping_sub(before) as i64));
        before = line;
    }
}

fn take_lines(input: &mut &[u8]) -> Option<Vec<Line>> {
    let count = take(input)?;
    let mut before = 0u64;
    let lines = (0..count).map(|_| {
        before = before.wrapping_add(unzigzag(take(input)?) as u64);
        Some(Line(before))
    });
    lines.collect()
}

/// Lines that are brought in before a piece.
pub(super) fn lines_to_bytes(past: &Past) -> io::Result<Vec<u8>> {
    let mut raw = Vec::new();
    let all = &past.lines;
    let lines: Vec<Line> = all.iter().map(|used| used.line).collect();
    put_lines(&mut raw, &lines);
    let gone = (0..).zip(all).filter(|(_, used)| !used.is_there());
    let gone: Vec<_> = gone.map(|(place, used)| (place, used.until)).collect();
    put_times(&mut raw, &gone);
    put_times(&mut raw, &past.since);
    compressed(&raw)
}

pub(super) fn lines_from_bytes(bytes: &[u8], accesses: u64) -> Result<Past, BadSurvey> {
    let raw = decompressed(bytes, accesses)?;
    let mut rest = raw.as_slice();
    let lines = take_lines(&mut rest).and_then(|lines| {
        let gone = take_times(&mut rest, lines.len())?;
        let mut all: Vec<Used> = lines.iter().copied().map(Used::that_is_there).collect();
        for (place, until) in gone {
            all[place as usize].until = until;
        }
        let since = take_times(&mut rest, lines.len())?;
        Some(Past { lines: all, since })
    });
    (lines.filter(|_| rest.is_empty())).ok_or(BadSurvey::Impossible)
}
