//! Look-ahead of cores whose integer registers may run out before the reorder buffer is full.
//!
//! Where a source has code, what each instruction takes is known from its bytes.

use crate::count::by_program::define_blocks;
use pagelab_cpu::{CoreConfig, RegisterFile};
use pagelab_events::{CodeBlock, Definition, NO_SITE};
use pagelab_instructions::integer_registers_taken;

#[derive(Debug)]
pub(crate) struct LookAhead {
    cores: Vec<Ahead>,
    programs: Vec<Code>,
    /// With each access of the last chunk.
    instructions: Vec<u32>,
}

#[derive(Clone, Debug)]
struct Ahead {
    file: RegisterFile,
    /// The site of the access before.
    last: u32,
}

/// Registers that a program's instructions take, by site.
#[derive(Clone, Debug, Default)]
struct Code {
    sites: Vec<Site>,
    /// Registers that all of them take.
    taken: u32,
}

/// An instruction of a block.
#[derive(Clone, Copy, Debug)]
struct Site {
    /// Registers taken by all instructions of the program up to it, itself among them.
    taken: u32,
    /// Instructions of its block before it, and behind it.
    before: u16,
    behind: u16,
}

impl LookAhead {
    /// None where nothing is said of registers.
    pub(crate) fn new(config: &CoreConfig, cores: u32) -> Option<Self> {
        let file = RegisterFile::new(config)?;
        let last = NO_SITE;
        Some(LookAhead {
            cores: vec![Ahead { file, last }; cores as usize],
            programs: Vec::new(),
            instructions: Vec::new(),
        })
    }

    /// Takes in what a batch of a program says of its code.
    pub(crate) fn define(&mut self, program: usize, definitions: &[Definition]) {
        define_blocks(&mut self.programs, program, definitions, Code::define);
    }

    /// Takes accesses of a core, their gaps and their instructions; returns how many instructions the core
    /// holds with each, nothing if the source has no code.
    pub(crate) fn chunk(
        &mut self,
        core: usize,
        program: usize,
        gap: &[u32],
        site: &[u32],
    ) -> &[u32] {
        self.instructions.clear();
        let (Some(code), Some(Ahead { file, last })) =
            (self.programs.get(program), self.cores.get_mut(core))
        else {
            return &[];
        };
        self.instructions
            .extend(gap.iter().zip(site).map(|(&gap, &site)| {
                let taken = code.taken(gap, site, *last);
                *last = site;
                file.look_ahead(gap, taken)
            }));
        &self.instructions
    }
}

impl Code {
    fn define(&mut self, block: &CodeBlock) {
        let each = integer_registers_taken(block);
        let count = each.len();
        self.sites.extend((0..).zip(each).map(|(before, own)| {
            // A trace has at most 2^26 instructions, each of which takes a few.
            self.taken = self.taken.saturating_add(own.into());
            Site {
                taken: self.taken,
                before: before as u16,
                behind: (count - 1 - before) as u16,
            }
        }));
    }

    /// Registers that the instructions of a gap and the access after it take.
    ///
    /// The gap's last instructions are those before the access in its block, and its first those behind the
    /// access before. What lies between is blocks without an access: they take as much as the rest.
    #[inline(always)]
    fn taken(&self, gap: u32, site: u32, last: u32) -> u32 {
        let Some(&own) = self.sites.get(site as usize) else {
            return 0;
        };
        let before = u32::from(own.before);
        if gap <= before {
            // A further access of the same instruction takes nothing.
            let again = gap == 0 && site == last;
            return if again {
                0
            } else {
                own.taken - self.up_to(site.wrapping_sub(gap + 1))
            };
        }
        let mut taken = own.taken - self.up_to(site.wrapping_sub(before + 1));
        let mut known = before + 1;
        if let Some(&last_own) = self.sites.get(last as usize) {
            let behind = (gap - before).min(last_own.behind.into());
            taken += self.up_to(last + behind) - last_own.taken;
            known += behind;
        }
        if known > gap {
            return taken;
        }
        let all = u64::from(gap) + 1;
        (u64::from(taken) * all / u64::from(known)).min(u32::MAX.into()) as u32
    }

    /// Registers that the instructions up to one take; none before the first.
    #[inline(always)]
    fn up_to(&self, site: u32) -> u32 {
        self.sites.get(site as usize).map_or(0, |site| site.taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(code: &[&[u8]]) -> CodeBlock {
        CodeBlock {
            lengths: code.iter().map(|bytes| bytes.len() as u8).collect(),
            bytes: code.concat().into(),
            ..CodeBlock::default()
        }
    }

    const ADD: &[u8] = &[0x01, 0xc8];
    const CMP: &[u8] = &[0x39, 0xc8];
    const LOAD: &[u8] = &[0x48, 0x8b, 0x00];
    const STORE: &[u8] = &[0x48, 0x89, 0x08];

    #[test]
    fn a_gap_is_taken_apart_where_its_instructions_are_known() {
        let mut code = Code::default();
        // Sites 0 to 3, and 4 to 7.
        code.define(&block(&[ADD, LOAD, CMP, ADD]));
        code.define(&block(&[CMP, CMP, STORE, ADD]));
        let taken = [
            // The load, alone and with the addition before it.
            ((0, 1, NO_SITE), 1),
            ((1, 1, NO_SITE), 2),
            // From the load to the store: two behind it, of which one takes a register, and two before the
            // store, of which none does.
            ((4, 6, 1), 1),
            // The same block again: behind the store is an addition, and another before the load.
            ((2, 1, 6), 3),
            // With as many instructions between that nothing is known of: half of ten.
            ((9, 6, 1), 2),
            // A load and a store of one instruction.
            ((0, 6, 6), 0),
            // Nothing is known.
            ((5, 100, 1), 0),
            ((5, NO_SITE, 1), 0),
        ];
        for ((gap, site, last), expected) in taken {
            assert_eq!(code.taken(gap, site, last), expected, "{gap} {site} {last}");
        }
    }
}
