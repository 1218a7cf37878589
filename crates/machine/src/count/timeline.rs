use crate::count::result::Sample;

/// Samples kept at the most; when there are more, every other one goes and the interval doubles.
const SAMPLES: usize = 400;

/// The run over time, at an interval that fits its length: samples are taken after multiples of
/// `interval` accesses exactly, so that they do not depend on how the stream is cut.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    samples: Vec<Sample>,
    interval: u64,
    next: u64,
}

impl Default for Timeline {
    fn default() -> Self {
        Timeline {
            samples: vec![Sample::default()],
            interval: FIRST_INTERVAL,
            next: FIRST_INTERVAL,
        }
    }
}

const FIRST_INTERVAL: u64 = 1 << 12;

impl Timeline {
    /// The number of accesses after which the next sample is to be taken.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    pub(crate) fn push(&mut self, sample: Sample) {
        self.samples.push(sample);
        if self.samples.len() == SAMPLES {
            let mut index = 0;
            self.samples.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.interval *= 2;
        }
        self.next = self.samples.len() as u64 * self.interval;
    }

    /// All samples and the run's end.
    pub(crate) fn finish(mut self, last: Sample) -> Vec<Sample> {
        if self.samples.last() != Some(&last) {
            self.samples.push(last);
        }
        self.samples
    }
}
