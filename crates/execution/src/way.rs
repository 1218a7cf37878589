//! Cycles that arithmetic takes from what a load brings to an address that is computed from it.

use crate::step::Step;
use pagelab_registers::{FLAGS, REGISTERS, members};

/// The longest ways from a load to an address that is computed from it, in cycles of the instructions
/// between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    /// To any part of the address.
    pub(crate) cycles: u32,
    /// To an index that is scaled, if there is one.
    pub(crate) to_scaled: Option<u32>,
}

impl Way {
    /// Cycles until the address is there, where scaling an index takes so many.
    pub(crate) fn with(&self, scaling: u32) -> u32 {
        let scaled = self.to_scaled.map_or(0, |cycles| cycles + scaling);
        self.cycles.max(scaled)
    }
}

/// By register, cycles since the load; negative where the load has no part in its value.
struct Since([i32; REGISTERS]);
const NO_PART: i32 = -1;

/// Registers that may be read behind a block: compilers do not keep flags so long.
pub(crate) const LIVE_BEHIND: u32 = !(1 << FLAGS);

/// Behind each instruction of a block, the registers that may be read before they are written.
pub(crate) fn live(steps: &[Step]) -> Vec<u32> {
    let mut live = vec![LIVE_BEHIND; steps.len()];
    for (number, step) in steps.iter().enumerate().skip(1).rev() {
        let read = step.addresses | step.data | step.merges;
        live[number - 1] = live[number] & !step.writes | read;
    }
    live
}

/// From the data of the load by one instruction of a block to an address of a later one. `None` if there is no way.
pub(crate) fn within(steps: &[Step], load: usize, access: usize) -> Option<Way> {
    let between = steps.get(load + 1..access)?;
    Since::load(steps.get(load)?).way(steps.get(access)?, between)
}

/// Way from a load to an access of another block, `next`, which is executed after the load's, sooner or later.
/// Blocks between the two take no time, and leave registers as they are.
pub(crate) fn across(steps: &[Step], load: usize, next: &[Step], access: usize) -> Option<Way> {
    let rest = steps.get(load + 1..)?;
    let between = rest.iter().chain(next.get(..access)?);
    Since::load(steps.get(load)?).way(next.get(access)?, between)
}

impl Since {
    /// When a load has its data.
    fn load(step: &Step) -> Since {
        let mut since = Since([NO_PART; REGISTERS]);
        for register in members(step.writes | step.merges) {
            since.0[register] = step.cycles.into();
        }
        since
    }

    fn take(&mut self, step: &Step) {
        let after =
            |latest: Option<i32>| latest.map_or(NO_PART, |latest| latest + i32::from(step.cycles));
        let result = after(self.latest(step.data));
        for register in members(step.merges) {
            self.0[register] = after(self.latest(1 << register)).max(result);
        }
        for register in members(step.writes) {
            self.0[register] = result;
        }
    }

