//! Cost of a page in a folio of each size that this kernel offers: populate, fork, write faults
//! after fork, munmap, MADV_DONTNEED, mprotect, mremap.
//!
//! The operations are those of section 4.1 of Hildenbrand et al., Every Mapping Counts in Large
//! Amounts (ATC 2024); what backs the memory is checked, and copies are counted by frame number.

use super::{Context, Failure, Part, no_options};
use crate::rounds::{Clock, estimate, timed, timed_by};
use crate::system::folio_sizes;
use crate::system::frames::{frames, share_in_runs};
use crate::system::mapping::{HUGE, Mapping, PAGE, backing};
use crate::system::process::{self, fork};
use crate::system::{Refused, budget};
use clap::ArgMatches;
use serde_json::{Value, json};
use std::process::{Command, Stdio};

pub const PART: Part = Part {
    name: "folios",
    about: "Populate, fork, copy-on-write, unmap and more, for each folio size",
    in_all: true,
    options: no_options,
    run,
};

/// A folio size, and how it is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    bytes: usize,
    /// A huge page whose page-middle-directory entry has been split.
    split: bool,
}

fn run(context: &mut Context, _: &ArgMatches) -> Result<Value, Failure> {
    let wanted = if context.quick { 8 << 20 } else { 32 << 20 };
    // Twice: copies are made of all of it.
    let len = (budget::bytes() as usize / 3).min(wanted) / HUGE * HUGE;
    if len == 0 {
        return Err(Failure::Lacking("too little memory is free".into()));
    }
    let kinds = kinds(context);
    let rounds = if context.quick { 5 } else { 11 };
    let mut rng = context.rng.fork();
    let mut rows = Vec::new();
    let mut backed = vec![None; kinds.len()];
    let mut copies = vec![[None; 2]; kinds.len()];
    let estimates = estimate(&kinds, rounds, &mut rng, |kind| {
        select(context, kind)?;
        let sample = Sample::take(kind, len)?;
        if let Some(i) = kinds.iter().position(|&k| k == kind) {
            backed[i] = sample.backed;
            copies[i] = sample.copies;
        }
        Ok::<_, Failure>(sample.ns)
    })?;
    for (i, (kind, figures)) in kinds.iter().zip(estimates).enumerate() {
        let per_page: serde_json::Map<String, Value> = FIGURES
            .iter()
            .zip(figures)
            .map(|(name, figure)| ((*name).into(), json!(figure)))
            .collect();
        rows.push(json!({
            "bytes": kind.bytes,
            "split": kind.split,
            "backed_share": backed[i],
            "per_page_ns": per_page,
            "copied_share_child_gone": copies[i][0],
            "copied_share_child_alive": copies[i][1],
        }));
    }
    if copies.iter().all(|c| c[0].is_none()) {
        context.skip("counting copies", "frame numbers are shown to root only");
    }
    Ok(json!({ "bytes": len, "sizes": rows }))
}

/// Base pages, the sizes of transparent huge pages that are, or may be, turned on, and huge pages
/// mapped by base-page entries.
fn kinds(context: &mut Context) -> Vec<Kind> {
    let mut kinds = vec![Kind {
        bytes: PAGE,
        split: false,
    }];
    let mut left_out = Vec::new();
    let sizes = folio_sizes::sizes();
    for &bytes in &sizes {
        let on = matches!(
            folio_sizes::setting(bytes).as_deref(),
            Some("always" | "madvise" | "inherit")
        );
        let alone = on && sizes.iter().all(|&b| b >= bytes || !folio_sizes::is_on(b));
        if context.tuning.is_allowed() || (alone && bytes == HUGE) {
            kinds.push(Kind {
                bytes,
                split: false,
            });
        } else {
            left_out.push(format!("{} KiB", bytes >> 10));
        }
    }
    if kinds.iter().any(|k| k.bytes == HUGE) {
        kinds.push(Kind {
            bytes: HUGE,
            split: true,
        });
    }
    if !left_out.is_empty() {
        let why = crate::system::tuning::NOT_ALLOWED;
        context.skip(format!("folios of {}", left_out.join(", ")), why);
    }
    kinds
}

/// Turns the size on for memory that asks for it, and the others off. Without leave to change
/// settings only such sizes are measured for which nothing needs to be changed.
fn select(context: &mut Context, kind: Kind) -> Result<(), Refused> {
    if !context.tuning.is_allowed() || kind.bytes == PAGE {
        return Ok(());
    }
    folio_sizes::give(&mut context.tuning, kind.bytes, "madvise")
}

const FIGURES: [&str; 12] = [
    "populate",
    "fork",
    "fork_exec_exit",
    "write_after_fork_child_gone",
    "write_after_fork_child_alive",
    "munmap",
    "dontneed",
    "mprotect_read",
    "mprotect_write",
    "mremap",
    "child_exit",
    "fork_without",
];

