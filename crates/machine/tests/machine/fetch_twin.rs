//! Counts of the instruction side, against lists that are searched and instructions that are looked
//! at one by one.

use crate::common::{BASE, but_the_design, machine, run};
use pagelab_events::{
    Access, Batch, CodeBlock, Control, Definition, Flow, Op, Source, SourceError,
};
use pagelab_machine::RunResult;
use proptest::prelude::*;

/// A block: where it is, and of each instruction the length and how many accesses it makes.
#[derive(Clone, Debug)]
struct Block {
    pc: u64,
    instructions: Vec<(u8, u8)>,
}

/// A thread executes a block, whose accesses are at these pages of data. A block that is left early
/// makes fewer.
#[derive(Clone, Debug)]
struct Executed {
    thread: usize,
    block: usize,
    pages: Vec<u64>,
}

fn block() -> impl Strategy<Value = Block> {
    let page = prop_oneof![Just(0u64), Just(1), Just(9), 0u64..40];
    let instruction = (
        1u8..=15,
        prop_oneof![4 => Just(0u8), 2 => Just(1), 1 => Just(2)],
    );
    let instructions = prop_oneof![
        3 => prop::collection::vec(instruction.clone(), 1..6),
        1 => prop::collection::vec(instruction, 1..60),
    ];
    (page, 0u64..4096, instructions).prop_map(|(page, offset, instructions)| Block {
        pc: 0x40_0000 + page * 4096 + offset,
        instructions,
    })
}

/// Sets of a few keys, the last used first.
struct Lists {
    ways: usize,
    sets: Vec<Vec<u64>>,
}

impl Lists {
    fn new(entries: usize, ways: usize) -> Self {
        Lists {
            ways,
            sets: vec![Vec::new(); entries / ways],
        }
    }

    fn set(&mut self, key: u64) -> &mut Vec<u64> {
        let sets = self.sets.len() as u64;
        &mut self.sets[(key % sets) as usize]
    }

    fn has(&mut self, key: u64) -> bool {
        let set = self.set(key);
        let Some(at) = set.iter().position(|&k| k == key) else {
            return false;
        };
        set.remove(at);
        set.insert(0, key);
        true
    }

    fn enter(&mut self, key: u64) {
        let ways = self.ways;
        let set = self.set(key);
        set.insert(0, key);
        set.truncate(ways);
    }
}

/// A core's first levels, and the second-level TLB that they share.
struct Twin {
    next_lines: u64,
    code_tlb: Lists,
    data_tlb: Lists,
    second: Lists,
    cache: Lists,
    /// Lines in the cache that were fetched ahead and not used.
    ahead: Vec<u64>,
    last: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    fetches: u64,
    missed: u64,
    ahead: u64,
    lookups: u64,
    code: [u64; 2],
    data: [u64; 2],
}

impl Twin {
    fn new(next_lines: u64) -> Self {
        Twin {
            next_lines,
            code_tlb: Lists::new(8, 4),
            data_tlb: Lists::new(8, 4),
            second: Lists::new(24, 12),
            cache: Lists::new(16, 2),
            ahead: Vec::new(),
            last: None,
        }
    }

    fn translate(second: &mut Lists, first: &mut Lists, page: u64, misses: &mut [u64; 2]) {
        if first.has(page) {
            return;
        }
        misses[0] += 1;
        if !second.has(page) {
            misses[1] += 1;
            second.enter(page);
        }
        first.enter(page);
    }

    fn fetch(&mut self, line: u64, counts: &mut Counts) {
        if self.last == Some(line) {
            return;
        }
        counts.fetches += 1;
        if self.last.is_none_or(|last| last / 64 != line / 64) {
            counts.lookups += 1;
            Self::translate(
                &mut self.second,
                &mut self.code_tlb,
                line / 64,
                &mut counts.code,
            );
        }
        self.last = Some(line);
        let was_ahead = self.ahead.iter().position(|&l| l == line);
        if self.cache.has(line) && was_ahead.is_none() {
            return;
        }
        if let Some(at) = was_ahead {
            self.ahead.remove(at);
        } else {
            counts.missed += 1;
            self.cache.enter(line);
        }
        for next in line + 1..=line + self.next_lines {
            let held = self.cache.sets.iter().flatten().any(|&l| l == next);
            if next / 64 == line / 64 && !held {
                counts.ahead += 1;
                self.cache.enter(next);
                self.ahead.push(next);
            }
        }
        let Twin { cache, ahead, .. } = self;
        ahead.retain(|line| cache.sets.iter().flatten().any(|l| l == line));
    }
}

fn twin(blocks: &[Block], executed: &[Executed], cores: usize, next_lines: u64) -> Counts {
    let mut counts = Counts::default();
    let mut twins: Vec<Twin> = (0..cores).map(|_| Twin::new(next_lines)).collect();
    for Executed {
        thread,
        block,
        pages,
    } in executed
    {
        let twin = &mut twins[thread % cores];
        let Block { pc, instructions } = &blocks[*block];
        let mut at = *pc;
        let mut pages = pages.iter();
        for &(length, accesses) in instructions {
            let next = at + u64::from(length);
            for line in at / 64..=(next - 1) / 64 {
                twin.fetch(line, &mut counts);
            }
            at = next;
            for page in pages.by_ref().take(accesses.into()) {
                let page = BASE / 4096 + page;
                Twin::translate(&mut twin.second, &mut twin.data_tlb, page, &mut counts.data);
            }
        }
    }
    counts
}

