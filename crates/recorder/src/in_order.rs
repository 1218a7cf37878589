//! WordReader of a thread, in order.

/// Words of a thread that are there, from the next one on.
pub(crate) trait WordReader {
    /// True if nothing more will come than what is there.
    fn is_final(&self) -> bool;

    /// True if everything that is there has been read.
    fn is_empty(&self) -> bool;

    /// The next word, where there is one.
    fn peek(&self) -> u64;

    /// The next words, as many as lie side by side.
    fn available(&self) -> &[u64];

    /// Goes on by one word.
    fn advance(&mut self);

    /// Goes on by so many words.
    fn advance_by(&mut self, words: usize);

    /// The place of the next word, for `go_back`.
    fn mark(&self) -> usize;

    /// Goes back to a place.
    fn go_back(&mut self, mark: usize);
}

/// WordReader in a row.
pub(crate) struct InARow<'a> {
    pub(crate) words: &'a [u64],
    pub(crate) read: usize,
    pub(crate) is_final: bool,
}

impl WordReader for InARow<'_> {
    fn is_final(&self) -> bool {
        self.is_final
    }

    fn is_empty(&self) -> bool {
        self.read == self.words.len()
    }

    fn peek(&self) -> u64 {
        self.words[self.read]
    }

    fn available(&self) -> &[u64] {
        &self.words[self.read..]
    }

    fn advance(&mut self) {
        self.read += 1;
    }

    fn advance_by(&mut self, words: usize) {
        self.read += words;
    }

    fn mark(&self) -> usize {
        self.read
    }

    fn go_back(&mut self, mark: usize) {
        self.read = mark;
    }
}
