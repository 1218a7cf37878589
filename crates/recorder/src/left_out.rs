//! Parts of a thread that no window takes.

use pagelab_events::Control;

/// Instructions and accesses of a thread that were left out since its last recorded access, and not
/// been said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftOut {
    pub(crate) instructions: u64,
    pub(crate) accesses: u64,
    /// Some of it has been said.
    pub(crate) begun: bool,
}

impl LeftOut {
    pub(crate) fn add(&mut self, more: LeftOut) {
        self.instructions += more.instructions;
        self.accesses += more.accesses;
    }

    /// The event that says so, if there is something to say.
    pub(crate) fn take(&mut self) -> Option<Control> {
        let LeftOut {
            instructions,
            accesses,
            begun,
        } = std::mem::take(self);
        let any = instructions > 0 || accesses > 0;
        self.begun = begun || any;
        any.then_some(Control::Skipped {
            instructions,
            accesses,
        })
    }
}