    /// To the address of this instruction, after those between.
    fn way<'a>(mut self, to: &Step, between: impl IntoIterator<Item = &'a Step>) -> Option<Way> {
        for step in between {
            self.take(step);
        }
        Some(Way {
            cycles: self.latest(to.addresses)?.unsigned_abs(),
            to_scaled: self.latest(to.scaled).map(i32::unsigned_abs),
        })
    }

    fn latest(&self, of: u32) -> Option<i32> {
        let all = members(of).map(|register| self.0[register]);
        all.max().filter(|&latest| latest != NO_PART)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::decode;
    use pagelab_events::CodeBlock;

    /// The steps of a block.
    struct Arithmetic(Vec<Step>);

    impl Arithmetic {
        fn of(block: &CodeBlock) -> Self {
            Arithmetic(decode(block).iter().map(|one| one.step).collect())
        }

        fn within(&self, load: usize, access: usize) -> Option<Way> {
            within(&self.0, load, access)
        }

        fn across(&self, load: usize, next: &Arithmetic, access: usize) -> Option<Way> {
            across(&self.0, load, &next.0, access)
        }
    }

    fn arithmetic(code: &[&[u8]]) -> Arithmetic {
        Arithmetic::of(&CodeBlock {
            lengths: code.iter().map(|bytes| bytes.len() as u8).collect(),
            bytes: code.concat().into(),
            ..CodeBlock::default()
        })
    }

    fn unscaled(cycles: u32) -> Option<Way> {
        Some(Way {
            cycles,
            to_scaled: None,
        })
    }

    const LOAD: &[u8] = &[0x48, 0x8b, 0x00]; // mov rax, [rax]
    const PREFETCH: &[u8] = &[0x0f, 0x18, 0x0c, 0xc3]; // prefetcht0 [rbx+rax*8]
    const ADD: &[u8] = &[0x48, 0x83, 0xc0, 0x08]; // add rax, 8
    const MULTIPLY: &[u8] = &[0x48, 0x0f, 0xaf, 0xc1]; // imul rax, rcx

    #[test]
    fn a_prefetch_has_an_address_and_nothing_else() {
        let code = arithmetic(&[LOAD, MULTIPLY, PREFETCH, LOAD]);
        let step = code.0[2];
        assert!(step.prefetches && step.accesses() && !step.loads && !step.stores);
        assert_eq!((step.addresses, step.scaled), (1 << 3 | 1, 1));
        assert_eq!((step.data, step.writes, step.merges), (0, 0, 0));
        assert_eq!(code.within(0, 2).unwrap().with(1), 4);
        assert_eq!(code.within(0, 3), unscaled(3));
    }

    #[test]
    fn a_chain_takes_what_its_links_take() {
        let block = arithmetic(&[LOAD, ADD, MULTIPLY, LOAD, LOAD]);
        assert_eq!(block.within(0, 3), unscaled(4));
        assert_eq!(block.within(3, 4), unscaled(0));
        // The second load's value is none of the first.
        assert_eq!(block.within(0, 4), None);
        // Around a loop: from the first load to itself there is always another in between.
        assert_eq!(block.across(0, &block, 0), None);
        assert_eq!(block.across(4, &block, 0), unscaled(0));
        assert_eq!(
            block.across(4, &arithmetic(&[ADD, ADD, LOAD]), 2),
            unscaled(2)
        );
    }

    #[test]
    fn a_binary_search_takes_three_cycles_a_step() {
        let search = arithmetic(&[
            &[0x48, 0x89, 0xd6],       // mov rsi, rdx
            &[0x48, 0xd1, 0xee],       // shr rsi
            &[0x4c, 0x8d, 0x0c, 0x06], // lea r9, [rsi+rax]
            &[0x4e, 0x39, 0x04, 0xcb], // cmp [rbx+r9*8], r8
            &[0x49, 0x0f, 0x42, 0xc1], // cmovb rax, r9
            &[0x48, 0x29, 0xf2],       // sub rdx, rsi
            &[0x48, 0x83, 0xfa, 0x01], // cmp rdx, 1
            &[0x77, 0xe5],             // ja
        ]);
        // The comparison, the move by its flags, and the next place, which is an index of eight bytes each.
        let way = search.across(3, &search, 3).unwrap();
        assert_eq!((way.cycles, way.to_scaled), (3, Some(3)));
        assert_eq!((way.with(0), way.with(1)), (3, 4));
    }

    #[test]
    fn the_longest_way_counts() {
        let block = arithmetic(&[
            LOAD,
            &[0x48, 0x89, 0xc1],       // mov rcx, rax
            &[0x48, 0x8d, 0x50, 0x08], // lea rdx, [rax+8]
            &[0x48, 0x0f, 0xaf, 0xd2], // imul rdx, rdx
            &[0x48, 0x8b, 0x04, 0x11], // mov rax, [rcx+rdx]
        ]);
        assert_eq!(block.within(0, 4), unscaled(4));
        // The base is two cycles later than the index that is scaled.
        let base = arithmetic(&[
            LOAD,
            &[0x48, 0x89, 0xc1],
            ADD,
            ADD,
            &[0x48, 0x8b, 0x04, 0xc8],
        ]);
        let way = base.within(0, 4).unwrap();
        assert_eq!([0, 1, 2, 3].map(|scaling| way.with(scaling)), [2, 2, 2, 3]);
    }

    #[test]
    fn what_is_overwritten_is_forgotten_and_what_is_kept_in_part_is_not() {
        let zero: &[u8] = &[0x31, 0xc0]; // xor eax, eax
        assert_eq!(arithmetic(&[LOAD, zero, LOAD]).within(0, 2), None);
        let part: &[u8] = &[0x88, 0xc8]; // mov al, cl
        assert_eq!(
            arithmetic(&[LOAD, ADD, part, LOAD]).within(0, 3),
            unscaled(2)
        );
        let constant: &[u8] = &[0xb8, 1, 0, 0, 0]; // mov eax, 1
        assert_eq!(arithmetic(&[LOAD, constant, LOAD]).within(0, 2), None);
    }

    #[test]
    fn what_a_load_is_added_to_goes_on() {
        let block = arithmetic(&[
            LOAD,
            &[0x48, 0x03, 0x01], // add rax, [rcx]
            LOAD,
        ]);
        // One addition after either load.
        assert_eq!(block.within(0, 2), unscaled(1));
        assert_eq!(block.within(1, 2), unscaled(1));
        // The stack pointer that push moves is no value.
        let push = arithmetic(&[LOAD, &[0x50], &[0x48, 0x8b, 0x04, 0x24]]);
        assert_eq!(push.within(0, 2), None);
    }

    #[test]
    fn a_register_is_live_until_it_is_written() {
        let (rax, rcx, flags) = (1, 2, 1 << FLAGS);
        let block = arithmetic(&[
            ADD,
            &[0x48, 0x39, 0xc8],       // cmp rax, rcx
            &[0x48, 0x0f, 0x42, 0xc1], // cmovb rax, rcx
            &[0xb8, 1, 0, 0, 0],       // mov eax, 1
            ADD,
        ]);
        let live: Vec<u32> = (live(&block.0).iter())
            .map(|live| live & (rax | rcx | flags))
            .collect();
        let expected = [rax | rcx, rax | rcx | flags, rcx, rax | rcx, rax | rcx];
        assert_eq!(live, expected);
    }

    #[test]
    fn nothing_is_known_without_bytes_or_beyond_the_block() {
        let block = Arithmetic::of(&CodeBlock {
            lengths: [3, 0, 2].into(),
            ..CodeBlock::default()
        });
        assert_eq!(block.within(0, 2), None);
        assert_eq!(block.within(0, 9), None);
        assert_eq!(block.across(9, &block, 0), None);
    }
}
