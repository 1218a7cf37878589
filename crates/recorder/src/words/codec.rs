//! Words, in few bytes: those that were foreseen are counted, of the others is written what is new.
//!
//! A block is foreseen by the three before it, how many words it reports by the last time, and the
//! address of each by where it was then, and how far from the time before. Such predictors by value
//! are those of Burtscher's VPC ("VPC3", SIGMETRICS 2004), with the words' own structure for context.
//! Both sides learn the same from the same words.
//!
//! A code is a byte: what comes, and before it how many words as foreseen (15: see [`put_run`]). Numbers that it
//! needs are in a stream of their own, and messages, as they are, in a third.

use pagelab_recorder_wire::word::{Kind, Word};

/// The first 32 bits of a word that starts a block.
const BLOCK: u64 = Kind::Block.word(0) >> 32;

/// Access: the last address there and the last step again, where a block was foreseen.
const STEP: u8 = 0;
// 1 to 8: so many bytes of how far it is from the last address there.
/// Access: the last address there.
const SAME: u8 = 9;
/// Block: the first that is foreseen, where an access was.
const FIRST: u8 = 10;
/// Block: the other one.
const SECOND: u8 = 11;
/// Block of a number of two bytes.
const SHORT: u8 = 12;
/// Block of a number of four bytes.
const LONG: u8 = 13;
/// A message.
const MESSAGE: u8 = 14;

/// A run of as many words or more goes on behind the code.
const LONG_RUN: u32 = 15;

/// Entries of each table.
const BITS: u32 = 16;
const ENTRIES: usize = 1 << BITS;

/// Limit of what one code takes, of codes and of values.
const MOST_CODES: usize = 6;
const VALUE: usize = 8;

/// 2^64 over the golden ratio, odd.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
const STEP_KEY: u64 = 0xd1b5_4a32_d192_ed03;

/// Last address of an access, and how far from the time before.
#[derive(Clone, Copy, Default)]
struct Seen {
    word: u64,
    step: u64,
}

/// Blocks that came next, the last one first.
#[derive(Clone, Copy, Default)]
struct Next {
    first: u32,
    second: u32,
}

/// Progress of a thread's words.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    /// The current block, and its number in the tables.
    block: u32,
    key: u64,
    /// Words it has reported, and the key of the next.
    position: u32,
    foreseen: u32,
    /// The latest blocks.
    history: u64,
}

impl Place {
    fn enter(&mut self, block: u32) {
        self.block = block;
        self.key = u64::from(block).wrapping_mul(SPREAD);
        self.position = 0;
        // Three blocks of 21 bits.
        self.history = self.history << 21 ^ self.key >> 43;
    }

    fn access(&self) -> usize {
        let key = (self.key).wrapping_add(u64::from(self.position).wrapping_mul(STEP_KEY));
        (key >> (64 - BITS)) as usize
    }

    fn next(&self) -> usize {
        (self.history.wrapping_mul(SPREAD) >> (64 - BITS)) as usize
    }

    fn count(&self) -> usize {
        (self.key >> (64 - BITS)) as usize
    }
}

/// Learning from all words so far.
struct Model {
    seen: Box<[Seen]>,
    next: Box<[Next]>,
    /// Number of words that each block has reported.
    counts: Box<[u16]>,
}

impl Model {
    fn new() -> Model {
        Model {
            seen: vec![Seen::default(); ENTRIES].into(),
            next: vec![Next::default(); ENTRIES].into(),
            counts: vec![0; ENTRIES].into(),
        }
    }

    /// A block begins: what it was foreseen to report, and learns what the one before has.
    #[inline(always)]
    fn enter(&mut self, place: &mut Place, block: u32) {
        self.counts[place.count()] = place.position as u16;
        place.enter(block);
        place.foreseen = u32::from(self.counts[place.count()]);
    }
}

/// Bytes that are appended to, with room for some more.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bytes {
    bytes: Vec<u8>,
    len: usize,
}

impl Bytes {
    fn reserve(&mut self, more: usize) {
        if self.bytes.len() < self.len + more {
            self.bytes.resize((self.len + more).next_power_of_two(), 0);
        }
    }

