//! Demand allocation: what a page costs when it is mapped, first touched, touched again and
//! unmapped; when it is zeroed; how many pages one fault brings in.

use super::{Context, Failure, Part, no_options};
use crate::rounds::{estimate, timed};
use crate::system::mapping::{HUGE, Mapping, PAGE, memory_file};
use crate::system::process::{self, in_child};
use crate::system::tuning::NOT_ALLOWED;
use crate::system::{Refused, budget, files};
use clap::ArgMatches;
use fastrand::Rng;
use serde_json::{Map, Value, json};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

pub const PART: Part = Part {
    name: "faults",
    about: "Map, first touch, later touch, unmap; zeroing; pages brought in by one fault",
    in_all: true,
    options: no_options,
    run,
};

fn run(context: &mut Context, _: &ArgMatches) -> Result<Value, Failure> {
    let wanted = if context.quick { 16 << 20 } else { 64 << 20 };
    let len = (budget::bytes() as usize / 2).min(wanted) / HUGE * HUGE;
    if len == 0 {
        return Err(Failure::Lacking("too little memory is free".into()));
    }
    context.say("the life of a page");
    let rounds = if context.quick { 7 } else { 15 };
    let life = life(len, rounds, &mut context.rng)?;
    let scarce = context.attempt(
        "first touch where pages must be reclaimed first",
        |context| under_limit(context, rounds),
    );
    context.say("sequential and random first touch");
    let order = order(len, rounds, &mut context.rng)?;
    context.say("where the kernel leaves a page that it has filled");
    let filled = filled(len.min(16 << 20), rounds, &mut context.rng)?;
    context.say("pages a fault");
    let around = pages_per_fault(context, len.min(16 << 20));
    Ok(json!({
        "bytes": len,
        "per_page_ns": life,
        "under_limit": scarce,
        "first_touch_by_stride": order,
        "filled_page": filled,
        "pages_per_fault": around,
    }))
}

/// Bytes of a line, on all processors that this was tried on.
const LINE: usize = 64;

/// Use of a fresh mapping before it is unmapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Untouched,
    Read,
    Written,
    WrittenHuge,
    /// Pages of a memory file that are there already: a fault that only maps.
    Present,
}

const USES: [(Use, &str); 5] = [
    (Use::Untouched, "untouched"),
    (Use::Read, "read"),
    (Use::Written, "written"),
    (Use::WrittenHuge, "written_huge"),
    (Use::Present, "present_file"),
];

/// Nanoseconds a page of each phase of a mapping's life, by what is done to it, and of zeroing
/// a page in user mode.
fn life(len: usize, rounds: usize, rng: &mut Rng) -> Result<Value, Failure> {
    let pages = (len / PAGE) as f64;
    let file = memory_file(len, 0)?;
    Mapping::shared(&file, len)?.touch(0, len, PAGE);
    let cases: Vec<Use> = USES.iter().map(|u| u.0).collect();
    let shared = libc::PROT_READ | libc::PROT_WRITE;
    let estimates = estimate(&cases, rounds, rng, |case| {
        let map = || match case {
            Use::Present => Mapping::new(len, shared, libc::MAP_SHARED, Some(&file)),
            _ => Mapping::anonymous_huge_aligned(len),
        };
        one_life(case, len, map).map(|phases| phases.map(|ns| ns / pages))
    })?;
    let mut lives = Map::new();
    for ((_, name), [map, first, later, unmap, whole]) in USES.iter().zip(estimates) {
        let life = json!({
            "map": map, "first_touch": first, "later_touch": later, "unmap": unmap, "whole": whole,
        });
        lives.insert((*name).into(), life);
    }
    let buffer = Mapping::anonymous_huge_aligned(len)?;
    buffer.touch(0, len, PAGE);
    let [zero] = estimate(&[()], rounds, rng, |()| {
        // SAFETY: the whole of a mapping of our own.
        let (ns, ()) = timed(|| unsafe { buffer.as_ptr().write_bytes(0, len) });
        std::hint::black_box(buffer.as_ptr());
        Ok::<_, Failure>([ns / pages])
    })?[0];
    lives.insert("zeroing_in_user_mode".into(), json!(zero));
    Ok(lives.into())
}

/// Nanoseconds a page of the first touch and of the unmapping of `len` bytes.
pub(crate) fn touched_life(len: usize, case: Use) -> Result<[f64; 2], Failure> {
    let phases = one_life(case, len, || Mapping::anonymous_huge_aligned(len))?;
    let [_, first, _, unmap, _] = phases.map(|ns| ns / (len / PAGE) as f64);
    Ok([first, unmap])
}

