//! Huge pages: preparing them, walking small against huge pages, and who may have them how.

use super::{Context, Failure, Part, no_options};
use crate::rounds::{estimate, timed};
use crate::system::mapping::{HUGE, Mapping, PAGE, backing, memory_file};
use crate::system::process::in_child;
use crate::system::tuning::NOT_ALLOWED;
use crate::system::{Refused, budget, files};
use clap::ArgMatches;
use serde_json::{Value, json};

pub const PART: Part = Part {
    name: "huge",
    about: "Preparing huge pages, walking them, and asking for them without privileges",
    in_all: true,
    options: no_options,
    run,
};

const POOL: &str = "/proc/sys/vm/nr_hugepages";

/// Huge pages of the pool that are neither in use nor promised to somebody.
fn free_pages() -> u64 {
    let count = |name| files::field("/proc/meminfo", name).unwrap_or(0);
    count("HugePages_Free").saturating_sub(count("HugePages_Rsvd"))
}

fn run(context: &mut Context, _: &ArgMatches) -> Result<Value, Failure> {
    let preparing = context.attempt("reserving hugetlb pages", prepare);
    context.say("asking for huge pages without privileges");
    if free_pages() == 0 && context.tuning.is_allowed() {
        // Without a page in the pool nobody gets one, which answers nothing.
        let old = files::number(POOL).unwrap_or(0);
        context.tuning.set(POOL, &(old + 1).to_string())?;
    }
    let unprivileged = unprivileged(context);
    let walks = walks(context)?;
    Ok(json!({
        "preparing": preparing,
        "walks": walks,
        "unprivileged": unprivileged,
    }))
}

/// Nanoseconds to reserve a hugetlb page, with memory as it is and after much of it was broken
/// into single free pages.
fn prepare(context: &mut Context) -> Result<Value, Failure> {
    if !context.tuning.is_allowed() {
        return Err(Failure::Lacking(NOT_ALLOWED.into()));
    }
    let cap = if context.quick { 64 } else { 512 };
    let wanted = (budget::bytes() as usize / HUGE / 2).min(cap) as u64;
    let old = files::number(POOL).unwrap_or(0);
    let mut reserve = || -> Result<(f64, u64), Failure> {
        let (ns, result) = timed(|| context.tuning.set(POOL, &(old + wanted).to_string()));
        result?;
        let got = files::number(POOL).unwrap_or(0).saturating_sub(old);
        // The journal has the first value already; this only gives the pages back.
        context.tuning.set(POOL, &old.to_string())?;
        Ok((ns, got))
    };
    let mut rounds = |count: usize| -> Result<Value, Failure> {
        let tries = (0..count)
            .map(|_| reserve())
            .collect::<Result<Vec<_>, _>>()?;
        let got = tries.iter().map(|t| t.1).min();
        let each: Vec<f64> = tries
            .iter()
            .map(|(ns, got)| ns / (*got).max(1) as f64)
            .collect();
        Ok(json!({ "ns_per_page": crate::stats::Estimate::of(&each), "pages_got": got }))
    };
    let fresh = rounds(5)?;
    // Every other page of the budget is given back: free memory that holds no huge page.
    let most = if context.quick { 256 << 20 } else { 4 << 30 };
    let len = (budget::bytes() as usize / 2).min(most) / PAGE * PAGE;
    let holes = Mapping::anonymous(len)?;
    holes.advise(0, len, libc::MADV_NOHUGEPAGE)?;
    holes.touch(0, len, PAGE);
    for at in (0..len).step_by(2 * PAGE) {
        holes.advise(at, PAGE, libc::MADV_DONTNEED)?;
    }
    let fragmented = rounds(5)?;
    Ok(json!({
        "wanted": wanted,
        "fresh": fresh,
        "fragmented": fragmented,
        "fragmented_bytes": len,
    }))
}

/// One way of walking freshly mapped memory.
#[derive(Clone, Copy, Debug)]
struct Walk {
    kind: &'static str,
    stride: usize,
    iterations: usize,
    random: bool,
}

