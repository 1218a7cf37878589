//! The model under test, fed with the same accesses as the twin.

use super::event_driven::{Access, Instruction, Parameters, Reference, Translation, Walk};
use crate::caches::served::Served;
use crate::machine::chunk::{CHUNK, Chunk};
use crate::machine::requests::{Prefetch, TlbMiss, request};
use crate::memory::MainMemory;
use crate::memory::spread::Spread;
use crate::timing::{Accesses, Counts, Latencies, Paths, Pending, time};
use pagelab_cpu::{Core, CoreConfig};
use pagelab_events::{Mispredicted, Op};
use pagelab_execution::{Executed, Pieces, Registers, Step, Times, UpTo};

fn served(level: usize) -> Served {
    [Served::L1, Served::L2, Served::Llc, Served::Dram][level]
}

fn enter(chunk: &mut Chunk, access: &Access) {
    for (number, of_access) in access.requests.iter().enumerate() {
        if matches!(of_access.translation, Translation::Unmapped) {
            chunk.enter(request::DROPPED, 0);
            return;
        }
        let mut bits = if access.store { request::STORE } else { 0 };
        if access.prefetch {
            bits |= request::PREFETCH;
        }
        if number > 0 {
            bits |= request::REST;
        }
        match &of_access.translation {
            Translation::FirstTlb | Translation::Unmapped => {}
            Translation::SecondTlb => bits |= request::SECOND_TLB,
            Translation::Walks(walks) => {
                bits |= request::SECOND_TLB | request::SLOW;
                for walk in walks {
                    enter_walk(chunk, walk);
                }
            }
        }
        chunk.requests.push(bits);
        chunk.pages.push(of_access.page);
        let place = chunk.references.as_slice().len() as u32;
        enter_reference(chunk, of_access.data);
        for &Reference { line, level } in &of_access.prefetches {
            chunk.prefetches.push(Prefetch {
                place,
                line,
                served: served(level),
                by_load: false,
            });
        }
    }
}

fn enter_reference(chunk: &mut Chunk, reference: Reference) {
    chunk.references.push(reference.line);
    chunk.served.push(served(reference.level));
}

fn enter_walk(chunk: &mut Chunk, walk: &Walk) {
    let mut reads = 0;
    let steps = walk.steps.iter().chain([&walk.background]);
    for (step, of_step) in steps.enumerate() {
        for &read in of_step {
            enter_reference(chunk, read);
            chunk.steps.push(step as u8);
            reads += 1;
        }
    }
    chunk.tlb_misses.push(TlbMiss {
        walk: walk.fixed,
        reads,
        background: walk.background.len() as u16,
        metadata: 0,
        walked: true,
        shift: 0,
        faulted: walk.fault.is_some(),
        fault: walk.fault.unwrap_or(0),
        migration: 0,
        cached: crate::machine::requests::Cached::default(),
        payer: crate::machine::payer::Payer::default(),
    });
}

/// The instructions of an access.
fn steps(access: &Access) -> Vec<Step> {
    let set = |registers: &[usize]| {
        registers
            .iter()
            .fold(0, |set, register| set | 1 << register)
    };
    let step = |instruction: &Instruction| Step {
        addresses: set(&instruction.address),
        data: set(&instruction.operands),
        writes: 1 << instruction.result,
        cycles: instruction.cycles,
        ..Step::default()
    };
    let mut all: Vec<_> = access.instructions.iter().map(step).collect();
    if let Some(last) = all.last_mut() {
        last.prefetches = access.prefetch;
        last.stores = access.store;
        last.loads = !access.store && !access.prefetch;
    }
    all
}

/// The core that has these parameters.
fn core_of(parameters: &Parameters) -> CoreConfig {
    CoreConfig {
        ghz: 1.0,
        width: parameters.width as u32,
        reorder_buffer: parameters.reorder_buffer as u32,
        store_buffer: parameters.store_buffer as u32,
        miss_buffers: parameters.miss_buffers as u32,
        execution: None,
        store_ports: 1,
        l2_miss_buffers: parameters.l2_miss_buffers.map(|buffers| buffers as u32),
        walkers: parameters.walkers as u32,
        misprediction: (parameters.misprediction / parameters.width) as u32,
    }
}

