//! How many instructions a core dispatches in a cycle, as many of them as it does now: a core whose other
//! thread works gives each a part.

use crate::rounds::Stopwatch;
use crate::stats::median;
use crate::system::Refused;
use crate::system::mapping::Mapping;

/// Two loops of machine code: instructions that wait for nothing, and a chain of multiplications, which
/// takes the same cycles whoever has the core's other thread.
pub struct Width {
    nops: Loop,
    chain: Loop,
}

/// Instructions of a loop of each kind: they fit into what holds decoded ones, and the loop's own are few
/// among them.
const NOPS: usize = 512;
const MULTIPLICATIONS: usize = 128;

/// Cycles of a multiplication (see `core_ghz` in the part `caches`).
const CYCLES: usize = 3;

/// Times that a loop goes round in a sample: 5 to 20 microseconds.
const ROUNDS: u64 = 64;
const SAMPLES: usize = 15;

impl Width {
    /// # Errors
    /// When memory is short, or this processor's code is not known.
    pub fn new() -> Result<Width, Refused> {
        if !cfg!(target_arch = "x86_64") {
            let why = std::io::Error::from(std::io::ErrorKind::Unsupported);
            return Err(Refused::because("this processor's code is not known", why));
        }
        // nop dword [rax]: four bytes, so that caches of decoded instructions hold as many as they can.
        // imul rax, rax.
        Ok(Width {
            nops: Loop::new(&[0x0f, 0x1f, 0x40, 0x00], NOPS)?,
            chain: Loop::new(&[0x48, 0x0f, 0xaf, 0xc0], MULTIPLICATIONS)?,
        })
    }

    /// Instructions a cycle.
    pub fn now(&self) -> f64 {
        let samples: Vec<f64> = (0..SAMPLES)
            .map(|_| {
                let [nops, chain] = [&self.nops, &self.chain].map(Loop::round);
                let cycles = nops / chain * (MULTIPLICATIONS * CYCLES) as f64;
                NOPS as f64 / cycles
            })
            .collect();
        median(&samples).unwrap_or(f64::NAN)
    }
}

/// Machine code that goes round as often as it is told.
struct Loop {
    memory: Mapping,
}

impl Loop {
    fn new(instruction: &[u8], count: usize) -> Result<Loop, Refused> {
        let mut code = instruction.repeat(count);
        code.extend_from_slice(&[0x48, 0xff, 0xcf]); // dec rdi
        code.extend_from_slice(&[0x0f, 0x85]); // jnz back to the beginning
        let back = -(code.len() as i32 + 4);
        code.extend_from_slice(&back.to_le_bytes());
        code.push(0xc3); // ret
        Ok(Loop {
            memory: Mapping::of_code(&code)?,
        })
    }

    /// Nanoseconds of going round once.
    fn round(&self) -> f64 {
        // SAFETY: `new` has put such a function there, which changes rax and rdi only, as the System V ABI
        // lets it.
        let go: unsafe extern "C" fn(u64) = unsafe { std::mem::transmute(self.memory.as_ptr()) };
        let watch = Stopwatch::start();
        // SAFETY: it neither reads nor writes memory.
        unsafe { go(ROUNDS) };
        watch.stop().0 / ROUNDS as f64
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn a_core_dispatches_some_instructions_a_cycle() {
        let width = Width::new().unwrap().now();
        // A thread that has half of a narrow core, and more than any core has.
        assert!((0.4..16.0).contains(&width), "{width}");
    }
}