/// Nanoseconds an access, faults included, of walks over freshly mapped memory.
///
/// As in Figures 5 to 7 of the paper: a random walk makes as many accesses as the sequential one
/// of the same stride, anywhere.
fn walks(context: &mut Context) -> Result<Value, Failure> {
    let wanted = if context.quick { 16 << 20 } else { 128 << 20 };
    let len = (budget::bytes() as usize / 2).min(wanted) / HUGE * HUGE;
    let (strides, iterations): (&[usize], &[usize]) = if context.quick {
        (&[64, PAGE, 32 << 10, HUGE], &[1, 8])
    } else {
        (&[4, 64, PAGE, 32 << 10, 256 << 10, HUGE], &[1, 4, 16])
    };
    let mut kinds = vec!["small", "transparent"];
    let needed = (len / HUGE) as u64;
    if free_pages() < needed && context.tuning.is_allowed() {
        // Fewer may come than asked for: what counts is looked at next.
        let old = files::number(POOL).unwrap_or(0);
        context.tuning.set(POOL, &(old + needed).to_string())?;
    }
    if free_pages() >= needed {
        kinds.push("hugetlb");
    } else {
        context.skip(
            "walks of hugetlb pages",
            format!("no {needed} free pages: {NOT_ALLOWED}"),
        );
    }
    let mut cases = Vec::new();
    for &kind in &kinds {
        for &stride in strides {
            // Sixteen walks by four bytes are half a billion accesses.
            let affordable = iterations.iter().filter(|&&i| stride >= 64 || i == 1);
            for &iterations in affordable {
                for random in [false, true] {
                    cases.push(Walk {
                        kind,
                        stride,
                        iterations,
                        random,
                    });
                }
            }
        }
    }
    context.say(&format!("{} walks of {} MiB", cases.len(), len >> 20));
    let mut seeds = context.rng.fork();
    let rounds = if context.quick { 2 } else { 4 };
    let mut huge_share = 1.0f64;
    let estimates = estimate(&cases, rounds, &mut context.rng, |walk| {
        let memory = fresh(walk.kind, len)?;
        let accesses = len / walk.stride * walk.iterations;
        let (ns, ()) = timed(|| walk_over(&memory, walk, seeds.u64(..)));
        if walk.kind == "transparent" && walk.stride <= HUGE && !walk.random {
            let huge = backing(&memory).map_or(0, |b| b.anonymous_huge);
            huge_share = huge_share.min(huge as f64 / len as f64);
        }
        Ok::<_, Failure>([ns / accesses as f64])
    })?;
    let rows: Vec<Value> = cases
        .iter()
        .zip(estimates)
        .map(|(w, [ns])| {
            json!({
                "pages": w.kind, "stride": w.stride, "iterations": w.iterations,
                "random": w.random, "ns": ns,
            })
        })
        .collect();
    Ok(json!({ "bytes": len, "transparent_share_least": huge_share, "rows": rows }))
}

fn fresh(kind: &str, len: usize) -> Result<Mapping, Refused> {
    if kind == "hugetlb" {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB;
        return Mapping::new(len, libc::PROT_READ | libc::PROT_WRITE, flags, None);
    }
    Mapping::anonymous_in(kind == "transparent", len)
}

fn walk_over(memory: &Mapping, walk: Walk, seed: u64) {
    let base = memory.as_ptr();
    let len = memory.len() as u64;
    let mut state = seed | 1;
    for _ in 0..walk.iterations {
        for at in (0..memory.len()).step_by(walk.stride) {
            let at = if walk.random {
                // Marsaglia, Xorshift RNGs, 2003: quick enough not to be what is measured.
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                ((u128::from(state) * u128::from(len)) >> 64) as usize & !3
            } else {
                at
            };
            // SAFETY: `at` is below the length; the memory is our own, and four bytes from a
            // multiple of four stay inside.
            unsafe { base.add(at).cast::<u32>().write_volatile(1) };
        }
    }
}

/// Answers of mmap, memfd_create and shmget to a user without privileges who asks for hugetlb
/// pages. The paper saw mmap work and shmget fail.
///
/// shmget(SHM_HUGETLB) needs CAP_IPC_LOCK or a group named in vm.hugetlb_shm_group, since a
/// segment outlives its process (`can_do_hugetlb_shm` in fs/hugetlbfs/inode.c); mmap needs only a
/// free page, which it reserves.
fn unprivileged(context: &mut Context) -> Value {
    const NOBODY: libc::uid_t = 65_534;
    let answers = in_child(|| {
        // SAFETY: no pointers; gives up root in this child only.
        let privileged = unsafe {
            libc::setgroups(0, std::ptr::null());
            libc::setgid(NOBODY);
            libc::setuid(NOBODY);
            libc::geteuid() == 0
        };
        let said = |result: Result<(), std::io::Error>| match result {
            Ok(()) => "works".to_owned(),
            // Without Rust's number behind the text.
            Err(error) => {
                let text = error.to_string();
                text.split(" (os error")
                    .next()
                    .unwrap_or(&text)
                    .to_lowercase()
            }
        };
        let mapped = fresh("hugetlb", HUGE).map(drop).map_err(|e| e.source);
        let flags = libc::IPC_CREAT | libc::SHM_HUGETLB | 0o600;
        // SAFETY: no pointers; the segment is removed at once.
        let shared = unsafe {
            match libc::shmget(libc::IPC_PRIVATE, HUGE, flags) {
                -1 => Err(std::io::Error::last_os_error()),
                id => {
                    libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut());
                    Ok(())
                }
            }
        };
        let file = memory_file(HUGE, libc::MFD_HUGETLB)
            .map(drop)
            .map_err(|e| e.source);
        (privileged, said(mapped), said(shared), said(file))
    });
    match answers {
        Ok((true, ..)) => {
            context.skip("huge pages without privileges", "cannot give up root here");
            Value::Null
        }
        Ok((_, mapped, shared, file)) => json!({
            "free_pages": free_pages(),
            "hugetlb_shm_group": files::number("/proc/sys/vm/hugetlb_shm_group"),
            "mmap": mapped,
            "shmget": shared,
            "memfd_create": file,
        }),
        Err(error) => {
            context.skip("huge pages without privileges", error);
            Value::Null
        }
    }
}
