//! Joint effect of several blocks that are executed one after the other.

use pagelab_recorder_wire::block::{AddressFrom, Block, REGISTERS, Source};

/// The blocks, executed one after the other, as one.
pub(crate) fn joined<'a>(blocks: impl IntoIterator<Item = &'a Block>) -> Block {
    let mut whole = Block::default();
    // Source of each register's value, as there was at the beginning.
    let mut registers: [Source; REGISTERS] = std::array::from_fn(Source::register);
    for block in blocks {
        let first = whole.script.len() as u16;
        let behind = |source: Source, registers: &[Source; REGISTERS]| {
            let own = Source {
                entries: source.entries.map(|entry| Some(entry? + first)),
                registers: 0,
            };
            (registers.iter().enumerate())
                .filter(|(register, _)| source.registers & 1 << register != 0)
                .fold(own, |all, (_, &source)| all.or(source))
        };
        if first == 0 && whole.instructions == 0 {
            whole.pc = block.pc;
        }
        for entry in &block.script {
            let mut entry = *entry;
            entry.instruction += whole.instructions as u16;
            entry.producer = behind(entry.producer, &registers);
            entry.stored = behind(entry.stored, &registers);
            if let AddressFrom::Relative { entry, .. } = &mut entry.place {
                *entry += first;
            }
            whole.script.push(entry);
        }
        whole.branch = block.branch.map(|mut branch| {
            branch.decided_by = behind(branch.decided_by, &registers);
            branch
        });
        let before = registers;
        for &(register, source) in &block.updates {
            registers[usize::from(register)] = behind(source, &before);
        }
        whole.last_pc = block.last_pc;
        whole.instructions += block.instructions;
    }
    whole.updates = (0..REGISTERS as u8)
        .zip(registers)
        .filter(|&(register, source)| source != Source::register(register.into()))
        .collect();
    whole
}
