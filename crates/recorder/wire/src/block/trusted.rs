//! Instructions of which it is known how QEMU executes them: each memory operand accessed once,
//! whatever the operands' values, with the size that the instruction says. (A test compares
//! with reports of every access; an instruction that is missing here costs speed, not truth.)

use iced_x86::{Instruction, Mnemonic, OpKind};

/// True if QEMU makes each access of the instruction exactly once.
pub(super) fn once(instruction: &Instruction) -> bool {
    if instruction.has_rep_prefix() || instruction.has_repne_prefix() {
        return false;
    }
    // pop to memory computes its address after it has moved the stack pointer.
    if instruction.mnemonic() == Mnemonic::Pop && instruction.op0_kind() == OpKind::Memory {
        return false;
    }
    let mnemonic = instruction.mnemonic();
    general(mnemonic) || vector(mnemonic) || avx(mnemonic)
}

/// True if QEMU may leave the block at this instruction and start it anew, alone: it does so for
/// atomic accesses that the host cannot do at once (unaligned ones).
pub(super) fn restarts(instruction: &Instruction) -> bool {
    instruction.has_lock_prefix()
        || instruction.mnemonic() == Mnemonic::Xchg && instruction.op0_kind() != OpKind::Register
}

fn general(mnemonic: Mnemonic) -> bool {
    use Mnemonic::*;
    matches!(
        mnemonic,
        Adc | Add
            | And
            | Andn
            | Bextr
            | Blsi
            | Blsmsk
            | Blsr
            | Bsf
            | Bsr
            | Bzhi
            | Call
            | Cmova
            | Cmovae
            | Cmovb
            | Cmovbe
            | Cmove
            | Cmovg
            | Cmovge
            | Cmovl
            | Cmovle
            | Cmovne
            | Cmovno
            | Cmovnp
            | Cmovns
            | Cmovo
            | Cmovp
            | Cmovs
            | Cmp
            | Cmpxchg
            | Dec
            | Div
            | Idiv
            | Imul
            | Inc
            | Jmp
            | Leave
            | Lzcnt
            | Mov
            | Movbe
            | Movnti
            | Movsx
            | Movsxd
            | Movzx
            | Mul
            | Mulx
            | Neg
            | Not
            | Or
            | Pop
            | Popcnt
            | Push
            | Ret
            | Rol
            | Ror
            | Rorx
            | Sar
            | Sarx
            | Sbb
            | Seta
            | Setae
            | Setb
            | Setbe
            | Sete
            | Setg
            | Setge
            | Setl
            | Setle
            | Setne
            | Setno
            | Setnp
            | Setns
            | Seto
            | Setp
            | Sets
            | Shl
            | Shlx
            | Shr
            | Shrx
            | Sub
            | Test
            | Tzcnt
            | Xadd
            | Xchg
            | Xor
    )
}

fn vector(mnemonic: Mnemonic) -> bool {
    use Mnemonic::*;
    matches!(
        mnemonic,
        Addpd
            | Addps
            | Addsd
            | Addss
            | Andnpd
            | Andnps
            | Andpd
            | Andps
            | Comisd
            | Comiss
            | Cvtsd2ss
            | Cvtsi2sd
            | Cvtsi2ss
            | Cvtss2sd
            | Cvttsd2si
            | Cvttss2si
            | Divsd
            | Divss
            | Lddqu
            | Maxsd
            | Maxss
            | Minsd
            | Minss
            | Movapd
            | Movaps
            | Movd
            | Movdqa
            | Movdqu
            | Movhpd
            | Movhps
            | Movlpd
            | Movlps
            | Movntdq
            | Movntpd
            | Movntps
            | Movq
            | Movsd
            | Movss
            | Movupd
            | Movups
            | Mulpd
            | Mulps
            | Mulsd
            | Mulss
            | Orpd
            | Orps
            | Paddb
            | Paddd
            | Paddq
            | Paddw
            | Pand
            | Pandn
            | Pcmpeqb
            | Pcmpeqd
            | Pcmpeqw
            | Pcmpgtb
            | Pcmpgtd
            | Pcmpgtw
            | Pmaxub
            | Pminub
            | Por
            | Pshufd
            | Psubb
            | Psubd
            | Psubq
            | Psubw
            | Pxor
            | Sqrtsd
            | Sqrtss
            | Subpd
            | Subps
            | Subsd
            | Subss
            | Ucomisd
            | Ucomiss
            | Xorpd
            | Xorps
    )
}

/// The same with three operands, on 16 or 32 bytes: QEMU has one table for both from 7.2 on, and runs no AVX before.
fn avx(mnemonic: Mnemonic) -> bool {
    use Mnemonic::*;
    matches!(
        mnemonic,
        Vaddpd
            | Vaddps
            | Vaddsd
            | Vaddss
            | Vandnpd
            | Vandnps
            | Vandpd
            | Vandps
            | Vbroadcastf128
            | Vbroadcasti128
            | Vbroadcastsd
            | Vbroadcastss
            | Vcomisd
            | Vcomiss
            | Vcvtsd2ss
            | Vcvtsi2sd
            | Vcvtsi2ss
            | Vcvtss2sd
            | Vcvttsd2si
            | Vcvttss2si
            | Vdivsd
            | Vdivss
            | Vextractf128
            | Vextracti128
            | Vinsertf128
            | Vinserti128
            | Vlddqu
            | Vmaxsd
            | Vmaxss
            | Vminsd
            | Vminss
            | Vmovapd
            | Vmovaps
            | Vmovd
            | Vmovdqa
            | Vmovdqu
            | Vmovhpd
            | Vmovhps
            | Vmovlpd
            | Vmovlps
            | Vmovntdq
            | Vmovntpd
            | Vmovntps
            | Vmovq
            | Vmovsd
            | Vmovss
            | Vmovupd
            | Vmovups
            | Vmulpd
            | Vmulps
            | Vmulsd
            | Vmulss
            | Vorpd
            | Vorps
            | Vpaddb
            | Vpaddd
            | Vpaddq
            | Vpaddw
            | Vpand
            | Vpandn
            | Vpbroadcastb
            | Vpbroadcastd
            | Vpbroadcastq
            | Vpbroadcastw
            | Vpcmpeqb
            | Vpcmpeqd
            | Vpcmpeqw
            | Vpcmpgtb
            | Vpcmpgtd
            | Vpcmpgtw
            | Vpmaxub
            | Vpminub
            | Vpor
            | Vpshufb
            | Vpshufd
            | Vpsubb
            | Vpsubd
            | Vpsubq
            | Vpsubw
            | Vpxor
            | Vsqrtsd
            | Vsqrtss
            | Vsubpd
            | Vsubps
            | Vsubsd
            | Vsubss
            | Vucomisd
            | Vucomiss
            | Vxorpd
            | Vxorps
    )
}