    pub(crate) fn written(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    #[inline(always)]
    fn push(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    /// The lowest bytes of a number.
    #[inline(always)]
    fn put(&mut self, value: u64, bytes: usize) {
        self.bytes[self.len..self.len + VALUE].copy_from_slice(&value.to_le_bytes());
        self.len += bytes;
    }
}

/// Streams that words become.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams {
    pub(crate) codes: Bytes,
    pub(crate) values: Bytes,
    pub(crate) messages: Vec<u8>,
}

impl Streams {
    /// Bytes of all.
    pub(crate) fn len(&self) -> usize {
        self.codes.len() + self.values.len() + self.messages.len()
    }

    pub(crate) fn clear(&mut self) {
        self.codes.clear();
        self.values.clear();
        self.messages.clear();
    }
}

/// Writes words.
pub(crate) struct Encoder {
    model: Model,
    /// Words as foreseen since the last code.
    run: u32,
}

impl Encoder {
    pub(crate) fn new() -> Encoder {
        Encoder {
            model: Model::new(),
            run: 0,
        }
    }

    /// Writes accesses and blocks up to the first word that is neither; how many there were.
    pub(crate) fn words(&mut self, place: &mut Place, words: &[u64], out: &mut Streams) -> usize {
        out.codes.reserve(words.len() * MOST_CODES);
        out.values.reserve((words.len() + 1) * VALUE);
        for (done, &word) in words.iter().enumerate() {
            if word >> 63 == 0 {
                let seen = &mut self.model.seen[place.access()];
                let from = word.wrapping_sub(seen.word);
                let stepped = from == seen.step;
                let before = std::mem::replace(seen, Seen { word, step: from });
                let foreseen = place.position < place.foreseen;
                place.position = place.position.wrapping_add(1);
                if stepped & foreseen {
                    self.run += 1;
                } else if stepped {
                    self.code(STEP, out);
                } else if from == 0 {
                    self.code(SAME, out);
                } else {
                    let folded = fold(word, before.word);
                    let bytes = VALUE - folded.leading_zeros() as usize / 8;
                    self.code(bytes as u8, out);
                    out.values.put(folded, bytes);
                }
            } else if word >> 32 == BLOCK {
                let number = word as u32;
                let next = &mut self.model.next[place.next()];
                let code = if number == next.first {
                    FIRST
                } else {
                    let code = if number == next.second {
                        SECOND
                    } else if number >> 16 == 0 {
                        SHORT
                    } else {
                        LONG
                    };
                    next.second = next.first;
                    next.first = number;
                    code
                };
                let foreseen = place.position == place.foreseen;
                self.model.enter(place, number);
                if (code == FIRST) & foreseen {
                    self.run += 1;
                } else {
                    self.code(code, out);
                    match code {
                        SHORT => out.values.put(u64::from(number), 2),
                        LONG => out.values.put(u64::from(number), 4),
                        _ => {}
                    }
                }
            } else {
                return done;
            }
        }
        words.len()
    }

    /// Writes a message.
    pub(crate) fn message(&mut self, words: &[u64], out: &mut Streams) {
        out.codes.reserve(MOST_CODES);
        self.code(MESSAGE, out);
        out.messages
            .extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }

    /// Ends a run of words of one thread: that the rest was as foreseen says their number.
    pub(crate) fn end(&mut self) {
        self.run = 0;
    }

    #[inline(always)]
    fn code(&mut self, code: u8, out: &mut Streams) {
        let run = std::mem::take(&mut self.run);
        if run < LONG_RUN {
            out.codes.push(code | (run as u8) << 4);
        } else {
            out.codes.push(code | 0xf0);
            put_run(run - LONG_RUN, &mut out.codes);
        }
    }
}

/// The rest of a long run: seven bits a byte, the lowest first.
#[cold]
fn put_run(mut run: u32, codes: &mut Bytes) {
    while run >= 0x80 {
        codes.push(run as u8 | 0x80);
        run >>= 7;
    }
    codes.push(run as u8);
}

/// The distance between two words, small where it is small either way.
#[inline(always)]
fn fold(word: u64, from: u64) -> u64 {
    let distance = word.wrapping_sub(from) as i64;
    (distance << 1 ^ distance >> 63) as u64
}

#[inline(always)]
fn unfold(folded: u64, from: u64) -> u64 {
    from.wrapping_add(folded >> 1 ^ (folded & 1).wrapping_neg())
}

/// Written streams that contradict themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damaged;

/// The rest of the streams.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rest<'a> {
    pub(crate) codes: &'a [u8],
    pub(crate) values: &'a [u8],
    pub(crate) messages: &'a [u8],
}

