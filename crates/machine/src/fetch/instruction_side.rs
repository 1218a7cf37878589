use super::config::FetchConfig;
use super::counts::FetchCounts;
use super::front_end::FrontEnd;
use super::lines::BlockLines;
use crate::caches::served::Served;
use crate::count::by_program::of_program;
use crate::error::BuildError;
use crate::machine::chunk::Chunk;
use pagelab_events::Definition;

/// The instruction side of all cores.
#[derive(Debug)]
pub(crate) struct Fetch {
    pub(crate) cores: Vec<FrontEnd>,
    /// By program.
    pub(crate) programs: Vec<BlockLines>,
    pub(crate) next_lines: u32,
    pub(crate) counts: FetchCounts,
    /// Lines last fetched ahead, and the places that served them.
    pub(crate) ahead: Vec<(u32, Served)>,
    /// A line on its way through caches that are kept coherent.
    pub(crate) one: Chunk,
}

impl Fetch {
    pub(crate) fn new(config: &FetchConfig, cores: u32, seed: u64) -> Result<Self, BuildError> {
        let core = |core| FrontEnd::new(config, seed.wrapping_add(core << 8));
        Ok(Fetch {
            cores: (1..=u64::from(cores)).map(core).collect::<Result<_, _>>()?,
            programs: Vec::new(),
            next_lines: config.next_lines,
            counts: FetchCounts::default(),
            ahead: Vec::new(),
            one: Chunk::default(),
        })
    }

    /// Takes in what a batch of a program says of its code.
    pub(crate) fn define(&mut self, program: usize, definitions: &[Definition]) {
        let lines = of_program(&mut self.programs, program);
        for definition in definitions {
            lines.define(definition);
        }
    }
}
