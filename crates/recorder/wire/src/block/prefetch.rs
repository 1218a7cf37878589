//! Instructions that ask for a line to be fetched. Their operands are no accesses, to iced either.

use iced_x86::{Instruction, MemorySize, OpAccess, Register, UsedMemory};

use super::entry::{Prefetch, Segment};
use super::operands::general;

/// Operand that it names, as if it accessed that.
pub(super) fn operand(instruction: &Instruction) -> UsedMemory {
    UsedMemory::new(
        instruction.memory_segment(),
        instruction.memory_base(),
        instruction.memory_index(),
        instruction.memory_index_scale(),
        instruction.memory_displacement64(),
        MemorySize::UInt8,
        OpAccess::NoMemAccess,
    )
}

/// Line that it asks for, as entry `entry` of the script.
pub(super) fn asked(instruction: &Instruction, entry: u16) -> Prefetch {
    let (base, index) = (instruction.memory_base(), instruction.memory_index());
    let register = |register| general(register).map(|number| number as u8);
    Prefetch {
        entry,
        // iced gives an operand relative to the instruction pointer with its absolute address.
        base: register(base),
        index: register(index),
        scale: instruction.memory_index_scale() as u8,
        segment: match instruction.memory_segment() {
            Register::FS => Some(Segment::Fs),
            Register::GS => Some(Segment::Gs),
            _ => None,
        },
        displacement: instruction.memory_displacement64(),
        narrow: base.is_gpr32()
            || index.is_gpr32()
            || base == Register::EIP
            || (base == Register::None
                && index == Register::None
                && instruction.memory_displ_size() == 4),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{AddressFrom, Block, Reporting, Source};
    use super::*;

    /// Line that a block asks for that consists of one instruction, at 0x1000.
    fn prefetch(bytes: &[u8]) -> Prefetch {
        let block = Block::analyse(0x1000, &[bytes.len() as u8], bytes, Reporting::Needed);
        assert_eq!(block.script.len(), 1);
        let entry = block.script[0];
        assert!(entry.prefetch && entry.place == AddressFrom::ReportedAlways);
        assert_eq!((block.opening, block.reported), (None, 1));
        block.prefetches[0]
    }

    #[test]
    fn addresses_are_sums_of_what_the_instruction_names() {
        // prefetcht0 [rax]
        let asked = prefetch(&[0x0f, 0x18, 0x08]);
        assert_eq!(
            (asked.base, asked.index, asked.segment),
            (Some(0), None, None)
        );
        assert_eq!(asked.address(0, 0x7000, 0), 0x7000);
        // prefetchw [r12+r13*8-16]
        let asked = prefetch(&[0x43, 0x0f, 0x0d, 0x4c, 0xec, 0xf0]);
        assert_eq!((asked.base, asked.index), (Some(12), Some(13)));
        assert_eq!(asked.address(0, 0x7000, 2), 0x7000);
        // prefetchnta [rip+0x100]
        let asked = prefetch(&[0x0f, 0x18, 0x05, 0x00, 0x01, 0x00, 0x00]);
        assert_eq!((asked.base, asked.index), (None, None));
        assert_eq!(asked.address(0, 0, 0), 0x1107);
        // prefetcht2 fs:[rbx]
        let asked = prefetch(&[0x64, 0x0f, 0x18, 0x1b]);
        assert_eq!((asked.base, asked.segment), (Some(3), Some(Segment::Fs)));
        assert_eq!(asked.address(0x5000, 0x40, 0), 0x5040);
        // prefetcht1 [ecx+edx*4]
        let asked = prefetch(&[0x67, 0x0f, 0x18, 0x14, 0x91]);
        assert_eq!((asked.base, asked.index), (Some(1), Some(2)));
        assert_eq!(asked.address(0, 0xffff_fffe_ffff_fff0, 8), 0x10);
        // prefetcht0 [0xffffffff80000000]
        let asked = prefetch(&[0x0f, 0x18, 0x0c, 0x25, 0x00, 0x00, 0x00, 0x80]);
        assert_eq!(asked.displacement, 0xffff_ffff_8000_0000);
        assert_eq!(asked.address(0, 0, 0), Prefetch::NOWHERE);
    }

    #[test]
    fn what_no_program_can_map_is_nowhere() {
        let asked = prefetch(&[0x0f, 0x18, 0x08]);
        for address in [1 << 47, 0x7fff_ffff_f000, 0xffff_8000_0000_0000, !0xfff] {
            assert_eq!(
                asked.address(0, address + 0x123, 0),
                Prefetch::NOWHERE + 0x123
            );
        }
        assert_eq!(
            asked.address(0, Prefetch::NOWHERE - 1, 0),
            Prefetch::NOWHERE - 1
        );
    }

    /// Others do not follow from it, nor it from others; it waits for what made its address.
    #[test]
    fn it_is_an_access_of_its_own() {
        // mov rax, [rbx]; prefetcht0 [rax+8]; mov rcx, [rax+8]; prefetcht0 [rbx]; nop [rax]; prefetchit0 [rip]
        let code: [&[u8]; 6] = [
            &[0x48, 0x8b, 0x03],
            &[0x0f, 0x18, 0x48, 0x08],
            &[0x48, 0x8b, 0x48, 0x08],
            &[0x0f, 0x18, 0x0b],
            &[0x0f, 0x1f, 0x00],
            &[0x0f, 0x18, 0x3d, 0x00, 0x00, 0x00, 0x00],
        ];
        let lengths = code.map(|bytes| bytes.len() as u8);
        let block = Block::analyse(0x1000, &lengths, &code.concat(), Reporting::Needed);
        let made: Vec<_> = (block.script.iter())
            .map(|entry| (entry.instruction, entry.prefetch, entry.is_reported()))
            .collect();
        assert_eq!(
            made,
            [
                (0, false, true),
                (1, true, true),
                (2, false, true),
                (3, true, true)
            ]
        );
        assert_eq!(block.script[1].producer, Source::entry(0));
        assert_eq!(block.script[2].producer, Source::entry(0));
        assert_eq!(block.opening, Some(0));
        assert_eq!(block.prefetches.len(), 2);
    }
}
