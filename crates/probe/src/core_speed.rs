//! Speed of a core now: its clock, and how many instructions it dispatches in a cycle, of which one whose other
//! thread works gives each a part.

/// Loops of eight multiplications that tell the clock: half a millisecond at 1 GHz.
const LOOPS: u64 = 20_000;

/// Fewer, beside [`NOPS`]: 5 to 10 microseconds.
const FEW_LOOPS: u64 = 1_000;

/// Instructions that wait for nothing: caches of decoded instructions have room for so many.
const NOPS: u64 = 512;
const ROUNDS: u64 = 64;

/// Clock rate of the core while it runs; `None` where that is not known.
pub fn ghz() -> Option<f64> {
    const SAMPLES: usize = 21;
    let rates: Option<Vec<f64>> = (0..SAMPLES).map(|_| cycles_a_ns(LOOPS)).collect();
    crate::stats::median(&rates?)
}

/// Instructions a cycle, of those that wait for nothing; `None` where that is not known.
pub fn width() -> Option<f64> {
    const SAMPLES: usize = 15;
    let sample = |_| Some(nops_a_ns()? / cycles_a_ns(FEW_LOOPS)?);
    let samples: Option<Vec<f64>> = (0..SAMPLES).map(sample).collect();
    crate::stats::median(&samples?)
}

/// Cycles that a load takes more whose address has a scaled index; `None` where that is not known.
pub fn scaled_index() -> Option<f64> {
    in_cycles(|| Some(load_ns(true)? - load_ns(false)?))
}

/// The median of nanoseconds, each in cycles of the clock as it is then.
fn in_cycles(ns: impl Fn() -> Option<f64>) -> Option<f64> {
    const SAMPLES: usize = 21;
    let sample = |_| {
        let cycles = cycles_a_ns(FEW_LOOPS)?;
        Some(ns()? * cycles)
    };
    let samples: Option<Vec<f64>> = (0..SAMPLES).map(sample).collect();
    crate::stats::median(&samples?)
}

/// Cycles of a store in a row of them that hit the first level, of locked instructions or others; `None` where
/// that is not known.
pub fn store(locked: bool) -> Option<f64> {
    in_cycles(|| store_ns(locked))
}

#[cfg(target_arch = "x86_64")]
fn store_ns(locked: bool) -> Option<f64> {
    let mut lines = [0u64; 64];
    let start = std::time::Instant::now();
    for _ in 0..FEW_LOOPS {
        // SAFETY: writes the first word of the first eight lines of 64 words, once or twice each.
        unsafe {
            if locked {
                std::arch::asm!(
                    ".irp at, 0, 64, 128, 192, 256, 320, 384, 448",
                    "lock inc qword ptr [{lines} + \\at]",
                    ".endr",
                    lines = in(reg) lines.as_mut_ptr(), options(nostack)
                );
            } else {
                std::arch::asm!(
                    ".rept 2",
                    ".irp at, 0, 64, 128, 192, 256, 320, 384, 448",
                    "mov [{lines} + \\at], {lines}",
                    ".endr",
                    ".endr",
                    lines = in(reg) lines.as_mut_ptr(), options(nostack, preserves_flags)
                );
            }
        }
    }
    let stores = if locked { 8 } else { 16 } * FEW_LOOPS;
    Some(start.elapsed().as_nanos() as f64 / stores as f64)
}

/// Cycles of a link in a chain through one word of memory, each of which loads it and stores what it has made of
/// that: an addition to it, of one cycle, or the same to and from a vector register; `None` where that is not known.
pub fn through_memory(vector: bool) -> Option<f64> {
    in_cycles(|| through_memory_ns(vector))
}

#[cfg(target_arch = "x86_64")]
fn through_memory_ns(vector: bool) -> Option<f64> {
    let mut word = 0u64;
    let start = std::time::Instant::now();
    for _ in 0..FEW_LOOPS {
        // SAFETY: reads and writes the word alone.
        unsafe {
            if vector {
                std::arch::asm!(
                    ".rept 8", "movq {value}, qword ptr [{word}]", "movq qword ptr [{word}], {value}", ".endr",
                    word = in(reg) &raw mut word, value = out(xmm_reg) _, options(nostack, preserves_flags)
                );
            } else {
                std::arch::asm!(
                    ".rept 8", "add qword ptr [{word}], 1", ".endr",
                    word = in(reg) &raw mut word, options(nostack)
                );
            }
        }
    }
    Some(start.elapsed().as_nanos() as f64 / (8 * FEW_LOOPS) as f64)
}