fn latencies_of(parameters: &Parameters) -> Latencies {
    Latencies {
        served: [0, 1, 2, 3, 3, 3].map(|level| parameters.latency[level]),
        invalidate: 0,
        cached_translation: 0,
        second_tlb: parameters.second_tlb,
        walks_enter: served(parameters.walks_enter),
    }
}

fn memory_of(parameters: &Parameters) -> MainMemory {
    let spread = parameters.spread.map(|shape| {
        let mean = shape.iter().sum::<f64>() / shape.len() as f64;
        Spread::new(&shape, mean, 0).unwrap()
    });
    MainMemory::of_one_node(parameters.latency[3], parameters.transfer as f64, spread)
}

fn op(access: &Access) -> Op {
    if access.prefetch {
        Op::PREFETCH
    } else if access.store {
        Op::store(8)
    } else {
        Op::load(8)
    }
}

/// Mispredicted branches before the accesses of a chunk.
fn branches_of(taken: &[Access]) -> Vec<(u32, Mispredicted)> {
    let of_access = |(at, access): (u32, &Access)| {
        let (dep, reconverges) = access.mispredicted?;
        let branch = Mispredicted {
            dep,
            reconverges,
            more: 0,
        };
        Some((at, branch))
    };
    (0..).zip(taken).filter_map(of_access).collect()
}

/// Takes a chunk of accesses, the first of which has number `at`, through the clock.
fn time_chunk(
    paths: &mut Paths,
    pending: &mut Pending,
    (pieces, registers): (&Pieces, &mut Registers),
    taken: &[Access],
    at: usize,
) {
    let mut chunk = Chunk::default();
    for access in taken {
        enter(&mut chunk, access);
    }
    let count = taken.len();
    let gap: Vec<u32> = taken.iter().map(|access| access.gap).collect();
    let dep: Vec<u32> = taken.iter().map(|access| access.dep).collect();
    let slots: Vec<_> = taken.iter().map(|access| access.arithmetic).collect();
    let numbers: Vec<u32> = (at as u32..).take(count).collect();
    let ends: Vec<u32> = (1..).take(count).collect();
    let op: Vec<_> = taken.iter().map(op).collect();
    let addr: Vec<u64> = (at as u64..).map(|number| number * 8).take(count).collect();
    let accesses = Accesses {
        gap: &gap,
        dep: &dep,
        mispredicted: &branches_of(taken),
    };
    let executed = Executed {
        slots: &slots,
        pieces: Some(pieces),
        numbers: &numbers,
        ends: &ends,
        ..Executed::default()
    };
    let up_to = UpTo::new(executed, registers, &addr, &op);
    time::<false>(paths, pending, &chunk, accesses, Some(up_to));
}

/// When the last instruction retires.
pub(crate) fn run(parameters: Parameters, accesses: &[Access]) -> u64 {
    let config = core_of(&parameters);
    let mut core = Core::new(&config, parameters.latency[0]).unwrap();
    let mut paths = Paths {
        core: &mut core,
        memory: &mut memory_of(&parameters),
        latencies: &latencies_of(&parameters),
        counts: &mut Counts::default(),
    };
    let mut pending = Pending::new(config.reorder_buffer);
    let mut pieces = Pieces::default();
    let times = Times {
        width: config.width,
        scaled_index: 0,
        hit: parameters.latency[0],
        forwarded: [parameters.latency[0]; 2],
    };
    for access in accesses {
        pieces.add(&steps(access), u32::MAX, &times);
    }
    let mut registers = Registers::new(config.reorder_buffer);
    let mut at = 0;
    while at < accesses.len() {
        if accesses[at].kernel > 0 {
            pending.run_all(&mut paths);
            paths.core.kernel(accesses[at].kernel, 0);
        }
        let turn = accesses[at + 1..].iter().take(CHUNK - 1);
        let more = turn.take_while(|access| access.kernel == 0).count();
        let taken = &accesses[at..=at + more];
        let of = (&pieces, &mut registers);
        time_chunk(&mut paths, &mut pending, of, taken, at);
        at += taken.len();
    }
    pending.run_all(&mut paths);
    core.now()
}
