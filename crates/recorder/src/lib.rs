//! Runs a program under QEMU and records what it does to memory.