struct Batches(std::vec::IntoIter<Batch>);

impl Source for Batches {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        let next = self.0.next();
        let more = next.is_some();
        *batch = next.unwrap_or_default();
        Ok(more)
    }
}

fn batches(blocks: &[Block], executed: &[Executed], length: usize) -> Batches {
    let mut batches: Vec<Batch> = Vec::new();
    let mut last = None;
    for Executed {
        thread,
        block,
        pages,
    } in executed
    {
        if batches
            .last()
            .is_none_or(|batch| batch.flow.len() >= length)
        {
            let mut batch = Batch::default();
            if batches.is_empty() {
                batch.definitions.extend(blocks.iter().map(|of| {
                    let makes = (0..).zip(&of.instructions);
                    let makes = makes.flat_map(|(i, of)| std::iter::repeat_n(i, of.1.into()));
                    Definition::Block(CodeBlock {
                        pc: of.pc,
                        lengths: of.instructions.iter().map(|of| of.0).collect(),
                        accesses: makes.collect(),
                        ..CodeBlock::default()
                    })
                }));
            }
            batches.push(batch);
            last = None;
        }
        let batch = batches.last_mut().unwrap();
        if last != Some(*thread) {
            let thread = *thread as u32;
            batch.push_control(Control::Thread { thread });
            batch.flow.push((batch.len() as u32, Flow::Thread(thread)));
        }
        last = Some(*thread);
        batch
            .flow
            .push((batch.len() as u32, Flow::Block(*block as u32)));
        for page in pages {
            batch.push(Access {
                addr: BASE + page * 4096 + page % 61 * 64,
                op: Op::load(8),
                gap: 1,
                dep: u32::from(page % 3 == 0),
            });
        }
    }
    Batches(batches.into_iter())
}

fn counted(run: &RunResult) -> Counts {
    let fetch = run.fetch.unwrap();
    Counts {
        fetches: fetch.fetches,
        missed: fetch.fetches - fetch.served_by.l1,
        ahead: fetch.prefetches.total(),
        lookups: fetch.tlb.lookups,
        code: [fetch.tlb.l1_misses, fetch.tlb.l2_misses],
        data: [run.tlb.l1_misses, run.tlb.l2_misses],
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn what_is_fetched_and_missed_is_what_instructions_one_by_one_miss(
        blocks in prop::collection::vec(block(), 1..30),
        steps in prop::collection::vec((any::<prop::sample::Index>(), 0usize..30, 0u64..40, 0u32..8), 1..400),
        cores in 1usize..3,
        next_lines in 0u64..4,
        length in prop_oneof![Just(1usize), Just(7), Just(1000)],
    ) {
        let mut thread = 0;
        // Threads go round the cores as they appear.
        let mut executed = vec![];
        for thread in 0..cores {
            let pages = blocks[0].instructions.iter().map(|of| usize::from(of.1)).sum();
            executed.push(Executed { thread, block: 0, pages: vec![1; pages] });
        }
        for (which, stride, page, rare) in steps {
            if rare == 0 {
                thread = (thread + 1) % cores;
            }
            let block = which.index(blocks.len());
            let makes: usize = blocks[block].instructions.iter().map(|of| usize::from(of.1)).sum();
            let left_early = usize::from(rare == 1).min(makes);
            let pages = (0..makes - left_early).map(|i| (page + (i * stride) as u64) % 50).collect();
            executed.push(Executed { thread, block, pages });
        }
        let config = machine(&[
            &format!("cores={cores}"),
            "tlb.l1_4k={ entries = 8, ways = 4 }",
            "tlb.l2_4k={ entries = 24, ways = 12 }",
            "fetch.tlb={ entries = 8, ways = 4 }",
            "fetch.l1={ kib = 1, ways = 2 }",
            &format!("fetch.next_lines={next_lines}"),
            // Without what is their own.
            "victima.insert_on_miss=false",
            "victima.insert_on_eviction=false",
            "revelator.data=false",
            "revelator.entries=false",
            "pom_tlb.kib=0",
            "utopia.small_mib=0",
            "utopia.large_mib=0",
        ]);
        let expected = twin(&blocks, &executed, cores, next_lines);
        let result = run(&config, "radix", &mut batches(&blocks, &executed, length));
        prop_assert!(result.complete, "{:?}", result.stopped);
        prop_assert_eq!(counted(&result), expected);
        let walks = expected.code[1] + expected.data[1];
        prop_assert_eq!(result.walks.count, walks + result.os.faults);
        let coherence = pagelab_machine::CoherenceConfig {
            transfer_cycles: 75,
            invalidate_cycles: 60,
            turn: 0,
        };
        let mut coherent = config.clone();
        coherent.caches.coherence = Some(coherence);
        let kept = run(&coherent, "radix", &mut batches(&blocks, &executed, length));
        prop_assert_eq!(counted(&kept), counted(&result));
        // Designs that look into caches go access by access.
        let bits = |mut result: RunResult| {
            // All zeros, or none.
            result.tlb_counters.clear();
            but_the_design(&result)
        };
        let expected = bits(result);
        for design in ["victima", "revelator", "pom_tlb", "utopia"] {
            let result = run(&config, design, &mut batches(&blocks, &executed, length));
            prop_assert!(bits(result) == expected, "{}", design);
        }
    }
}