fn one_life(
    case: Use,
    len: usize,
    map: impl FnOnce() -> Result<Mapping, Refused>,
) -> Result<[f64; 5], Failure> {
    let (whole, phases) = timed(|| -> Result<_, Failure> {
        let (map, mapping) = timed(map);
        let mapping = mapping?;
        let touch = || match case {
            Use::Untouched => {}
            Use::Read => mapping.read(0, len, PAGE),
            _ => mapping.touch(0, len, PAGE),
        };
        match case {
            Use::Present => {}
            Use::WrittenHuge => mapping.advise(0, len, libc::MADV_HUGEPAGE)?,
            _ => mapping.advise(0, len, libc::MADV_NOHUGEPAGE)?,
        }
        let (first, ()) = timed(touch);
        let (later, ()) = timed(touch);
        let (unmap, ()) = timed(|| drop(mapping));
        Ok([map, first, later, unmap])
    });
    let [map, first, later, unmap] = phases?;
    // The second touch is no part of the life the paper times as a whole.
    Ok([map, first, later, unmap, whole - later])
}

/// Nanoseconds an access of a fresh mapping, sequential and in random order, by stride.
fn order(len: usize, rounds: usize, rng: &mut Rng) -> Result<Value, Failure> {
    let strides = [PAGE, 4 * PAGE, 16 * PAGE, 64 * PAGE, 256 * PAGE];
    let cases: Vec<(usize, bool, bool)> = strides
        .iter()
        .flat_map(|&s| {
            [(false, false), (false, true), (true, false), (true, true)].map(|(h, r)| (s, h, r))
        })
        .collect();
    let mut orders = rng.fork();
    let estimates = estimate(&cases, rounds.min(9), rng, |(stride, huge, random)| {
        let mapping = Mapping::anonymous_in(huge, len)?;
        let mut places: Vec<usize> = (0..len).step_by(stride).collect();
        if random {
            orders.shuffle(&mut places);
        }
        let (ns, ()) = timed(|| places.iter().for_each(|&at| mapping.touch(at, 1, 1)));
        Ok::<_, Refused>([ns / places.len() as f64])
    })?;
    let rows = cases.iter().zip(estimates);
    Ok(rows
        .map(|((stride, huge, random), [ns])| {
            json!({ "stride": stride, "huge": huge, "random": random, "ns": ns })
        })
        .collect())
}

/// Additional time of a load of a line of a page that was touched for the first time just before, against the same
/// line again, from the first level, in nanoseconds: small pages. Each load waits for the last; what asking for the
/// time takes is in both.
fn filled(len: usize, rounds: usize, rng: &mut Rng) -> Result<Value, Failure> {
    let mut orders = rng.fork();
    let [longer] = estimate(&[()], rounds, rng, |()| {
        let mapping = Mapping::anonymous_in(false, len)?;
        // The first line is the one that is touched.
        let mut lines: Vec<usize> = (LINE..PAGE).step_by(LINE).collect();
        orders.shuffle(&mut lines);
        let mut sums = [0.0; 2];
        for page in (0..len).step_by(PAGE) {
            mapping.touch(page, 1, 1);
            // A page is not read in the order of the one before, which a prefetcher might know.
            lines.rotate_left(1);
            for sum in &mut sums {
                let (ns, last) = timed(|| {
                    lines.iter().fold(0, |read, &line| {
                        // SAFETY: within the mapping, as what is read is 0.
                        let at = unsafe { mapping.as_ptr().add(page + line + read) };
                        // SAFETY: as above, and mapped for reading.
                        usize::from(unsafe { at.read_volatile() })
                    })
                });
                std::hint::black_box(last);
                *sum += ns;
            }
        }
        let loads = (len / PAGE * lines.len()) as f64;
        Ok::<_, Failure>([(sums[0] - sums[1]) / loads])
    })?[0];
    Ok(json!({ "longer_than_l1_ns": longer }))
}

/// Number of pages that one fault brings in, from the fault counter, for each kind of mapping.
fn pages_per_fault(context: &mut Context, len: usize) -> Value {
    let mut rows = Map::new();
    let mut add = |name: &str, mapping: Result<Mapping, Refused>, write: bool| {
        let Ok(mapping) = mapping else { return };
        // An advice that does not apply to files is refused, and not needed there.
        let _ = mapping.advise(0, len, libc::MADV_NOHUGEPAGE);
        let before = process::thread_usage();
        if write {
            mapping.touch(0, len, PAGE);
        } else {
            mapping.read(0, len, PAGE);
        }
        let after = process::thread_usage();
        let faults =
            after.minor_faults + after.major_faults - before.minor_faults - before.major_faults;
        let pages = len / PAGE;
        rows.insert(
            name.into(),
            json!({ "pages": pages, "faults": faults, "ratio": pages as f64 / faults as f64 }),
        );
    };
    let both = libc::PROT_READ | libc::PROT_WRITE;
    for (name, write) in [("anonymous, written", true), ("anonymous, read", false)] {
        add(name, Mapping::anonymous_huge_aligned(len), write);
    }
    match memory_file(len, 0) {
        Ok(file) => {
            let map = |flags| Mapping::new(len, both, flags, Some(&file));
            add("shared memory, first written", map(libc::MAP_SHARED), true);
            add("shared memory present, read", map(libc::MAP_SHARED), false);
            add(
                "shared memory present, written",
                map(libc::MAP_SHARED),
                true,
            );
        }
        Err(error) => context.skip("pages a fault of shared memory", error),
    }
    match disk_file(len) {
        Ok(file) => {
            let file = OwnedFd::from(file);
            let map = |flags| Mapping::new(len, both, flags, Some(&file));
            add("cached file, private, read", map(libc::MAP_PRIVATE), false);
            add(
                "cached file, private, written",
                map(libc::MAP_PRIVATE),
                true,
            );
            add("cached file, shared, written", map(libc::MAP_SHARED), true);
        }
        Err(why) => context.skip("pages a fault of a file on disk", why),
    }
    rows.into()
}

