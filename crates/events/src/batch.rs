use crate::{Control, Definition, Flow, dependence};

/// Operation of an access and how many bytes it moves, in 16 bits.
///
/// Bit 15: a store (a load otherwise). Bit 14: done by the kernel on behalf of the program.
/// Bit 13: a further access of one instruction. Bits 0 to 12: size in bytes. A load of no bytes is a prefetch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Op(pub u16);

impl Op {
    const STORE: u16 = 1 << 15;
    const KERNEL: u16 = 1 << 14;
    const CONTINUES: u16 = 1 << 13;
    /// The largest size of one access, in bytes. Longer ones are recorded in pieces.
    pub const MAX_SIZE: u16 = Self::CONTINUES - 1;

    /// An instruction that asks for a line to be fetched: it loads nothing, takes no page fault, and nothing
    /// waits for it.
    pub const PREFETCH: Op = Op(0);

    /// A load of `size` bytes, or [`Op::PREFETCH`] if these are none.
    ///
    /// # Panics
    /// When `size` exceeds [`Op::MAX_SIZE`].
    #[inline]
    pub const fn load(size: u16) -> Op {
        assert!(size <= Self::MAX_SIZE);
        Op(size)
    }

    /// A store of `size` bytes.
    ///
    /// # Panics
    /// When `size` exceeds [`Op::MAX_SIZE`].
    #[inline]
    pub const fn store(size: u16) -> Op {
        assert!(size <= Self::MAX_SIZE);
        Op(size | Self::STORE)
    }

    /// The same access, done by the kernel on behalf of the program.
    #[must_use]
    pub const fn by_kernel(self) -> Op {
        Op(self.0 | Self::KERNEL)
    }

    /// Marks the access as one more of the instruction that made its thread's last access, if `continues`.
    #[must_use]
    #[inline]
    pub const fn continuing(self, continues: bool) -> Op {
        Op(self.0 & !Self::CONTINUES | (continues as u16 * Self::CONTINUES))
    }

    /// Says that its instruction made its thread's access before, too: the store of a read-modify-write,
    /// a further line of `rep movs` or of a system call.
    #[inline]
    pub const fn continues(self) -> bool {
        self.0 & Self::CONTINUES != 0
    }

    /// Instructions that an access with this gap stands for: those of the gap, and its own unless it
    /// continues one.
    #[inline]
    pub const fn instructions(self, gap: u32) -> u64 {
        gap as u64 + !self.continues() as u64
    }

    /// True for a store.
    #[inline]
    pub const fn is_store(self) -> bool {
        self.0 & Self::STORE != 0
    }

    /// True for a prefetch.
    #[inline]
    pub const fn is_prefetch(self) -> bool {
        self.0 & !Self::CONTINUES == Self::PREFETCH.0
    }

    /// True if the kernel did it on behalf of the program.
    #[inline]
    pub const fn is_kernel(self) -> bool {
        self.0 & Self::KERNEL != 0
    }

    /// Size in bytes.
    #[inline]
    pub const fn size(self) -> u16 {
        self.0 & Self::MAX_SIZE
    }
}

/// One access, as a row. The hot paths read the columns of a [`Batch`] instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Virtual address of the first byte.
    pub addr: u64,
    /// Load or store, size, user or kernel.
    pub op: Op,
    /// Instructions executed by this thread since its last access, not counting the one that
    /// makes this access: 0 where that has made the last access, too ([`Op::continues`]).
    pub gap: u32,
    /// Distances, in accesses of this thread, of the loads that this one waits for: that produced its address, or
    /// what it finds stored; 0 for none. One or two, as [`crate::dependence`] says.
    pub dep: u32,
}

/// A branch that a core would have foreseen wrongly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mispredicted {
    /// Distances of the loads that it waited for, from the access after it; 0 for none. One or two, as
    /// [`crate::dependence`] says.
    pub dep: u32,
    /// Its wrong path soon joins the right one, so that the core executes what follows where they join before it has
    /// found out. What the branch decides all the same waits for the branch's loads by its own `dep`: the
    /// instructions before the paths join, and what depends on them.
    pub reconverges: bool,
    /// So many more come after it and before the same access, of which nothing is known but that: each was
    /// decided as it was dispatched, and joins nothing.
    pub more: u32,
}

impl Mispredicted {
    /// Number of these branches.
    pub fn count(branches: &[(u32, Mispredicted)]) -> u64 {
        let more = branches.iter().map(|(_, branch)| u64::from(branch.more));
        branches.len() as u64 + more.sum::<u64>()
    }

    /// The rest of it where nothing is known of what lies more than `reach` accesses back.
    #[must_use]
    pub fn within(self, reach: u32) -> Self {
        Mispredicted {
            dep: dependence::within(self.dep, reach),
            ..self
        }
    }
}

/// So many regular executions in a row, which are of the same blocks as all others of this chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChainRun {
    /// The first of them, by its number in the flow.
    pub entry: u32,
    /// Number of them.
    pub entries: u32,
    /// Number of their chain of blocks, from 0 on through all such chains.
    pub chain: u32,
}

