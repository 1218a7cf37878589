//! Latencies and units of instructions, as `latencies.toml` has them.

use crate::step::Unit;
use iced_x86::{CpuidFeature, Instruction, Mnemonic, OpKind};
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::LazyLock;

static CLASSES: LazyLock<HashMap<String, Class>> =
    LazyLock::new(|| classes(include_str!("../latencies.toml")));

/// Names of all mnemonics.
static NAMES: LazyLock<HashMap<Mnemonic, String>> = LazyLock::new(|| {
    let name = |mnemonic| (mnemonic, format!("{mnemonic:?}").to_lowercase());
    Mnemonic::values().map(name).collect()
});

#[derive(Deserialize)]
struct File {
    class: Vec<Class>,
}

/// Instructions that take as long; `of` has their names.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Class {
    of: String,
    cycles: Option<u8>,
    loading: Option<u8>,
    general: Option<u8>,
    unit: Option<Unit>,
    #[serde(default)]
    halves: u8,
}

/// By the names of instructions.
fn classes(text: &str) -> HashMap<String, Class> {
    let file: File = toml::from_str(text).expect("a test reads it");
    let named = |class: Class| {
        let names: Vec<String> = class.of.split(' ').map(str::to_owned).collect();
        names.into_iter().map(move |name| (name, class.clone()))
    };
    file.class.into_iter().flat_map(named).collect()
}

fn class_of(instruction: &Instruction) -> Option<&'static Class> {
    let fma = instruction.cpuid_features().contains(&CpuidFeature::FMA);
    let name = NAMES.get(&instruction.mnemonic()).filter(|_| !fma);
    CLASSES.get(name.map_or("fma", String::as_str))
}

/// Cycles from an instruction's operands to its result; of one that loads, from its data on.
pub(crate) fn latency(instruction: &Instruction) -> u8 {
    let general = |operand| {
        instruction.op_count() > operand
            && instruction.op_kind(operand) == OpKind::Register
            && instruction.op_register(operand).is_gpr()
    };
    let loads =
        (1..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory);
    if instruction.mnemonic() == Mnemonic::Mov {
        let renamed = general(0) && general(1) && instruction.op0_register().size() >= 4;
        return u8::from(!loads && !renamed);
    }
    let cycles = class_of(instruction).and_then(|class| {
        let loading = class.loading.filter(|_| loads);
        let general = class.general.filter(|_| general(0) || general(1));
        loading.or(general).or(class.cycles)
    });
    cycles.unwrap_or(1)
}

