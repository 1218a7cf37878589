use schemars::JsonSchema;
use serde::{Serialize, Serializer};

/// Sub-buckets of each power of two: a bucket's bounds differ by at most one part in 16.
const SUB_BITS: u32 = 4;

/// Counts of whole numbers, exact below 32 and within 1/16 above.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    sum: u64,
    max: u64,
}

impl Histogram {
    /// Counts a value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        let bucket = bucket(value);
        if bucket >= self.buckets.len() {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
        self.count += 1;
        self.sum += value;
        self.max = self.max.max(value);
    }

    /// Adds another histogram's counts.
    pub fn merge(&mut self, other: &Histogram) {
        if other.buckets.len() > self.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// Values counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Their mean, exact; 0 when there are none.
    pub fn mean(&self) -> f64 {
        if self.count == 0 {
            0.0
        } else {
            self.sum as f64 / self.count as f64
        }
    }

    /// The upper bound of the bucket below which at least `share` of the values lie.
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = (self.count as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bucket, &count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return upper_bound(bucket).min(self.max);
            }
        }
        self.max
    }

    /// The buckets that hold anything, as (largest value, count).
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        self.buckets
            .iter()
            .enumerate()
            .filter(|&(_, &count)| count > 0)
            .map(|(bucket, &count)| (upper_bound(bucket), count))
    }
}

fn bucket(value: u64) -> usize {
    let exponent = value.max(1).ilog2();
    if exponent <= SUB_BITS {
        return value as usize;
    }
    let shift = exponent - SUB_BITS;
    ((shift as usize) << SUB_BITS) + (value >> shift) as usize
}

fn upper_bound(bucket: usize) -> u64 {
    if bucket < 2 << SUB_BITS {
        return bucket as u64;
    }
    let shift = (bucket >> SUB_BITS) as u32 - 1;
    let top = (bucket as u64 & ((1 << SUB_BITS) - 1)) | 1 << SUB_BITS;
    ((top + 1) << shift) - 1
}

/// The result's form of a histogram.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Distribution {
    /// Mean.
    mean: f64,
    /// Median.
    p50: u64,
    /// 90th percentile.
    p90: u64,
    /// 99th percentile.
    p99: u64,
    /// Largest value.
    max: u64,
    /// (largest value, count) of the buckets that hold anything.
    histogram: Vec<(u64, u64)>,
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let distribution = Distribution {
            mean: self.mean(),
            p50: self.quantile(0.5),
            p90: self.quantile(0.9),
            p99: self.quantile(0.99),
            max: self.max,
            histogram: self.buckets().collect(),
        };
        distribution.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn quantiles_are_those_of_the_sorted_values_within_a_sixteenth(
            mut values in proptest::collection::vec(0u64..1 << 40, 1..300),
            share in 0.0f64..1.0,
        ) {
            let mut histogram = Histogram::default();
            for &value in &values {
                histogram.record(value);
            }
            values.sort_unstable();
            let rank = (values.len() as f64 * share).ceil().max(1.0) as usize;
            let exact = values[rank - 1];
            let got = histogram.quantile(share);
            prop_assert!(got >= exact && got - exact <= exact / 16, "{got} for {exact}");
            prop_assert_eq!(histogram.buckets().map(|b| b.1).sum::<u64>(), values.len() as u64);
        }

        #[test]
        fn a_value_lies_in_its_bucket(value in 0u64..1 << 50) {
            let bucket = bucket(value);
            prop_assert!(value <= upper_bound(bucket));
            prop_assert!(bucket == 0 || value > upper_bound(bucket - 1));
        }
    }
}
