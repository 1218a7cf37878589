use super::config::RevelatorConfig;
use pagelab_translation::Tiers;

/// Hash functions that are worth a guess: all until a window of walks has ended, and then those
/// that named enough of the frames that the walks of the last one found.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    functions: u32,
    /// `None` lets everything through.
    least: Option<f64>,
    window: u32,
    walks: u32,
    /// Walks of this window whose frame each function named.
    named: [u32; Tiers::MAX_FUNCTIONS as usize],
    /// As a bit each.
    worth: u32,
}

impl Filter {
    pub(super) fn new(config: &RevelatorConfig) -> Self {
        Filter {
            functions: config.functions,
            least: config.filtered.then_some(config.least_share),
            window: config.window,
            walks: 0,
            named: Default::default(),
            worth: (1 << config.functions) - 1,
        }
    }

    /// The functions that are worth a guess, in the order in which frames are tried.
    pub(super) fn worth(&self) -> impl Iterator<Item = u32> + use<> {
        let worth = self.worth;
        (0..self.functions).filter(move |function| worth & 1 << function != 0)
    }

    /// A walk has found a frame, which this function names, if one does.
    pub(super) fn found(&mut self, function: Option<u32>) {
        let Some(least) = self.least else {
            return;
        };
        if let Some(function) = function {
            self.named[function as usize] += 1;
        }
        self.walks += 1;
        if self.walks < self.window {
            return;
        }
        let enough = |&named: &u32| f64::from(named) >= least * f64::from(self.window);
        let bit = |(function, named): (u32, &u32)| u32::from(enough(named)) << function;
        self.worth = (0..self.functions).zip(&self.named).map(bit).sum();
        self.walks = 0;
        self.named = Default::default();
    }
}
