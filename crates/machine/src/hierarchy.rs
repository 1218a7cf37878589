use crate::buffer::Buffer;
use crate::chunk::Chunk;
use crate::config::CachesConfig;
use pagelab_memory::simd::Simd;
use pagelab_memory::{Cache, GeometryError, MODIFY};

/// Where a reference was served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Served {
    /// First-level data cache.
    #[default]
    L1,
    /// Second-level cache.
    L2,
    /// Last-level cache.
    Llc,
    /// Memory.
    Dram,
}

/// One core's private caches.
#[derive(Clone, Debug)]
pub(crate) struct PrivateCaches {
    l1: Cache,
    l2: Cache,
}

/// The cache that all cores share.
#[derive(Clone, Debug)]
pub(crate) struct SharedCache {
    llc: Cache,
    /// Lines written back to memory.
    pub(crate) writebacks: u64,
}

/// A reference on its way down: the line, with [`MODIFY`] when it modifies it, and the place of
/// its answer in the list of references. A modified line on its way out has the place past the
/// last.
type Descent = (u32, u32);

/// The lists between the levels, reused from chunk to chunk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    to_l2: Buffer<Descent>,
    to_llc: Buffer<Descent>,
}

impl PrivateCaches {
    pub(crate) fn new(config: &CachesConfig) -> Result<Self, GeometryError> {
        Ok(PrivateCaches {
            l1: Cache::new(&config.l1)?,
            l2: Cache::new(&config.l2)?,
        })
    }
}

impl SharedCache {
    pub(crate) fn new(config: &CachesConfig) -> Result<Self, GeometryError> {
        Ok(SharedCache {
            llc: Cache::new(&config.llc)?,
            writebacks: 0,
        })
    }
}

/// Takes references through the caches in program order, one level after the other, and says
/// where each was served.
///
/// Contents of a level depend only on the order of what reaches it, so the levels can be done in
/// turn; while one is done the host fetches the next one's sets. A modified line that leaves a
/// level is entered in the one below.
#[inline(always)]
pub(crate) fn reference<S: Simd>(
    private: &mut PrivateCaches,
    shared: &mut SharedCache,
    chunk: &mut Chunk,
) {
    let Chunk {
        references,
        served,
        scratch: Scratch { to_l2, to_llc },
        ..
    } = chunk;
    let PrivateCaches { l1, l2 } = private;
    let SharedCache { llc, writebacks } = shared;
    let references = references.as_slice();
    let outgoing = references.len() as u32;
    served.clear();
    // One more for what is on its way out.
    let answers = served.room(references.len() + 1);
    answers.fill(Served::L1);
    // Which of these hit nobody can predict below the first level: what should not go on is
    // overwritten by the next, without a branch. Each reference sends at most two lines on.
    to_l2.clear();
    let below = to_l2.room(2 * references.len() + 1);
    let mut len = 0;
    l1.access_all::<S>(references.iter().copied(), |place, access| {
        if access.hit {
            return;
        }
        let line = references[place] & !MODIFY;
        l2.prefetch(line);
        below[len] = (line, place as u32);
        below[len + 1] = (access.evicted | MODIFY, outgoing);
        len += 1 + usize::from(access.evicts_modified);
    });
    let down = &below[..len];
    to_llc.clear();
    let below = to_llc.room(2 * down.len() + 1);
    let mut len = 0;
    l2.access_all::<S>(down.iter().map(|d| d.0), |at, access| {
        let (reference, place) = down[at];
        let line = reference & !MODIFY;
        llc.prefetch(line);
        answers[place as usize] = Served::L2;
        below[len] = (line, place);
        len += usize::from(!access.hit & (place != outgoing));
        below[len] = (access.evicted | MODIFY, outgoing);
        len += usize::from(access.evicts_modified);
    });
    let down = &below[..len];
    llc.access_all::<S>(down.iter().map(|d| d.0), |at, access| {
        let (_, place) = down[at];
        *writebacks += u64::from(access.evicts_modified);
        answers[place as usize] = if access.hit {
            Served::Llc
        } else {
            Served::Dram
        };
    });
    served.added(references.len());
}
