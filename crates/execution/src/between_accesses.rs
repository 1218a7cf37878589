//! Progress of instructions between two accesses, whose retirement alone bounds dispatch otherwise.
//!
//! Where accesses are far apart more than a reorder buffer of instructions lies between two of them. Now and then
//! it is looked at when those that have to leave it are done.

/// Looks that are remembered.
const LOOKS: usize = 64;

/// Instructions executed since the last access.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    pub(crate) instructions: u64,
    /// Slots from the access's dispatch to that of the last instruction.
    pub(crate) slots: u64,
    /// When what they compute is done.
    pub(crate) done: u64,
    reorder_buffer: u64,
    /// Instructions after which it is looked at next.
    pub(crate) look: u64,
    /// Instructions and when they had retired, the last ones; how many there were, and how many have left the
    /// reorder buffer, `left` as the last one.
    retired: Box<[(u64, u64); LOOKS]>,
    looks: usize,
    gone: usize,
    left: (u64, u64),
}

impl Ran {
    pub(crate) fn new(reorder_buffer: u32) -> Self {
        let reorder_buffer = u64::from(reorder_buffer);
        Ran {
            instructions: 0,
            slots: 0,
            done: 0,
            reorder_buffer,
            look: Self::apart(reorder_buffer),
            retired: Box::new([(0, 0); LOOKS]),
            looks: 0,
            gone: 0,
            left: (0, 0),
        }
    }

    /// Instructions between two looks: at most half of all looks are in the reorder buffer at a time.
    fn apart(reorder_buffer: u64) -> u64 {
        reorder_buffer.div_ceil(LOOKS as u64 / 2)
    }

    /// The next instructions are dispatched at `from` unless the reorder buffer has no room: then later.
    #[cold]
    pub(crate) fn room(&mut self, from: u64) -> u64 {
        let apart = Self::apart(self.reorder_buffer);
        self.retired[self.looks % LOOKS] = (self.instructions, self.done.max(from));
        self.looks += 1;
        self.look = self.instructions + apart;
        let leaving = self.look.saturating_sub(self.reorder_buffer);
        while self.gone < self.looks && self.retired[self.gone % LOOKS].0 <= leaving {
            self.left = self.retired[self.gone % LOOKS];
            self.gone += 1;
        }
        if !self.bounds() {
            return from;
        }
        let (number, retired) = self.left;
        from.max(retired + (leaving - number))
    }

    /// True if there were so many instructions that their retirement bounds dispatch.
    #[inline(always)]
    pub(crate) fn bounds(&self) -> bool {
        self.left.0 > 0
    }

    /// Begins anew behind an access; returns when everything up to it is done.
    #[inline(always)]
    pub(crate) fn end(&mut self) -> u64 {
        let done = self.done;
        (self.instructions, self.slots, self.done) = (0, 0, 0);
        if self.looks > 0 {
            self.look = Self::apart(self.reorder_buffer);
            (self.looks, self.gone, self.left) = (0, 0, (0, 0));
        }
        done
    }
}
