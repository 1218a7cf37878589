//! The whole machine, from a configuration and a stream of events to its statistics.

mod awkward;
mod by_code;
mod coherence;
mod common;
mod configuration;
mod documented;
mod fetch;
mod fetch_twin;
mod free_clock;
mod golden;
mod heat_map;
mod known_times;
mod nodes;
mod others;
mod pieces;
mod pom_tlb;
mod presets;
mod programs;
mod revelator;
mod same_bits;
mod shootdowns;
mod tiers;
mod tlb_prefetch;
mod victima;
mod walks_enter;
mod windows;