struct Sample {
    ns: [f64; FIGURES.len()],
    /// Share of the memory that folios of the size back.
    backed: Option<f64>,
    /// Share of the pages that write faults copied, child gone and child alive.
    copies: [Option<f64>; 2],
}

impl Sample {
    fn take(kind: Kind, len: usize) -> Result<Sample, Failure> {
        let pages = (len / PAGE) as f64;
        let (fork_without, child) = timed(|| fork(|| {}));
        child?.wait();
        let (populate, memory) = populated(kind, len)?;
        let backed = backed_share(kind, &memory);
        let (fork_exec_exit, status) = timed_by(Clock::Wall, || {
            let program = Command::new("/proc/self/exe");
            run_version(program)
        });
        status?;
        let (fork_ns, exit, gone, copied_gone) = after_fork(&memory, true)?;
        drop(memory);
        let (_, memory) = populated(kind, len)?;
        let (_, _, alive, copied_alive) = after_fork(&memory, false)?;
        drop(memory);
        let (_, memory) = populated(kind, len)?;
        let (read, result) = timed(|| memory.protect(0, len, libc::PROT_READ));
        result?;
        let both = libc::PROT_READ | libc::PROT_WRITE;
        let (write, result) = timed(|| memory.protect(0, len, both));
        result?;
        let (mremap, memory) = moved(memory)?;
        let (dontneed, result) = timed(|| memory.advise(0, len, libc::MADV_DONTNEED));
        result?;
        drop(memory);
        let (_, memory) = populated(kind, len)?;
        let (munmap, ()) = timed(|| drop(memory));
        // The paper's figures are of the memory: what an empty process costs is taken off.
        let fork_ns = (fork_ns - fork_without).max(0.0);
        let mut ns = [
            populate,
            fork_ns,
            fork_exec_exit,
            gone,
            alive,
            munmap,
            dontneed,
            read,
            write,
            mremap,
            exit,
            fork_without,
        ];
        ns.iter_mut().for_each(|ns| *ns /= pages);
        Ok(Sample {
            ns,
            backed,
            copies: [copied_gone, copied_alive],
        })
    }
}

/// Forks with the memory mapped, as a shell does; the child runs a small program, which ends.
fn run_version(mut program: Command) -> Result<(), Failure> {
    // Without this, the library would use posix_spawn, which copies no page tables.
    // SAFETY: does nothing.
    unsafe { std::os::unix::process::CommandExt::pre_exec(&mut program, || Ok(())) };
    let status = program.arg("--version").stdout(Stdio::null()).status();
    status.map_err(|e| Refused::because("running this program in a child", e))?;
    Ok(())
}

/// Nanoseconds to populate fresh memory with folios of a kind, and the memory.
fn populated(kind: Kind, len: usize) -> Result<(f64, Mapping), Refused> {
    let memory = Mapping::anonymous_in(kind.bytes > PAGE, len)?;
    let (ns, result) = timed(|| memory.advise(0, len, libc::MADV_POPULATE_WRITE));
    if result.is_err() {
        // Before Linux 5.14.
        memory.touch(0, len, PAGE);
    }
    if kind.split {
        memory.split_huge_entries()?;
    }
    Ok((ns, memory))
}

fn backed_share(kind: Kind, memory: &Mapping) -> Option<f64> {
    if let Ok(frames) = frames(memory) {
        return Some(share_in_runs(&frames, kind.bytes / PAGE));
    }
    // Without frame numbers only huge mappings can be told.
    let huge = backing(memory)?.anonymous_huge as f64 / memory.len() as f64;
    match kind.bytes {
        PAGE => Some(1.0 - huge),
        HUGE if !kind.split => Some(huge),
        _ => None,
    }
}

/// Forks, has the child end at once or stay, and writes to every page. Nanoseconds of the fork,
/// of the child's end, of the writes, and the share of the pages whose frame is another then.
fn after_fork(memory: &Mapping, gone: bool) -> Result<(f64, f64, f64, Option<f64>), Failure> {
    let before = frames(memory).ok();
    let (fork_ns, child) = timed(|| {
        fork(|| {
            if !gone {
                // SAFETY: waits for a signal, which is the parent's SIGKILL.
                unsafe { libc::pause() };
            }
        })
    });
    let mut child = Some(child?);
    let mut exit_ns = 0.0;
    if gone {
        exit_ns = timed_by(Clock::Wall, || child.take().map(process::Child::wait)).0;
    }
    let (write, ()) = timed(|| memory.touch(0, memory.len(), PAGE));
    let copied = before.and_then(|before| {
        let after = frames(memory).ok()?;
        let changed = before.iter().zip(&after).filter(|(b, a)| b != a).count();
        Some(changed as f64 / after.len() as f64)
    });
    drop(child);
    Ok((fork_ns, exit_ns, write, copied))
}

/// Moves the memory elsewhere.
fn moved(memory: Mapping) -> Result<(f64, Mapping), Failure> {
    let target = Mapping::reserved(memory.len(), HUGE)?;
    let (ns, result) = timed(|| memory.move_over(target));
    Ok((ns, result?))
}