/// Nanoseconds of a load that hits the first level, of a chain of them, with an index that is scaled or not.
#[cfg(target_arch = "x86_64")]
fn load_ns(scaled: bool) -> Option<f64> {
    let start = std::time::Instant::now();
    let zero = [0u64; 8];
    let mut index = 0u64;
    for _ in 0..FEW_LOOPS {
        // SAFETY: reads the first of eight words, since what it finds there is always 0.
        unsafe {
            if scaled {
                std::arch::asm!(
                    ".rept 16", "mov {0}, [{1} + {0} * 8]", ".endr",
                    inout(reg) index, in(reg) zero.as_ptr(), options(readonly, nostack, pure)
                );
            } else {
                std::arch::asm!(
                    ".rept 16", "mov {0}, [{1} + {0}]", ".endr",
                    inout(reg) index, in(reg) zero.as_ptr(), options(readonly, nostack, pure)
                );
            }
        }
    }
    std::hint::black_box(index);
    Some(start.elapsed().as_nanos() as f64 / (FEW_LOOPS * 16) as f64)
}

/// Cycles a nanosecond, from a chain of multiplications of three cycles each, which is what they take on
/// every x86-64 core since 2006 (Agner Fog, Instruction tables), whoever has the core's other thread.
#[cfg(target_arch = "x86_64")]
fn cycles_a_ns(loops: u64) -> Option<f64> {
    let start = std::time::Instant::now();
    let mut value = 3u64;
    for _ in 0..loops {
        // SAFETY: multiplies a register by itself, touches nothing else.
        unsafe {
            std::arch::asm!(
                "imul {0}, {0}", "imul {0}, {0}", "imul {0}, {0}", "imul {0}, {0}",
                "imul {0}, {0}", "imul {0}, {0}", "imul {0}, {0}", "imul {0}, {0}",
                inout(reg) value, options(nomem, nostack, pure)
            );
        }
    }
    std::hint::black_box(value);
    Some((loops * 8 * 3) as f64 / start.elapsed().as_nanos() as f64)
}

#[cfg(target_arch = "x86_64")]
fn nops_a_ns() -> Option<f64> {
    let start = std::time::Instant::now();
    // The loop is here, since a compiler that unrolled it would leave none of it decoded. Instructions
    // of four bytes, none across two lines, which caches of decoded ones hold apart.
    // SAFETY: counts a register of its own down, and does nothing else.
    unsafe {
        std::arch::asm!(
            ".p2align 6", "2:",
            ".rept {count}", ".byte 0x0f, 0x1f, 0x40, 0x00", ".endr",
            "dec {rounds}", "jnz 2b",
            count = const NOPS, rounds = inout(reg) ROUNDS => _, options(nomem, nostack)
        );
    }
    Some((ROUNDS * NOPS) as f64 / start.elapsed().as_nanos() as f64)
}

#[cfg(not(target_arch = "x86_64"))]
fn cycles_a_ns(_: u64) -> Option<f64> {
    None
}

#[cfg(not(target_arch = "x86_64"))]
fn store_ns(_: bool) -> Option<f64> {
    None
}

#[cfg(not(target_arch = "x86_64"))]
fn through_memory_ns(_: bool) -> Option<f64> {
    None
}

#[cfg(not(target_arch = "x86_64"))]
fn load_ns(_: bool) -> Option<f64> {
    None
}

#[cfg(not(target_arch = "x86_64"))]
fn nops_a_ns() -> Option<f64> {
    None
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    #[test]
    fn what_is_tried_comes_back() {
        for of_two in [false, true] {
            assert!(super::store(of_two).unwrap() > 0.0);
            assert!(super::through_memory(of_two).unwrap() > 0.0);
        }
    }

    #[test]
    fn a_core_dispatches_some_instructions_a_cycle() {
        let width = super::width().unwrap();
        // A thread that has half of a narrow core, and more than any core has.
        assert!((0.4..16.0).contains(&width), "{width}");
    }
}
