//! System calls about memory, eager placement of what they map, and memory that an event says was touched.

mod code;
mod control;
mod eager;
mod fork;
mod remap;
mod touched;
