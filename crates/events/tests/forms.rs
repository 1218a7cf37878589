//! Executions come back that have another block's form, and those that a batch's end cuts through.

use pagelab_events::{
    Access, Batch, ChainRun, CodeBlock, Control, Definition, Flow, Follows, Metadata, Op, Source,
    TraceReader, TraceWriter,
};
use proptest::prelude::*;
use std::io::Cursor;

/// Blocks whose numbers differ by this have each other's forms.
const SLOTS: u32 = 1 << 13;

/// A block whose accesses are made by one instruction each; every third follows from the one before it.
fn block(accesses: u16) -> CodeBlock {
    CodeBlock {
        lengths: vec![1; accesses.into()].into(),
        accesses: (0..accesses).collect(),
        addresses: (0..accesses)
            .map(|access| match access % 3 {
                2 => Follows {
                    back: 1,
                    offset: 16,
                },
                _ => Follows::default(),
            })
            .collect(),
        ..CodeBlock::default()
    }
}

/// A stream of executions of these blocks, which are defined among [`SLOTS`] more: all accesses of each are usual, and
/// the shapes of the first ones of one are those of the first ones of another.
struct Stream {
    batch: Batch,
    first_sites: Vec<u32>,
    counts: Vec<u16>,
}

impl Stream {
    fn new(count_of: impl Fn(u32) -> u16) -> Stream {
        let mut batch = Batch::default();
        batch.push_control(Control::Thread { thread: 0 });
        batch.flow.push((0, Flow::Thread(0)));
        batch.regular.push(false);
        let counts: Vec<u16> = (0..SLOTS + 2).map(count_of).collect();
        let mut sites = 0;
        let first_sites = counts.iter().map(|&count| {
            let first = sites;
            sites += u32::from(count);
            first
        });
        let first_sites = first_sites.collect();
        let blocks = counts.iter().map(|&count| Definition::Block(block(count)));
        batch.definitions.extend(blocks);
        Stream {
            batch,
            first_sites,
            counts,
        }
    }

    /// Executes a block whose accesses wait for the load that is so many back, if any, all for the
    /// same one; they move on with `turn`.
    fn execute(&mut self, block: u32, turn: u64, load: u32) {
        let batch = &mut self.batch;
        batch.flow.push((batch.len() as u32, Flow::Block(block)));
        batch.regular.push(true);
        let mut addr = 0x1000 + 0x100 * turn;
        for access in 0..u32::from(self.counts[block as usize]) {
            addr = match access % 3 {
                2 => addr + 16,
                _ => addr + 0x10_0000 + turn % 5,
            };
            batch.push(Access {
                addr,
                op: if access % 3 == 1 {
                    Op::store(4)
                } else {
                    Op::load(8)
                },
                gap: 0,
                dep: if load > 0 && access % 2 == 0 {
                    load + access
                } else {
                    0
                },
            });
            batch.site.push(self.first_sites[block as usize] + access);
        }
    }

    /// Executes blocks in a row, all of which wait for the same load, and says which chain they are.
    fn execute_chain(&mut self, chain: u32, blocks: &[u32], turn: u64, load: u32) {
        self.batch.alike.push(ChainRun {
            entry: self.batch.flow.len() as u32,
            entries: blocks.len() as u32,
            chain,
        });
        let mut before = 0;
        for &block in blocks {
            self.execute(block, turn, if load > 0 { load + before } else { 0 });
            before += u32::from(self.counts[block as usize]);
        }
    }