impl Rest<'_> {
    #[inline(always)]
    fn code(&mut self) -> Option<u8> {
        let (&code, rest) = self.codes.split_first()?;
        self.codes = rest;
        Some(code)
    }

    #[inline(always)]
    fn value(&mut self, bytes: usize) -> Result<u64, Damaged> {
        let (value, rest) = self.values.split_at_checked(bytes).ok_or(Damaged)?;
        let mut word = [0; VALUE];
        word[..bytes].copy_from_slice(value);
        self.values = rest;
        Ok(u64::from_le_bytes(word))
    }

    /// The next message, whose first word says how long it is.
    fn message(&mut self, out: &mut Vec<u64>) -> Result<(), Damaged> {
        let first = self.messages.first_chunk().ok_or(Damaged)?;
        let Word::Message(kind, payload) = Word::decode(u64::from_le_bytes(*first)) else {
            return Err(Damaged);
        };
        let words = Word::tail(kind, payload).checked_add(1).ok_or(Damaged)?;
        let bytes = words.checked_mul(8).ok_or(Damaged)?;
        let (message, rest) = self.messages.split_at_checked(bytes).ok_or(Damaged)?;
        let words = message.chunks_exact(8).map(|word| {
            let word = word.try_into().unwrap_or_default();
            u64::from_le_bytes(word)
        });
        out.extend(words);
        self.messages = rest;
        Ok(())
    }
}

/// Reads words.
pub(crate) struct Decoder(Model);

impl Decoder {
    pub(crate) fn new() -> Decoder {
        Decoder(Model::new())
    }

    /// Reads `items` words and messages of a thread, which have all of the codes of `rest`. Tells of each
    /// message.
    pub(crate) fn words(
        &mut self,
        place: &mut Place,
        mut items: usize,
        rest: &mut Rest<'_>,
        out: &mut Vec<u64>,
        mut told: impl FnMut(&[u64]) -> Result<(), Damaged>,
    ) -> Result<(), Damaged> {
        while items > 0 {
            let code = rest.code();
            let run = match code {
                None => items,
                Some(code) => run(code, rest)?,
            };
            items = items.checked_sub(run).ok_or(Damaged)?;
            for _ in 0..run {
                self.foreseen(place, out)?;
            }
            let Some(code) = code else { break };
            items = items.checked_sub(1).ok_or(Damaged)?;
            match code & 0xf {
                MESSAGE => {
                    let start = out.len();
                    rest.message(out)?;
                    told(&out[start..])?;
                }
                code @ (FIRST..=LONG) => self.block(place, code, rest, out)?,
                code @ STEP..=SAME => self.access(place, code, rest, out)?,
                _ => return Err(Damaged),
            }
        }
        if rest.codes.is_empty() {
            Ok(())
        } else {
            Err(Damaged)
        }
    }

    #[inline(always)]
    fn foreseen(&mut self, place: &mut Place, out: &mut Vec<u64>) -> Result<(), Damaged> {
        if place.position < place.foreseen {
            let seen = &mut self.0.seen[place.access()];
            seen.word = seen.word.wrapping_add(seen.step);
            place.position = place.position.wrapping_add(1);
            out.push(checked(seen.word)?);
        } else {
            let number = self.0.next[place.next()].first;
            self.0.enter(place, number);
            out.push(Kind::Block.word(u64::from(number)));
        }
        Ok(())
    }

    #[inline(always)]
    fn access(
        &mut self,
        place: &mut Place,
        code: u8,
        rest: &mut Rest<'_>,
        out: &mut Vec<u64>,
    ) -> Result<(), Damaged> {
        let seen = &mut self.0.seen[place.access()];
        let word = match code {
            STEP => seen.word.wrapping_add(seen.step),
            SAME => seen.word,
            bytes => unfold(rest.value(usize::from(bytes))?, seen.word),
        };
        seen.step = word.wrapping_sub(seen.word);
        seen.word = word;
        place.position = place.position.wrapping_add(1);
        out.push(checked(word)?);
        Ok(())
    }

