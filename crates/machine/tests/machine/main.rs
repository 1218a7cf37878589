//! The whole machine, from a configuration and a stream of events to its statistics.

mod by_code;
mod coherence;
mod common;
mod configuration;
mod fetch;
mod fetch_twin;
mod free_clock;
mod golden;
mod known_times;
mod nodes;
mod pieces;
mod presets;
mod programs;
mod same_bits;
mod shootdowns;
mod tiers;
mod victima;
mod walks_enter;
mod windows;
