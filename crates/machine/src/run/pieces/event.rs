//! Events that may change the memory of a stream.

use pagelab_addr::Vpn;
use pagelab_events::Control;

/// An event that may change the memory of a stream, after so many of its accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) after: u64,
    pub(super) process: u32,
    pub(super) what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Control(Control),
    /// The next access is to a page that may not be mapped, or not writable.
    Touch {
        vpn: Vpn,
        store: bool,
    },
    /// The next instruction is in a page that may not be mapped. Of no account where none are fetched.
    Fetch {
        vpn: Vpn,
    },
}
