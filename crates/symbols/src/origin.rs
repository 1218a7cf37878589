use schemars::JsonSchema;
use serde::Serialize;

/// Origin of an instruction, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Origin {
    /// The file that it was mapped from, `[kernel]` for a guest's kernel; `None` for code that a program has made
    /// itself, whose function and line are then what the program says.
    pub object: Option<String>,
    /// Its function, or the function whose copy it is in where that was inlined; the file's name and the function's
    /// address in it (`libc.so.6+0x2a1f0`) where it has no name.
    pub function: Option<String>,
    /// The functions that this one was inlined into, the innermost first.
    pub inlined_into: Vec<String>,
    /// The file of its source.
    pub file: Option<String>,
    /// The line in it.
    pub line: Option<u32>,
}
