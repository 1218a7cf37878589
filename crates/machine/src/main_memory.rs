//! The memory behind the caches.

use crate::config::MachineConfig;
use crate::error::BuildError;
use pagelab_addr::LINE_SHIFT;
use pagelab_memory::{Dram, DramConfig};

/// The most nodes that a memory may have.
pub(crate) const MAX_NODES: usize = 4;

/// Nodes of memory, each a range of lines with a latency and a bandwidth of its own.
#[derive(Clone, Debug)]
pub(crate) struct MainMemory {
    nodes: Vec<Node>,
}

#[derive(Clone, Debug)]
struct Node {
    /// The line past its last.
    end: u32,
    /// From the core to its data and back, in slots, when it is idle.
    latency: u64,
    dram: Dram,
    reads: u64,
}

impl MainMemory {
    pub(crate) fn new(config: &MachineConfig) -> Result<Self, BuildError> {
        let of_nodes = config.memory.nodes.iter().map(|node| {
            let dram = DramConfig {
                latency_ns: node.latency_ns,
                gigabytes_per_second: node.gigabytes_per_second,
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
        let mut end = 0;
        let mut built = Vec::with_capacity(nodes.len());
        for (bytes, dram) in nodes {
            check(&dram, keys)?;
            end += bytes >> LINE_SHIFT;
            built.push(Node {
                end: end as u32,
                latency: last_level + (dram.latency_ns * config.core.ghz * width).round() as u64,
                dram: Dram::new(64.0 / dram.gigabytes_per_second * slots_per_ns),
                reads: 0,
            });
        }
        Ok(MainMemory { nodes: built })
    }

    /// Reads a line that is asked for at `now`; returns how long that takes.
    #[inline]
    pub(crate) fn read(&mut self, line: u32, now: u64) -> u64 {
        let mut number = 0;
        while number + 1 < self.nodes.len() && line >= self.nodes[number].end {
            number += 1;
        }
        let node = &mut self.nodes[number];
        node.reads += 1;
        node.latency + node.dram.transfer(now)
    }

    /// Lines read from each node.
    pub(crate) fn reads(&self) -> [u64; MAX_NODES] {
        self.each(|node| node.reads)
    }

    /// Time that reads waited for each node's bandwidth, in slots.
    pub(crate) fn queued(&self) -> [u64; MAX_NODES] {
        self.each(|node| node.dram.queued_ticks())
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
