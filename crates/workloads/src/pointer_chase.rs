use crate::emitter::{Emitter, Loaded};
use crate::memory::Memory;
use crate::program::Program;
use crate::{Parameter, Parameters, Workload};
use pagelab_addr::{LINE_BYTES, PAGE_BYTES};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// One load a page, each giving the address of the next: every translation's latency shows.
pub(crate) const WORKLOAD: Workload = Workload {
    name: "pointer-chase",
    description: "a chain of dependent loads, one line a page, over N pages in random order",
    parameters: &[
        Parameter {
            name: "pages",
            description: "pages of the chain",
            default: 100_000,
            min: 1,
            max: 1 << 28,
        },
        Parameter {
            name: "loads",
            description: "loads",
            default: 10_000_000,
            min: 0,
            max: 1 << 60,
        },
    ],
    build,
};

fn build(parameters: &Parameters) -> Program {
    let pages = parameters.get("pages");
    let loads = parameters.get("loads");
    // The page that follows each page; one cycle through all of them.
    let next = cycle(pages as u32, parameters.get("seed"));
    let mut memory = Memory::default();
    let base = memory.allocate(pages * PAGE_BYTES);
    let kernel = move |out: &mut Emitter| {
        let (mut page, mut pointer) = (0, Loaded::NONE);
        for _ in 0..loads {
            pointer = out.load(base + line(page), 8, 0, pointer);
            page = u64::from(next[page as usize]);
        }
    };
    Program::new(memory, Some(loads), kernel)
}

/// A random cyclic permutation (Sattolo's algorithm): no shorter cycle can hide in it.
fn cycle(pages: u32, seed: u64) -> Vec<u32> {
    let mut next: Vec<u32> = (0..pages).collect();
    let mut random = SmallRng::seed_from_u64(seed);
    for last in (1..next.len()).rev() {
        next.swap(last, random.random_range(0..last));
    }
    next
}

/// The offset of the line of a page that the chain uses: another one in each page, so that the chain
/// spreads over the sets of a cache.
///
/// Which line it is does not go with the low bits of the page's number (Fibonacci hashing: Knuth, The Art
/// of Computer Programming, volume 3, section 6.4): a set is told by these, too, where frames follow each
/// other as pages do, and line `page % 64` would have an eighth of the sets of 512.
fn line(page: u64) -> u64 {
    const LINES_SHIFT: u32 = (PAGE_BYTES / LINE_BYTES).ilog2();
    let line = page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - LINES_SHIFT);
    page * PAGE_BYTES + line * LINE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_visits_every_page_before_it_returns() {
        for pages in [1, 2, 3, 1000] {
            let next = cycle(pages, 7);
            let (mut at, mut length) = (0, 0);
            loop {
                at = next[at as usize];
                length += 1;
                if at == 0 {
                    break;
                }
            }
            assert_eq!(length, pages);
        }
    }

    #[test]
    fn the_lines_have_as_many_to_a_set_as_there_are_on_average() {
        // Pages in the order of their frames, and sets told by the address: of 512 and of 8,192.
        for sets in [512, 8192] {
            let mut lines = vec![0u32; sets];
            let pages = 8 * sets as u64;
            for page in 0..pages {
                lines[(line(page) / LINE_BYTES) as usize % sets] += 1;
            }
            let most = lines.iter().max().copied();
            assert!(most <= Some(16), "{most:?} of {sets} sets");
        }
    }
}
