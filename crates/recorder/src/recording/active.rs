//! A ring in use, and how far its thread has come.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use pagelab_recorder_wire::word::bytes_to_words;

use crate::in_order::WordReader;
use crate::left_out::LeftOut;
use crate::shared::Reader;
use crate::thread::Thread;

/// A ring in use.
pub(super) struct Active<'a> {
    pub(super) index: usize,
    /// Rings are numbered in the order in which they were claimed: those of a process's new program
    /// after those of its old one.
    pub(super) claimed: u64,
    pub(super) reader: Reader<'a>,
    pub(super) definitions: bool,
    pub(super) process: u32,
    /// The number of the process that has forked it, and its own in the system.
    pub(super) parent: u32,
    pub(super) pid: u32,
    pub(super) tid: u32,
    /// `None` until the event has been read that announces the thread.
    pub(super) number: Option<u32>,
    pub(super) epoch: u64,
    pub(super) thread: Thread,
    pub(super) left_out: LeftOut,
    /// The system call in progress.
    pub(super) call: Option<(u64, [u64; 6])>,
    pub(super) vectors: Vec<(u64, u64)>,
    /// Result of the last successful call of the clone family.
    pub(super) child: u32,
    /// When it came to the end of a call that waited for a process, where that is to be told first.
    pub(super) waiting_since: Option<Instant>,
    /// The first of two texts of mappings.
    pub(super) maps: Option<String>,
    /// The file of the mmap in progress.
    pub(super) path: Option<String>,
}

impl<'a> Active<'a> {
    /// A ring that has just come into use.
    pub(super) fn new(reader: Reader<'a>, index: usize, chains: Arc<AtomicU32>) -> Active<'a> {
        let ring = reader.ring();
        Active {
            index,
            claimed: ring.claimed.load(Ordering::Relaxed),
            definitions: ring.definitions.load(Ordering::Relaxed) != 0,
            process: ring.process.load(Ordering::Relaxed),
            parent: ring.parent.load(Ordering::Relaxed),
            pid: ring.pid.load(Ordering::Relaxed),
            tid: ring.tid.load(Ordering::Relaxed),
            number: None,
            epoch: 0,
            thread: Thread::new(chains),
            left_out: LeftOut::default(),
            call: None,
            vectors: Vec::new(),
            child: 0,
            waiting_since: None,
            maps: None,
            path: None,
            reader,
        }
    }

    /// True for the ring of a process's first thread.
    pub(super) fn is_first(&self) -> bool {
        self.reader.ring().first.load(Ordering::Relaxed) != 0
    }

    /// True for the ring of a process's first thread, which may have replaced another program, and has not begun.
    pub(super) fn is_replacement(&self) -> bool {
        !self.definitions && self.number.is_none() && self.is_first()
    }

    /// True if nothing is left to read of what will not be written to any more.
    pub(super) fn is_read_to_its_end(&mut self) -> bool {
        self.reader.look_finally();
        self.definitions || self.reader.is_empty()
    }

    /// True if there is something to read, and it is known whose it is.
    pub(super) fn ready(&self) -> bool {
        self.number.is_some() && !self.reader.is_empty()
    }

    /// The text of the message that comes next, of so many bytes.
    pub(super) fn text(&self, bytes: u64) -> String {
        let bytes = bytes as usize;
        let mut text = self.reader.bytes(1..1 + bytes_to_words(bytes));
        text.truncate(bytes);
        String::from_utf8_lossy(&text).into_owned()
    }
}
