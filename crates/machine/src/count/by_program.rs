//! State for each of the programs that share a machine.

use pagelab_events::{CodeBlock, Definition};

/// State of a program, by its number; the default if it is new.
pub(crate) fn of_program<T: Default>(all: &mut Vec<T>, program: usize) -> &mut T {
    if all.len() <= program {
        all.resize_with(program + 1, T::default);
    }
    &mut all[program]
}

/// Hands each block of code that a program defines to what is kept of it.
pub(crate) fn define_blocks<T: Default>(
    all: &mut Vec<T>,
    program: usize,
    definitions: &[Definition],
    mut define: impl FnMut(&mut T, &CodeBlock),
) {
    let kept = of_program(all, program);
    for definition in definitions {
        if let Definition::Block(block) = definition {
            define(kept, block);
        }
    }
}