/// A few thousand accesses of one process, in columns, and the control events among them.
///
/// `addr`, `op`, `gap` and `dep` have one element an access, in program order. A control event
/// `(at, event)` happens before access number `at` of the batch (`at` equals the number of
/// accesses when it happens after the last); `controls` is ordered by `at`. Which thread makes
/// the accesses is said by [`Control::Thread`]; every batch that holds an access starts with one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// The process, numbered from 0 in the order in which processes appear.
    pub process: u32,
    /// Virtual address of each access.
    pub addr: Vec<u64>,
    /// Load or store, size, user or kernel, of each access.
    pub op: Vec<Op>,
    /// Instructions before each access since its thread's last one.
    pub gap: Vec<u32>,
    /// Distance back to the loads that made each address, in accesses of the same thread: see
    /// [`crate::dependence`].
    pub dep: Vec<u32>,
    /// Branches that were mispredicted: entry `(at, branch)` is one between access number `at` and the
    /// one before it of its thread. Ordered by `at`, which is below the number of accesses.
    pub mispredicted: Vec<(u32, Mispredicted)>,
    /// Control events and the access before which each happens.
    pub controls: Vec<(u32, Control)>,
    /// The instruction that makes each access: a site of the [`CodeTable`](crate::CodeTable) of
    /// all definitions so far, or [`NO_SITE`](crate::NO_SITE). Empty where the source knows none;
    /// where it is not, there is a flow.
    pub site: Vec<u32>,
    /// Blocks that are executed, in order: entry `(at, flow)` starts before access number `at`.
    /// Unless it is empty, the first entry names a thread.
    pub flow: Vec<(u32, Flow)>,
    /// For each entry of the flow whether it is a block that has made just the accesses that are
    /// usual, where they usually are from each other, each with the same operation every time, and
    /// gaps between them as its instructions say. Only a hint for a writer, to whom nothing of this
    /// need be shown again: it may be left empty, and counts only if it is as long as the flow.
    pub regular: Vec<bool>,
    /// Executions of the same blocks as others, in the order of the flow. Only a hint, too, and counts only beside
    /// [`Batch::regular`].
    pub alike: Vec<ChainRun>,
    /// Blocks and files that this batch or a later one refers to.
    pub definitions: Vec<Definition>,
}

impl Batch {
    /// The most entries of mispredicted branches before one access. What a program mispredicts after so many
    /// without an access is counted only ([`Mispredicted::more`]): whatever they wait for has long been there.
    pub const MAX_MISPREDICTED: usize = 4096;

    /// Number of accesses.
    #[inline]
    pub fn len(&self) -> usize {
        self.addr.len()
    }

    /// True if nothing happens in it: there is no access, no control event and no block.
    pub fn is_empty(&self) -> bool {
        self.addr.is_empty() && self.controls.is_empty() && self.flow.is_empty()
    }

    /// Empties the batch and keeps its memory.
    pub fn clear(&mut self) {
        self.addr.clear();
        self.op.clear();
        self.gap.clear();
        self.dep.clear();
        self.site.clear();
        self.clear_events();
    }

    /// Empties the batch but for the columns of accesses, for who overwrites these: so nothing is cleared that is
    /// written anyway.
    pub(crate) fn clear_events(&mut self) {
        self.process = 0;
        self.mispredicted.clear();
        self.controls.clear();
        self.flow.clear();
        self.regular.clear();
        self.alike.clear();
        self.definitions.clear();
    }

    /// Appends an access.
    #[inline]
    pub fn push(&mut self, access: Access) {
        self.addr.push(access.addr);
        self.op.push(access.op);
        self.gap.push(access.gap);
        self.dep.push(access.dep);
    }

    /// Appends a control event, after the accesses pushed so far.
    #[inline]
    pub fn push_control(&mut self, control: Control) {
        self.controls.push((self.addr.len() as u32, control));
    }

    /// Marks a mispredicted branch before the access that is pushed next.
    #[inline]
    pub fn push_mispredicted(&mut self, branch: Mispredicted) {
        self.mispredicted.push((self.addr.len() as u32, branch));
    }

    /// The mispredicted branches before the accesses of a range.
    #[inline]
    pub fn mispredicted_in(&self, accesses: std::ops::Range<usize>) -> &[(u32, Mispredicted)] {
        let from =
            |access: usize| (self.mispredicted).partition_point(|&(at, _)| (at as usize) < access);
        &self.mispredicted[from(accesses.start)..from(accesses.end)]
    }

    /// Access number `index`, as a row.
    ///
    /// # Panics
    /// When `index` is not below [`Batch::len`].
    #[inline]
    pub fn access(&self, index: usize) -> Access {
        Access {
            addr: self.addr[index],
            op: self.op[index],
            gap: self.gap[index],
            dep: self.dep[index],
        }
    }
}