/// The unit that an instruction needs, and half cycles after which the next one can have it.
pub(crate) fn unit(instruction: &Instruction) -> Option<(Unit, u8)> {
    let class = class_of(instruction)?;
    Some((class.unit?, class.halves))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    fn of(bytes: &[u8]) -> u8 {
        latency(&Decoder::new(64, bytes, DecoderOptions::NONE).decode())
    }

    #[test]
    fn every_name_is_an_instructions_and_in_one_class() {
        let names: std::collections::HashSet<&String> = NAMES.values().collect();
        let file: File = toml::from_str(include_str!("../latencies.toml")).unwrap();
        let all: Vec<&str> = file.class.iter().flat_map(|c| c.of.split(' ')).collect();
        assert_eq!(all.len(), CLASSES.len());
        for name in all {
            assert!(name == "fma" || names.contains(&name.to_owned()), "{name}");
        }
    }

    #[test]
    fn latencies_lie_between_those_of_two_makers() {
        // Output of llvm-mca 14 for znver3 and for icelake-server.
        let published: [(&[u8], [u8; 2]); 40] = [
            (&[0x48, 0x01, 0xc8], [1, 1]),                      // add rax, rcx
            (&[0x48, 0x39, 0xc8], [1, 1]),                      // cmp rax, rcx
            (&[0x48, 0x8d, 0x04, 0x01], [1, 1]),                // lea rax, [rcx+rax]
            (&[0x48, 0x8d, 0x44, 0x41, 0x08], [2, 1]),          // lea rax, [rcx+rax*2+8]
            (&[0x48, 0xc1, 0xe0, 0x03], [1, 1]),                // shl rax, 3
            (&[0x48, 0x0f, 0x42, 0xc1], [1, 1]),                // cmovb rax, rcx
            (&[0x48, 0x0f, 0x47, 0xc1], [1, 2]),                // cmova rax, rcx
            (&[0x48, 0x0f, 0x4f, 0xc1], [1, 1]),                // cmovg rax, rcx
            (&[0x0f, 0x92, 0xc0], [1, 1]),                      // setb al
            (&[0x0f, 0xb6, 0xc0], [1, 1]),                      // movzx eax, al
            (&[0x48, 0x63, 0xc1], [1, 1]),                      // movsxd rax, ecx
            (&[0x48, 0x0f, 0xaf, 0xc1], [3, 3]),                // imul rax, rcx
            (&[0x48, 0xf7, 0xe1], [3, 4]),                      // mul rcx
            (&[0x48, 0xf7, 0xf1], [17, 76]),                    // div rcx
            (&[0x48, 0x0f, 0xbc, 0xc1], [3, 3]),                // bsf rax, rcx
            (&[0xf3, 0x48, 0x0f, 0xb8, 0xc1], [1, 3]),          // popcnt rax, rcx
            (&[0xf3, 0x48, 0x0f, 0xbc, 0xc1], [2, 3]),          // tzcnt rax, rcx
            (&[0xf3, 0x48, 0x0f, 0xbd, 0xc1], [1, 3]),          // lzcnt rax, rcx
            (&[0xc4, 0xe2, 0xfb, 0xf5, 0xc1], [3, 3]),          // pdep rax, rax, rcx
            (&[0xf2, 0x48, 0x0f, 0x38, 0xf1, 0xc1], [3, 3]),    // crc32 rax, rcx
            (&[0x66, 0x48, 0x0f, 0x7e, 0xc0], [1, 2]),          // movq rax, xmm0
            (&[0x66, 0x0f, 0xd7, 0xc0], [1, 2]),                // pmovmskb eax, xmm0
            (&[0x66, 0x0f, 0x74, 0xc1], [1, 1]),                // pcmpeqb xmm0, xmm1
            (&[0xf2, 0x0f, 0x58, 0xc1], [3, 4]),                // addsd xmm0, xmm1
            (&[0xf2, 0x0f, 0x59, 0xc1], [3, 4]),                // mulsd xmm0, xmm1
            (&[0xc4, 0xe2, 0xf1, 0xb9, 0xc2], [4, 4]),          // vfmadd231sd xmm0, xmm1, xmm2
            (&[0xf2, 0x0f, 0x5e, 0xc1], [13, 14]),              // divsd xmm0, xmm1
            (&[0xf2, 0x0f, 0x51, 0xc1], [21, 18]),              // sqrtsd xmm0, xmm1
            (&[0xf2, 0x48, 0x0f, 0x2a, 0xc0], [4, 5]),          // cvtsi2sd xmm0, rax
            (&[0xf2, 0x48, 0x0f, 0x2c, 0xc0], [2, 6]),          // cvttsd2si rax, xmm0
            (&[0x66, 0x0f, 0x2e, 0xc1], [4, 2]),                // ucomisd xmm0, xmm1
            (&[0x66, 0x48, 0x0f, 0x3a, 0x16, 0xc0, 1], [1, 3]), // pextrq rax, xmm0, 1
            (&[0x66, 0x0f, 0x38, 0x17, 0xc1], [1, 3]),          // ptest xmm0, xmm1
            (&[0x48, 0x0f, 0xc8], [1, 2]),                      // bswap rax
            (&[0x66, 0x0f, 0xf4, 0xc1], [3, 5]),                // pmuludq xmm0, xmm1
            (&[0x66, 0x0f, 0x38, 0x40, 0xc1], [3, 10]),         // pmulld xmm0, xmm1
            (&[0x66, 0x0f, 0x38, 0xdc, 0xc1], [4, 4]),          // aesenc xmm0, xmm1
            (&[0x66, 0x0f, 0x3a, 0x44, 0xc1, 1], [4, 6]),       // pclmulqdq xmm0, xmm1, 1
            (&[0x66, 0x0f, 0x51, 0xc1], [21, 18]),              // sqrtpd xmm0, xmm1
            (&[0x48, 0x91], [0, 2]),                            // xchg rcx, rax
        ];
        for (bytes, both) in published {
            let between = both[0].min(both[1])..=both[0].max(both[1]);
            assert!(between.contains(&of(bytes)), "{bytes:x?}: {}", of(bytes));
        }
    }

    #[test]
    fn what_only_moves_or_loads_takes_nothing_more() {
        let free: [&[u8]; 5] = [
            &[0x48, 0x89, 0xc8],       // mov rax, rcx
            &[0x48, 0x8b, 0x00],       // mov rax, [rax]
            &[0x0f, 0xb6, 0x00],       // movzx eax, byte [rax]
            &[0x58],                   // pop rax
            &[0xf3, 0x0f, 0x6f, 0x00], // movdqu xmm0, [rax]
        ];
        for bytes in free {
            assert_eq!(of(bytes), 0, "{bytes:x?}");
        }
        // The rest of rax stays as it was.
        assert_eq!(of(&[0x88, 0xc8]), 1); // mov al, cl
        // A load that computes.
        assert_eq!(of(&[0x48, 0x39, 0x08]), 1); // cmp [rax], rcx
        assert_eq!(of(&[0x48, 0x03, 0x08]), 1); // add rcx, [rax]
    }

    #[test]
    fn throughputs_lie_between_those_of_two_makers() {
        // Output of llvm-mca 14 for znver3 and for icelake-server, in half cycles.
        let published: [(&[u8], [u8; 2]); 9] = [
            (&[0x48, 0xf7, 0xf1], [34, 16]),           // div rcx
            (&[0xf3, 0x0f, 0x5e, 0xc1], [6, 6]),       // divss xmm0, xmm1
            (&[0xf2, 0x0f, 0x5e, 0xc1], [10, 6]),      // divsd xmm0, xmm1
            (&[0xf3, 0x0f, 0x51, 0xc1], [10, 6]),      // sqrtss xmm0, xmm1
            (&[0xf2, 0x0f, 0x51, 0xc1], [18, 12]),     // sqrtsd xmm0, xmm1
            (&[0xf2, 0x0f, 0x58, 0xc1], [1, 1]),       // addsd xmm0, xmm1
            (&[0xc5, 0xfd, 0x58, 0xc1], [1, 1]),       // vaddpd ymm0, ymm0, ymm1
            (&[0xf2, 0x0f, 0x59, 0xc1], [1, 1]),       // mulsd xmm0, xmm1
            (&[0xc4, 0xe2, 0xfd, 0xb8, 0xc1], [2, 1]), // vfmadd231pd ymm0, ymm0, ymm1
        ];
        for (bytes, both) in published {
            let instruction = Decoder::new(64, bytes, DecoderOptions::NONE).decode();
            let (_, halves) = unit(&instruction).unwrap();
            let between = both[0].min(both[1])..=both[0].max(both[1]);
            assert!(between.contains(&halves), "{bytes:x?}: {halves}");
        }
        for bytes in [&[0x48, 0x01, 0xc8][..], &[0x66, 0x0f, 0xfe, 0xc1]] {
            // add rax, rcx and paddd xmm0, xmm1
            let instruction = Decoder::new(64, bytes, DecoderOptions::NONE).decode();
            assert_eq!(unit(&instruction), None);
        }
    }
}
