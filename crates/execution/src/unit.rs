//! Units of a core that instructions need and others wait for.

use crate::latency::is_fma;
use crate::step::Unit;
use iced_x86::{Instruction, Mnemonic};

/// The unit that an instruction needs, and half cycles after which the next one can have it.
///
/// Between what LLVM 14 has for Zen 3 and for Ice Lake (its llvm-mca prints reciprocal throughputs). There are two
/// adders and two multipliers, which Intel's cores share in part. Of what is not named here there is enough for all
/// that a core dispatches.
pub(crate) fn unit(instruction: &Instruction) -> Option<(Unit, u8)> {
    use Mnemonic as M;
    Some(match instruction.mnemonic() {
        // Divisions of 64 bits take seven to nine cycles on a Zen 5, 17 on a Zen 3.
        M::Div | M::Idiv => (Unit::Divider, 16),
        M::Divss | M::Divps | M::Vdivss | M::Vdivps => (Unit::VectorDivider, 6),
        M::Divsd | M::Divpd | M::Vdivsd | M::Vdivpd => (Unit::VectorDivider, 8),
        M::Sqrtss | M::Sqrtps | M::Vsqrtss | M::Vsqrtps => (Unit::VectorDivider, 8),
        M::Sqrtsd | M::Sqrtpd | M::Vsqrtsd | M::Vsqrtpd => (Unit::VectorDivider, 14),
        M::Addss | M::Addsd | M::Addps | M::Addpd => (Unit::VectorAdder, 1),
        M::Vaddss | M::Vaddsd | M::Vaddps | M::Vaddpd => (Unit::VectorAdder, 1),
        M::Subss | M::Subsd | M::Subps | M::Subpd => (Unit::VectorAdder, 1),
        M::Vsubss | M::Vsubsd | M::Vsubps | M::Vsubpd => (Unit::VectorAdder, 1),
        M::Mulss | M::Mulsd | M::Mulps | M::Mulpd => (Unit::VectorMultiplier, 1),
        M::Vmulss | M::Vmulsd | M::Vmulps | M::Vmulpd => (Unit::VectorMultiplier, 1),
        _ if is_fma(instruction) => (Unit::VectorMultiplier, 1),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

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
