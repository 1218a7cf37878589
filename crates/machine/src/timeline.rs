use crate::result::Sample;

/// Samples kept at the most; when there are more, every other one goes and the interval doubles.
const SAMPLES: usize = 400;

/// The run over time, at an interval that fits its length.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    samples: Vec<Sample>,
    interval: u64,
    next: u64,
}

impl Default for Timeline {
    fn default() -> Self {
        Timeline {
            samples: Vec::new(),
            interval: 1 << 12,
            next: 0,
        }
    }
}

impl Timeline {
    /// Whether a sample is due after so many accesses.
    #[inline]
    pub(crate) fn due(&self, accesses: u64) -> bool {
        accesses >= self.next
    }

    pub(crate) fn push(&mut self, accesses: u64, sample: Sample) {
        if self.samples.len() == SAMPLES {
            let mut index = 0;
            self.samples.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.interval *= 2;
        }
        self.samples.push(sample);
        self.next = accesses + self.interval;
    }

    /// All samples and the run's end.
    pub(crate) fn finish(mut self, last: Sample) -> Vec<Sample> {
        if self.samples.last() != Some(&last) {
            self.samples.push(last);
        }
        self.samples
    }
}
