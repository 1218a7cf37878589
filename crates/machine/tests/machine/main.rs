//! The whole machine, from a configuration and a stream of events to its statistics.

mod common;
mod configuration;
mod golden;
mod known_times;
mod nodes;
mod programs;
mod same_bits;
mod tiers;
mod walks_enter;
mod windows;
