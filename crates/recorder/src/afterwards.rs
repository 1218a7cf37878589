//! Recording in two steps: the words while the program runs, the trace afterwards.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use pagelab_recorder_wire::region::RINGS;

use crate::following::Following;
use crate::launch::told;
use crate::output::{Output, Sink};
use crate::recording::Recording;
use crate::shared::{Shared, fresh};
use crate::window::Windows;
use crate::words::{Event, Head, Player, Reading, Unread, said};
use crate::{Ended, Outcome, Progress, RecordError, Stage};

/// Time between reports of progress.
const TICK: Duration = Duration::from_millis(100);

/// Words that a trace can be made of.
pub(crate) struct Words<R> {
    reading: Reading<R>,
    pub(crate) head: Head,
    bytes: u64,
}

impl Words<BufReader<File>> {
    /// Words of a file.
    pub(crate) fn open(path: &Path) -> Result<Words<BufReader<File>>, RecordError> {
        let file = File::open(path).map_err(|error| RecordError::Words {
            path: path.to_owned(),
            error,
        })?;
        Words::of(file, path)
    }

    /// Words of an open file, which was at `path`: all of it.
    pub(crate) fn of(mut file: File, path: &Path) -> Result<Words<BufReader<File>>, RecordError> {
        file.rewind().map_err(|error| RecordError::Words {
            path: path.to_owned(),
            error,
        })?;
        let bytes = (file.metadata()).map_or(0, |metadata| metadata.len());
        Words::new(BufReader::new(file), path, bytes)
    }
}

impl<R: Read + Send> Words<R> {
    /// Words that are read from there, `bytes` if it is known how many.
    pub(crate) fn new(input: R, path: &Path, bytes: u64) -> Result<Words<R>, RecordError> {
        let (reading, head) = Reading::new(input).map_err(|why| RecordError::Words {
            path: path.to_owned(),
            error: said(why),
        })?;
        Ok(Words {
            reading,
            head,
            bytes,
        })
    }

    /// Makes the trace. `incomplete` is why the words are not whole, if that is known.
    pub(crate) fn make<S: Sink + 'static>(
        self,
        sink: S,
        incomplete: io::Result<()>,
        began: Instant,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<(Outcome, Option<S>), RecordError> {
        let bytes = self.bytes;
        let mut told_at = Instant::now();
        let mut stopping = |read: u64, now: &dyn Fn() -> Progress| {
            if told_at.elapsed() < TICK {
                return false;
            }
            told_at = Instant::now();
            let stage = Stage::Making { read, of: bytes };
            progress(Progress {
                stage,
                seconds: began.elapsed().as_secs_f64(),
                ..now()
            })
            .is_break()
        };
        play(
            self.reading,
            &self.head,
            sink,
            incomplete,
            began,
            &mut stopping,
        )
    }
}

/// Makes a trace of what is read.
pub(crate) fn play<R: Read + Send, S: Sink + 'static>(
    reading: Reading<R>,
    head: &Head,
    sink: S,
    incomplete: io::Result<()>,
    began: Instant,
    stopping: &mut dyn FnMut(u64, &dyn Fn() -> Progress) -> bool,
) -> Result<(Outcome, Option<S>), RecordError> {
    std::thread::scope(|scope| {
        // Dropped at the end, it ends the thread that reads.
        let mut player = Player::new(reading.spawn(scope));
        play_all(&mut player, head, sink, incomplete, began, stopping)
    })
}

fn play_all<S: Sink + 'static>(
    player: &mut Player,
    head: &Head,
    sink: S,
    incomplete: io::Result<()>,
    began: Instant,
    stopping: &mut dyn FnMut(u64, &dyn Fn() -> Progress) -> bool,
) -> Result<(Outcome, Option<S>), RecordError> {
    // Accesses outside of windows were reported, but for those before the first.
    let windows = Windows::new(head.window, false);
    let shared = Shared::new(|header| {
        *header = fresh();
        header.verbatim = u32::from(head.verbatim);
        // The words of a round were settled when they were taken.
        *header.epoch.0.get_mut() = u64::MAX / 2;
        windows.set_up(header);
    });
    let shared = shared.map_err(|error| RecordError::System {
        what: "make shared memory",
        error,
    })?;
    let output = Output::new(sink, head.with_code);
    let mut recording = Recording::new(&shared, windows, output, head.pid, head.began);
    let mut ended = None;
    let mut gone = Vec::new();
    let read = loop {
        if stopping(player.bytes(), &|| recording.progress()) {
            break Err(Stop::Asked);
        }
        let step = match player.step(&shared) {
            Ok(Some(step)) => step,
            Ok(None) => break Ok(()),
            Err(why) => break Err(Stop::Words(why)),
        };
        let done = match step {
            Event::Round => bury(player, &shared, &mut recording, &mut gone),
            // Each has had a ring, of which there are no more at a time.
            Event::Gone { .. } if gone.len() == RINGS => break Err(Stop::Words(Unread::Damaged)),
            Event::Gone { process, status } => {
                gone.push((process, status));
                bury(player, &shared, &mut recording, &mut gone)
            }
            Event::End { signal, number } => {
                ended = Some(if signal {
                    Ended::Signal(number)
                } else {
                    Ended::Status(number)
                });
                Ok(())
            }
            Event::Note(text) => {
                recording.note(text);
                Ok(())
            }
            Event::Open(_) | Event::Words { .. } | Event::Ended { .. } => Ok(()),
        };
        if let Err(error) = done {
            break Err(Stop::Sink(error));
        }
    };
    // Words that were written within a round.
    let last = match read {
        Err(Stop::Words(_)) | Ok(()) if ended.is_none() => rounds(player, &shared, &mut recording),
        _ => Ok(()),
    };
    let read = match read {
        Ok(()) if ended.is_none() => Err(said(Unread::Short)),
        Ok(()) => Ok(()),
        Err(Stop::Asked) => Err(io::Error::other("stopped while the trace was made")),
        Err(Stop::Words(why)) => Err(said(why)),
        Err(Stop::Sink(error)) => Err(error),
    };
    let stopped = incomplete.and(last).and(read);
    let ended = ended.unwrap_or(Ended::Unknown);
    Ok(told(recording, ended, stopped, began))
}

/// Reason for which no more is made of words.
enum Stop {
    Asked,
    Words(Unread),
    Sink(io::Error),
}

/// Reads what there is, and ends processes that are gone: of those that end at about the same time one may be unknown
/// until the end of another is told, for which whoever forks it has waited.
fn bury<S: Sink + 'static>(
    player: &mut Player,
    shared: &Shared,
    recording: &mut Recording<'_, S>,
    gone: &mut Vec<(u32, i32)>,
) -> io::Result<()> {
    loop {
        rounds(player, shared, recording)?;
        let known = |&(process, _): &(u32, i32)| recording.knows(process);
        let Some(known) = gone.iter().position(known) else {
            return Ok(());
        };
        let (process, status) = gone.remove(known);
        recording.gone(process, status)?;
    }
}

/// Reads what is in the rings, and what had no room in them.
fn rounds<S: Sink + 'static>(
    player: &mut Player,
    shared: &Shared,
    recording: &mut Recording<'_, S>,
) -> io::Result<()> {
    loop {
        let left = player.waiting();
        recording.round()?;
        player.put(shared);
        if player.waiting() == left {
            return Ok(());
        }
    }
}
