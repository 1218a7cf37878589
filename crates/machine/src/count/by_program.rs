//! State for each of the programs that share a machine.

/// State of a program, by its number; the default if it is new.
pub(crate) fn of_program<T: Default>(all: &mut Vec<T>, program: usize) -> &mut T {
    if all.len() <= program {
        all.resize_with(program + 1, T::default);
    }
    &mut all[program]
}
