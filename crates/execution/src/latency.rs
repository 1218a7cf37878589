//! Latencies of instructions.

use iced_x86::{CpuidFeature, Instruction, Mnemonic, OpKind};

/// Cycles from an instruction's operands to its result; of one that loads, from its data on.
///
/// Between what LLVM 14 has for Zen 3 and for Ice Lake (its llvm-mca prints them), which mostly
/// differ by two cycles at most; what is not named here takes one. Moves between registers are
/// renamed away, and what only loads has its result with the data.
pub(crate) fn latency(instruction: &Instruction) -> u8 {
    use Mnemonic as M;
    let register = |operand| {
        (instruction.op_count() > operand && instruction.op_kind(operand) == OpKind::Register)
            .then(|| instruction.op_register(operand))
    };
    let loads =
        (1..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory);
    let general = |operand| register(operand).is_some_and(iced_x86::Register::is_gpr);
    match instruction.mnemonic() {
        M::Mov if loads => 0,
        M::Mov => u8::from(!(general(0) && general(1) && instruction.op0_register().size() >= 4)),
        M::Movzx | M::Movsx | M::Movsxd if loads => 0,
        M::Pop => 0,
        M::Imul | M::Mul | M::Mulx => 3,
        // A Zen 3's, of 64 bits; Intel's before Ice Lake take up to 90.
        M::Div | M::Idiv => 17,
        M::Bsf | M::Bsr | M::Pdep | M::Pext | M::Crc32 => 3,
        // 3 on Intel's, 1 or 2 on AMD's.
        M::Tzcnt | M::Lzcnt | M::Popcnt => 2,
        // By two flags: 2 on Intel's and a Zen 5, 1 on a Zen 3. Of two others (less, greater) a Zen 5 alone takes 2.
        M::Cmova | M::Cmovbe => 2,
        // Between the general-purpose and the vector registers.
        M::Movd | M::Movq | M::Vmovd | M::Vmovq if loads => 0,
        M::Movd | M::Movq | M::Vmovd | M::Vmovq if general(0) || general(1) => 2,
        M::Pmovmskb | M::Vpmovmskb | M::Movmskps | M::Movmskpd | M::Vmovmskps | M::Vmovmskpd => 2,
        M::Ptest | M::Vptest => 3,
        _ if general(0) => vector_to_general(instruction),
        _ => vector(instruction, loads),
    }
}

/// True if it multiplies and adds at once.
pub(crate) fn is_fma(instruction: &Instruction) -> bool {
    instruction.cpuid_features().contains(&CpuidFeature::FMA)
}

/// Latency of one whose result is in a general-purpose register.
fn vector_to_general(instruction: &Instruction) -> u8 {
    use Mnemonic as M;
    match instruction.mnemonic() {
        M::Cvttsd2si | M::Cvttss2si | M::Cvtsd2si | M::Cvtss2si => 5,
        M::Vcvttsd2si | M::Vcvttss2si | M::Vcvtsd2si | M::Vcvtss2si => 5,
        M::Pextrb | M::Pextrw | M::Pextrd | M::Pextrq => 3,
        M::Vpextrb | M::Vpextrw | M::Vpextrd | M::Vpextrq => 3,
        _ => 1,
    }
}

/// Latency of one whose result is in a vector register, in memory or in the flags.
fn vector(instruction: &Instruction, loads: bool) -> u8 {
    use Mnemonic as M;
    match instruction.mnemonic() {
        M::Movaps | M::Movups | M::Movapd | M::Movupd | M::Movdqa | M::Movdqu => 0,
        M::Vmovaps | M::Vmovups | M::Vmovapd | M::Vmovupd | M::Vmovdqa | M::Vmovdqu => 0,
        M::Movss | M::Movsd | M::Vmovss | M::Vmovsd | M::Lddqu | M::Vlddqu if loads => 0,
        M::Addss | M::Addsd | M::Addps | M::Addpd | M::Subss | M::Subsd | M::Subps | M::Subpd => 3,
        M::Mulss | M::Mulsd | M::Mulps | M::Mulpd => 4,
        M::Vaddss | M::Vaddsd | M::Vaddps | M::Vaddpd => 3,
        M::Vsubss | M::Vsubsd | M::Vsubps | M::Vsubpd => 3,
        M::Vmulss | M::Vmulsd | M::Vmulps | M::Vmulpd => 4,
        M::Pmuludq | M::Pmuldq | M::Pmulld | M::Pmullw | M::Pmulhw | M::Pmaddwd => 4,
        M::Vpmuludq | M::Vpmuldq | M::Vpmulld | M::Vpmullw | M::Vpmulhw | M::Vpmaddwd => 4,
        M::Aesenc | M::Aesenclast | M::Aesdec | M::Aesdeclast => 4,
        M::Vaesenc | M::Vaesenclast | M::Vaesdec | M::Vaesdeclast => 4,
        M::Pclmulqdq | M::Vpclmulqdq => 4,
        M::Divss | M::Divsd | M::Divps | M::Divpd => 13,
        M::Vdivss | M::Vdivsd | M::Vdivps | M::Vdivpd => 13,
        M::Sqrtss | M::Sqrtsd | M::Sqrtps | M::Sqrtpd => 18,
        M::Vsqrtss | M::Vsqrtsd | M::Vsqrtps | M::Vsqrtpd => 18,
        _ if is_fma(instruction) => 4,
        M::Cvtsi2sd | M::Cvtsi2ss | M::Vcvtsi2sd | M::Vcvtsi2ss => 5,
        M::Ucomiss | M::Ucomisd | M::Comiss | M::Comisd => 3,
        M::Vucomiss | M::Vucomisd | M::Vcomiss | M::Vcomisd => 3,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    fn of(bytes: &[u8]) -> u8 {
        latency(&Decoder::new(64, bytes, DecoderOptions::NONE).decode())
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
}