    #[inline(always)]
    fn block(
        &mut self,
        place: &mut Place,
        code: u8,
        rest: &mut Rest<'_>,
        out: &mut Vec<u64>,
    ) -> Result<(), Damaged> {
        let next = &mut self.0.next[place.next()];
        let number = match code {
            FIRST => next.first,
            SECOND => next.second,
            SHORT => rest.value(2)? as u32,
            _ => rest.value(4)? as u32,
        };
        if code != FIRST {
            next.second = next.first;
            next.first = number;
        }
        self.0.enter(place, number);
        out.push(Kind::Block.word(u64::from(number)));
        Ok(())
    }
}

/// A word that is that of an access.
fn checked(word: u64) -> Result<u64, Damaged> {
    if word >> 63 == 0 {
        Ok(word)
    } else {
        Err(Damaged)
    }
}

/// Number of words before the one of a code.
#[inline(always)]
fn run(code: u8, rest: &mut Rest<'_>) -> Result<usize, Damaged> {
    let short = code >> 4;
    if u32::from(short) < LONG_RUN {
        return Ok(usize::from(short));
    }
    let mut more = 0u64;
    for shift in [0, 7, 14, 21, 28] {
        let byte = rest.code().ok_or(Damaged)?;
        more |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(more as usize + LONG_RUN as usize);
        }
    }
    Err(Damaged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Words of threads: accesses near and far, blocks of few numbers and of many, messages.
    fn word() -> impl Strategy<Value = Vec<u64>> {
        prop_oneof![
            4 => (0u64..8, 0u64..4).prop_map(|(at, step)| vec![0x1000 + 64 * at + step]),
            2 => (0u64..1 << 63).prop_map(|word| vec![word]),
            8 => (0u64..6).prop_map(|block| vec![Kind::Block.word(block)]),
            1 => any::<u32>().prop_map(|block| vec![Kind::Block.word(block.into())]),
            1 => any::<[u64; 2]>().prop_map(|[a, b]| vec![Kind::Vector.word(0), a, b]),
            1 => (0u64..99).prop_map(|epoch| vec![Kind::Epoch.word(epoch)]),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            parts in prop::collection::vec((0usize..3, prop::collection::vec(word(), 0..200), 1usize..5), 0..20),
        ) {
            let mut encoder = Encoder::new();
            let mut decoder = Decoder::new();
            let (mut written, mut read) = ([Place::default(); 3], [Place::default(); 3]);
            for (thread, words, times) in parts {
                let mut streams = Streams::default();
                let mut items = 0;
                let one: Vec<u64> = words.concat();
                let all = one.repeat(times);
                let mut left = &all[..];
                let mut messages = Vec::new();
                while !left.is_empty() {
                    let done = encoder.words(&mut written[thread], left, &mut streams);
                    items += done;
                    left = &left[done..];
                    if let Some(&first) = left.first() {
                        let Word::Message(kind, payload) = Word::decode(first) else { panic!() };
                        let (message, rest) = left.split_at(1 + Word::tail(kind, payload));
                        encoder.message(message, &mut streams);
                        messages.push(message.to_vec());
                        items += 1;
                        left = rest;
                    }
                }
                encoder.end();
                let mut rest = Rest {
                    codes: streams.codes.written(),
                    values: streams.values.written(),
                    messages: &streams.messages,
                };
                let (mut out, mut told) = (Vec::new(), Vec::new());
                let place = &mut read[thread];
                let tell = |message: &[u64]| { told.push(message.to_vec()); Ok(()) };
                prop_assert_eq!(decoder.words(place, items, &mut rest, &mut out, tell), Ok(()));
                prop_assert_eq!(out, all);
                prop_assert_eq!(told, messages);
                prop_assert!(rest.values.is_empty() && rest.messages.is_empty());
            }
        }

        #[test]
        fn nothing_is_made_of_what_is_no_code(
            codes in prop::collection::vec(any::<u8>(), 0..64),
            values in prop::collection::vec(any::<u8>(), 0..256),
            messages in prop::collection::vec(any::<u8>(), 0..256),
            items in 0usize..500,
        ) {
            let mut rest = Rest { codes: &codes, values: &values, messages: &messages };
            let mut out = Vec::new();
            let read = Decoder::new().words(&mut Place::default(), items, &mut rest, &mut out, |_| Ok(()));
            if read.is_ok() {
                prop_assert!(out.len() >= items);
            }
        }
    }
}
