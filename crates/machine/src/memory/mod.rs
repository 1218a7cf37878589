//! The memory behind the caches.

pub(crate) mod rows;
pub(crate) mod spread;

use crate::config::MachineConfig;
use crate::error::BuildError;
use crate::memory::rows::Rows;
use crate::memory::spread::Spread;
use pagelab_addr::{LINE_BYTES, LINE_SHIFT};
use pagelab_cpu::InFlight;
use pagelab_memory::{BankCounts, Dram, DramConfig};

/// The most nodes that a memory may have.
pub(crate) const MAX_NODES: usize = 4;

/// Nodes of memory, each a range of lines with a latency and a bandwidth of its own.
#[derive(Clone, Debug)]
pub(crate) struct MainMemory {
    nodes: Vec<Node>,
    /// Lines on their way to the last level, where more than one core shares it.
    in_flight: Option<InFlight>,
    /// Lines written back take bandwidth.
    write_backs: bool,
}

#[derive(Clone, Debug)]
struct Node {
    /// The line past its last.
    end: u32,
    /// From the core to its data and back, in slots, when it is idle.
    latency: u64,
    /// Times of the sixteenths of its reads, in place of one latency.
    spread: Option<Spread>,
    dram: Dram,
    rows: Option<Rows>,
    reads: u64,
}

impl Node {
    #[inline]
    fn latency(&self, line: u32, stretch: u32) -> u64 {
        let spread = self.spread.as_ref();
        spread.map_or(self.latency, |spread| spread.of(line, stretch))
    }
}

impl MainMemory {
    pub(crate) fn new(config: &MachineConfig) -> Result<Self, BuildError> {
        let of_nodes = config.memory.nodes.iter().map(|node| {
            let dram = DramConfig {
                latency_ns: node.latency_ns,
                gigabytes_per_second: node.gigabytes_per_second,
                ..config.dram
            };
            (node.bytes, dram)
        });
        let mut nodes: Vec<(u64, DramConfig)> = of_nodes.collect();
        if nodes.len() > MAX_NODES {
            return Err(BuildError::Value {
                key: "memory.nodes",
                value: format!("{} nodes", nodes.len()),
                expected: "at most 4 nodes",
            });
        }
        let mut keys = [
            "memory.nodes.gigabytes_per_second",
            "memory.nodes.latency_ns",
        ];
        if nodes.is_empty() {
            nodes.push((config.memory.memory_bytes, config.dram));
            keys = ["dram.gigabytes_per_second", "dram.latency_ns"];
        }
        let width = f64::from(config.core.width);
        let slots_per_ns = config.core.ghz * width;
        let last_level = u64::from(config.caches.llc.cycles) * u64::from(config.core.width);
        if config.dram.spread.is_some() && config.dram.rows.is_some() {
            return Err(BuildError::Value {
                key: "dram.spread",
                value: "a list beside dram.rows".into(),
                expected: "possible: rows that are open or not make latencies differ already",
            });
        }
        let mut end = 0;
        let mut built = Vec::with_capacity(nodes.len());
        for (bytes, dram) in nodes {
            check(&dram, keys)?;
            let transfer = LINE_BYTES as f64 / dram.gigabytes_per_second * slots_per_ns;
            if transfer > Dram::SLOWEST {
                return Err(BuildError::Value {
                    key: keys[0],
                    value: dram.gigabytes_per_second.to_string(),
                    expected: "a bandwidth that moves a line within 2^18 slots of the core's clock",
                });
            }
            end += bytes >> LINE_SHIFT;
            let latency = dram.latency_ns * slots_per_ns;
            built.push(Node {
                end: end as u32,
                latency: last_level + latency.round() as u64,
                spread: (dram.spread.as_ref())
                    .map(|shape| Spread::new(shape, latency, last_level))
                    .transpose()?,
                dram: Dram::new(transfer),
                rows: (dram.rows.as_ref())
                    .map(|rows| Rows::new(rows, dram.latency_ns, slots_per_ns))
                    .transpose()?,
                reads: 0,
            });
        }
        Ok(MainMemory {
            nodes: built,
            in_flight: (config.cores > 1).then(InFlight::new),
            write_backs: config.dram.write_backs,
        })
    }