/// An unnamed file of `len` bytes, written back, on a file system that is not memory.
fn disk_file(len: usize) -> Result<File, String> {
    const TMPFS_MAGIC: i64 = 0x0102_1994;
    for directory in ["/var/tmp", ".", "/tmp"] {
        let Ok(path) = std::ffi::CString::new(directory) else {
            continue;
        };
        // SAFETY: plain numbers; a terminated path and a valid place for the result.
        let kind = unsafe {
            let mut info: libc::statfs = std::mem::zeroed();
            (libc::statfs(path.as_ptr(), &mut info) == 0).then_some(info.f_type)
        };
        if kind.is_none() || kind == Some(TMPFS_MAGIC) {
            continue;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_TMPFILE);
        let Ok(mut file) = options.open(directory) else {
            continue;
        };
        let block = vec![1u8; 1 << 20];
        let written = (0..len.div_ceil(block.len())).try_for_each(|_| file.write_all(&block));
        return match written.and_then(|()| file.sync_all()) {
            Ok(()) => Ok(file),
            Err(error) => Err(format!("cannot write a file in {directory}: {error}")),
        };
    }
    Err("no directory on a disk allows unnamed files".into())
}

/// First touch inside a control group whose limit the page cache has filled: each new page must
/// be reclaimed first. The anonymous memory is well below the limit, so that nothing is killed.
fn under_limit(context: &mut Context, rounds: usize) -> Result<Value, Failure> {
    const LIMIT: usize = 64 << 20;
    if !context.tuning.is_allowed() {
        return Err(Failure::Lacking(NOT_ALLOWED.into()));
    }
    let (root, limit) = memory_group_root().ok_or_else(|| {
        Failure::Lacking("no memory controller of control groups is mounted".into())
    })?;
    let group = root.join(format!("pagelab-probe-{}", std::process::id()));
    context.tuning.make_directory(&group)?;
    fs::write(group.join(limit), LIMIT.to_string())
        .map_err(|e| Refused::because(format!("limit of {}", group.display()), e))?;
    let touched = LIMIT / 4;
    let measured: Result<(Vec<f64>, Vec<f64>), String> = in_child(|| {
        fs::write(group.join("cgroup.procs"), std::process::id().to_string())
            .map_err(|e| format!("joining {}: {e}", group.display()))?;
        let touch = || -> Result<f64, String> {
            let mapping = Mapping::anonymous_huge_aligned(touched).map_err(|e| e.to_string())?;
            let _ = mapping.advise(0, touched, libc::MADV_NOHUGEPAGE);
            let (ns, ()) = timed(|| mapping.touch(0, touched, PAGE));
            Ok(ns / (touched / PAGE) as f64)
        };
        let mut plenty = Vec::new();
        let mut scarce = Vec::new();
        for _ in 0..rounds.min(7) {
            plenty.push(touch()?);
            // More than the limit, so that the group is full of clean pages.
            let _file = disk_file(LIMIT + LIMIT / 2)?;
            scarce.push(touch()?);
        }
        Ok((plenty, scarce))
    })?;
    let (plenty, scarce) = measured.map_err(Failure::Lacking)?;
    let estimate = |samples: &[f64]| crate::stats::Estimate::of(samples);
    Ok(json!({
        "limit": LIMIT,
        "touched": touched,
        "plenty_ns": estimate(&plenty),
        "scarce_ns": estimate(&scarce),
    }))
}

/// Place where a group can be made that limits memory, and the name of the limit.
fn memory_group_root() -> Option<(PathBuf, &'static str)> {
    let v1 = Path::new("/sys/fs/cgroup/memory");
    if v1.join("memory.limit_in_bytes").exists() || v1.join("cgroup.procs").exists() {
        return Some((v1.into(), "memory.limit_in_bytes"));
    }
    let v2 = Path::new("/sys/fs/cgroup");
    let controllers = files::text(v2.join("cgroup.subtree_control"))?;
    let has_memory = controllers.split(' ').any(|c| c == "memory");
    has_memory.then(|| (v2.into(), "memory.max"))
}
