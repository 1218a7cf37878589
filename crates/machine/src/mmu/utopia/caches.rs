use pagelab_memory::LruKeys;
use std::ops::Range;

/// A walker's own cache of lines of set filters, or of tag arrays. It is kept up to date with what
/// the kernel writes there.
#[derive(Debug)]
pub(super) struct Lines {
    sets: u32,
    /// None where there is no cache.
    keys: Option<LruKeys>,
}

const LINES_PER_KIB: u32 = 16;

impl Lines {
    pub(super) fn new(kib: u32, ways: u32) -> Self {
        let sets = (kib * LINES_PER_KIB).div_ceil(ways);
        Lines {
            sets,
            keys: (sets > 0).then(|| LruKeys::new(sets as usize, ways as usize)),
        }
    }

    /// True if there is a cache.
    pub(super) fn there(&self) -> bool {
        self.keys.is_some()
    }

    /// Looks lines up, and enters those that are missing: which they are.
    pub(super) fn missing(&mut self, lines: Range<u32>, missing: &mut Vec<u32>) {
        for line in lines {
            let Some(keys) = &mut self.keys else {
                missing.push(line);
                continue;
            };
            let set = (line % self.sets) as usize;
            if !keys.get(set, line) {
                keys.insert(set, line);
                missing.push(line);
            }
        }
    }
}