    /// Writes it and reads it back. Returns how many bytes it takes.
    fn check(&self) -> usize {
        let mut writer = TraceWriter::new(Vec::new(), &Metadata::new()).unwrap();
        writer.write(&self.batch).unwrap();
        let bytes = writer.finish().unwrap();
        let len = bytes.len();
        let mut reader = TraceReader::new(Cursor::new(bytes), "test.trace").unwrap();
        let (mut read, mut all) = (Batch::default(), Batch::default());
        let mut executions = Vec::new();
        while reader.next_batch(&mut read).unwrap() {
            let first = all.len() as u32;
            let blocks = read
                .flow
                .iter()
                .filter(|(_, entry)| *entry != Flow::Thread(0));
            executions.extend(blocks.map(|&(at, entry)| (first + at, entry)));
            all.addr.extend(&read.addr);
            all.op.extend(&read.op);
            all.gap.extend(&read.gap);
            all.dep.extend(&read.dep);
            all.site.extend(&read.site);
        }
        let batch = &self.batch;
        assert_eq!(executions, batch.flow[1..]);
        for index in 0..batch.len() {
            assert_eq!(all.access(index), batch.access(index), "access {index}");
        }
        assert_eq!(all.site, batch.site);
        len
    }
}

/// One of two blocks with the same slot has more accesses: its first execution finds the other's form, which goes on
/// with what the chunk had next.
#[test]
fn blocks_with_different_accesses_share_a_form() {
    let cases = [[2, 1, 3], [3, 1, 2], [4, 3, 7], [6, 6, 9], [9, 4, 6]];
    for (counts, load) in cases.iter().flat_map(|counts| [(counts, 0), (counts, 1)]) {
        let mut stream = Stream::new(|block| match block {
            0 => counts[0],
            1 => counts[1],
            SLOTS => counts[2],
            _ => 0,
        });
        for turn in 0..2_000 {
            stream.execute(0, turn, load);
            stream.execute(1, turn, load);
            stream.execute(SLOTS, turn, load);
            if turn % 7 == 0 {
                stream.execute(SLOTS, turn, load);
            }
        }
        stream.check();
    }
}

/// Batches end where they have their 4,096 accesses, chunks where they have 65,536: in the middle
/// of blocks whose accesses wait for what was loaded before both.
#[test]
fn what_is_cut_comes_back() {
    for count in [1, 2, 3, 4, 5, 7, 11, 29, 200, 255] {
        let mut stream = Stream::new(|block| if block == 0 { count } else { 0 });
        let mut turn = 0;
        while stream.batch.len() < 140_000 {
            stream.execute(0, turn, 1 + (turn % 3) as u32 * 90);
            turn += 1;
        }
        stream.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Chains of blocks that are said to be alike come back, whatever their accesses wait for and
    /// whatever comes between, and take no more room than if nothing was said.
    #[test]
    fn chains_come_back(
        counts in proptest::collection::vec(prop_oneof![0u16..9, 100u16..140], 4),
        chains in proptest::collection::vec(proptest::collection::vec(0u32..5, 1..7), 1..6),
        steps in proptest::collection::vec((any::<usize>(), 0u32..7, 0u32..20), 1..60),
    ) {
        // The last has the same slot as the first.
        let number = |block: u32| if block == 4 { SLOTS } else { block };
        let mut stream = Stream::new(|block| match block {
            SLOTS => 3,
            0..4 => counts[block as usize],
            _ => 0,
        });
        let mut steps = steps.iter().cycle();
        for turn in 0..20_000 {
            let &(chain, load, between) = steps.next().unwrap();
            let chain = chain % chains.len();
            let blocks: Vec<_> = chains[chain].iter().map(|&block| number(block)).collect();
            // Mostly near, and now and then further and further away.
            let load = if load == 6 { (turn % 300) as u32 } else { load * 3 };
            let first = stream.batch.len();
            stream.execute_chain(chain as u32, &blocks, turn, load);
            if between > 16 && first < stream.batch.len() {
                // Something was executed before that is in no block.
                stream.batch.gap[first] += 1;
            }
            match between {
                0..3 => stream.execute(number(between), turn, between),
                3 => {
                    // Another gap than its code says.
                    stream.execute(number(4), turn, 2);
                    *stream.batch.gap.last_mut().unwrap() += 1;
                    *stream.batch.regular.last_mut().unwrap() = false;
                }
                _ => {}
            }
            if stream.batch.len() > 150_000 {
                break;
            }
        }
        let told = stream.check();
        stream.batch.alike.clear();
        let untold = stream.check();
        prop_assert!(told <= untold + untold / 50 + 100, "{told} and {untold} bytes");
    }
}
