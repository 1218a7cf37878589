//! What arithmetic takes between loads and the addresses that are computed from them.
//!
//! Where a source has code, each pair of instructions has it from their bytes.

use crate::by_program::define_blocks;
use pagelab_cpu::CoreConfig;
use pagelab_events::{CodeBlock, Definition, NO_SITE, dependence};
use pagelab_instructions::{Arithmetic, Way};
use std::collections::HashMap;

/// Pairs of instructions that are remembered; others are looked at again.
const MOST_PAIRS: usize = 1 << 20;

/// Accesses that are remembered: as many as lie between an access and a load that it may wait for.
const REMEMBERED: usize = 1024;

#[derive(Debug)]
pub(crate) struct Computing {
    cores: Vec<Recent>,
    programs: Vec<Code>,
    /// Slots in a cycle.
    width: u32,
    /// Cycles of an index that is scaled.
    scaled_index: u32,
    /// With each access of the last chunk, slots after each of its loads.
    slots: Vec<[u16; 2]>,
}

/// The sites of a core's last accesses.
#[derive(Clone, Debug)]
struct Recent {
    sites: Box<[u32; REMEMBERED]>,
    at: usize,
}

#[derive(Clone, Debug, Default)]
struct Code {
    blocks: Vec<Arithmetic>,
    sites: Vec<Site>,
    pairs: HashMap<(u32, u32), u8>,
}

/// An instruction.
#[derive(Clone, Copy, Debug)]
struct Site {
    /// Its block, and its place there.
    block: u32,
    place: u16,
    /// For each of the loads that an access waits for, the site of the last one, and cycles from that.
    last: [(u32, u8); 2],
}

impl Computing {
    /// None where arithmetic takes no time.
    pub(crate) fn new(config: &CoreConfig, cores: u32) -> Option<Self> {
        let recent = Recent {
            sites: Box::new([NO_SITE; REMEMBERED]),
            at: 0,
        };
        config.arithmetic.then(|| Computing {
            cores: vec![recent; cores as usize],
            programs: Vec::new(),
            width: config.width,
            scaled_index: config.scaled_index,
            slots: Vec::new(),
        })
    }

    /// Takes in what a batch of a program says of its code.
    pub(crate) fn define(&mut self, program: usize, definitions: &[Definition]) {
        define_blocks(&mut self.programs, program, definitions, Code::define);
    }

    /// Takes accesses of a core, what they wait for and their instructions; returns how many slots pass from
    /// each load's data to the address, nothing if the source has no code.
    pub(crate) fn chunk(
        &mut self,
        core: usize,
        program: usize,
        dep: &[u32],
        site: &[u32],
    ) -> &[[u16; 2]] {
        self.slots.clear();
        let (Some(code), Some(recent)) = (self.programs.get_mut(program), self.cores.get_mut(core))
        else {
            return &[];
        };
        for (&dep, &site) in dep.iter().zip(site) {
            let mut slots = [0; 2];
            if dep != 0 {
                let loads = [dependence::near(dep), dependence::far(dep)];
                for (number, distance) in loads.into_iter().enumerate() {
                    let load = recent.back(distance);
                    let cycles = code.cycles(load, site, number, self.scaled_index);
                    slots[number] = (u32::from(cycles) * self.width) as u16;
                }
            }
            recent.push(site);
            self.slots.push(slots);
        }
        &self.slots
    }
}

impl Recent {
    #[inline(always)]
    fn push(&mut self, site: u32) {
        self.sites[self.at % REMEMBERED] = site;
        self.at += 1;
    }

    /// The site of the access so many before the next one.
    #[inline(always)]
    fn back(&self, distance: u32) -> u32 {
        let distance = distance as usize;
        if (1..=REMEMBERED.min(self.at)).contains(&distance) {
            self.sites[(self.at - distance) % REMEMBERED]
        } else {
            NO_SITE
        }
    }
}

impl Code {
    fn define(&mut self, block: &CodeBlock) {
        let number = self.blocks.len() as u32;
        self.blocks.push(Arithmetic::of(block));
        self.sites
            .extend((0..block.lengths.len()).map(|place| Site {
                block: number,
                place: place as u16,
                last: [(NO_SITE, 0); 2],
            }));
    }

    /// Cycles from the data of a load by one instruction to the address of an access by another.
    #[inline(always)]
    fn cycles(&mut self, load: u32, access: u32, number: usize, scaled_index: u32) -> u8 {
        if load == NO_SITE {
            return 0;
        }
        match self.sites.get(access as usize) {
            Some(site) if site.last[number].0 == load => site.last[number].1,
            Some(_) => self.look_up(load, access, number, scaled_index),
            None => 0,
        }
    }

    #[inline(never)]
    fn look_up(&mut self, load: u32, access: u32, number: usize, scaled_index: u32) -> u8 {
        let cycles = match self.pairs.get(&(load, access)) {
            Some(&cycles) => cycles,
            None => {
                let way = self.way(load, access);
                let cycles = way.map_or(0, |way| way.with(scaled_index));
                let cycles = cycles.min(u8::MAX.into()) as u8;
                if self.pairs.len() == MOST_PAIRS {
                    self.pairs.clear();
                }
                self.pairs.insert((load, access), cycles);
                cycles
            }
        };
        if let Some(site) = self.sites.get_mut(access as usize) {
            site.last[number] = (load, cycles);
        }
        cycles
    }

    /// If the load is in the same block before the access, and there is a way between the two, that is it; else
    /// the way leads out of the one block and into the other.
    fn way(&self, load: u32, access: u32) -> Option<Way> {
        let [from, to] = [load, access].map(|site| self.sites.get(site as usize));
        let (from, to) = (from?, to?);
        let [first, second] = [from, to].map(|site| self.blocks.get(site.block as usize));
        let (first, second) = (first?, second?);
        let places = [from.place, to.place].map(usize::from);
        let within = if from.block == to.block {
            first.within(places[0], places[1])
        } else {
            None
        };
        within.or_else(|| first.across(places[0], second, places[1]))
    }
}