    /// One node for a core by itself: its latency and the time that it takes to move a line, in
    /// slots.
    #[cfg(test)]
    pub(crate) fn of_one_node(latency: u64, transfer: f64, spread: Option<Spread>) -> Self {
        MainMemory {
            nodes: vec![Node {
                end: u32::MAX,
                latency,
                spread,
                dram: Dram::new(transfer),
                rows: None,
                reads: 0,
            }],
            in_flight: None,
            write_backs: false,
        }
    }

    /// Reads a line that is asked for at `now` in a stretch of a program; returns how long that takes.
    #[inline]
    pub(crate) fn read(&mut self, (line, stretch): (u32, u32), now: u64) -> u64 {
        let number = self.node(line);
        let node = &mut self.nodes[number];
        node.reads += 1;
        let latency = match &mut node.rows {
            None => node.latency(line, stretch) + node.dram.transfer(now),
            Some(rows) => {
                let (asked, idle) = rows.read(line, node.latency, now);
                idle + node.dram.transfer(asked)
            }
        };
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.ask(line, now, now + latency);
        }
        latency
    }

    /// True if lines written back take bandwidth.
    pub(crate) fn takes_write_backs(&self) -> bool {
        self.write_backs
    }

    /// Writes a line back that leaves the last level at about `now`.
    pub(crate) fn write_back(&mut self, line: u32, now: u64) {
        let number = self.node(line);
        self.nodes[number].dram.occupy(now);
    }

    /// Time of the last level for a line that it has at `now` in the order of the program: `usual`,
    /// or until the line arrives that another core asked for.
    ///
    /// Another core's clock may be ahead: a line that was asked for later than `now` is there.
    #[inline]
    pub(crate) fn of_last_level(&self, line: u32, now: u64, usual: u64) -> u64 {
        let in_flight = self.in_flight.as_ref();
        let arrives = in_flight.and_then(|in_flight| in_flight.joined(line, now));
        arrives.map_or(usual, |arrives| usual.max(arrives - now))
    }

    /// Time of a read in a stretch of a program when nothing else is read.
    #[inline]
    pub(crate) fn latency(&self, (line, stretch): (u32, u32)) -> u64 {
        self.nodes[self.node(line)].latency(line, stretch)
    }

    #[inline]
    fn node(&self, line: u32) -> usize {
        let mut number = 0;
        while number + 1 < self.nodes.len() && line >= self.nodes[number].end {
            number += 1;
        }
        number
    }

    /// Lines read from each node.
    pub(crate) fn reads(&self) -> [u64; MAX_NODES] {
        self.each(|node| node.reads)
    }

    /// Time that reads waited for each node's bandwidth, in slots.
    pub(crate) fn queued(&self) -> [u64; MAX_NODES] {
        self.each(|node| node.dram.queued_ticks())
    }

    /// Counts of the banks that may be busy, of all nodes.
    pub(crate) fn banks(&self) -> BankCounts {
        let rows = self.nodes.iter().filter_map(|node| node.rows.as_ref());
        rows.map(Rows::counts)
            .fold(BankCounts::default(), |all, more| BankCounts {
                hits: all.hits + more.hits,
                conflicts: all.conflicts + more.conflicts,
                waited: all.waited + more.waited,
            })
    }

    fn each(&self, of: impl Fn(&Node) -> u64) -> [u64; MAX_NODES] {
        std::array::from_fn(|number| self.nodes.get(number).map_or(0, &of))
    }
}

/// Refuses impossible values, named by the keys of bandwidth and latency.
fn check(dram: &DramConfig, keys: [&'static str; 2]) -> Result<(), BuildError> {
    let refuse = |key, value: f64, expected| {
        Err(BuildError::Value {
            key,
            value: value.to_string(),
            expected,
        })
    };
    let bandwidth = dram.gigabytes_per_second;
    if !(bandwidth.is_finite() && bandwidth > 0.001) {
        return refuse(keys[0], bandwidth, "a bandwidth above 0.001");
    }
    if !(0.0..1e9).contains(&dram.latency_ns) {
        return refuse(keys[1], dram.latency_ns, "a time from 0 to 10^9 ns");
    }
    Ok(())
}
