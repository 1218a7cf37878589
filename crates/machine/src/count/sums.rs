//! Counts that add up: one by one over windows and cores.

use pagelab_cpu::Stalls;
use pagelab_memory::BankCounts;

/// Counts that are combined one by one.
pub(crate) trait Sums: Copy {
    fn zip(&self, other: &Self, f: &impl Fn(u64, u64) -> u64) -> Self;

    /// Difference to an earlier moment.
    fn since(&self, earlier: &Self) -> Self {
        self.zip(earlier, &|now, then| now - then)
    }

    /// Both together.
    fn and(&self, other: &Self) -> Self {
        self.zip(other, &|a, b| a + b)
    }
}

impl Sums for u64 {
    fn zip(&self, other: &Self, f: &impl Fn(u64, u64) -> u64) -> Self {
        f(*self, *other)
    }
}

impl<T: Sums, const N: usize> Sums for [T; N] {
    fn zip(&self, other: &Self, f: &impl Fn(u64, u64) -> u64) -> Self {
        std::array::from_fn(|i| self[i].zip(&other[i], f))
    }
}

/// Implements [`Sums`] for a struct, all of whose fields have to be named.
macro_rules! impl_sums {
    ($name:ident { $($field:ident),* $(,)? }) => {
        impl $crate::count::sums::Sums for $name {
            fn zip(&self, other: &Self, f: &impl Fn(u64, u64) -> u64) -> Self {
                $name { $($field: $crate::count::sums::Sums::zip(&self.$field, &other.$field, f)),* }
            }
        }
    };
}

/// Declares a struct of counts, which windows and the sum over cores then have without more.
macro_rules! sums {
    (
        $(#[$about:meta])*
        $seen:vis struct $name:ident { $($(#[$of:meta])* $field_seen:vis $field:ident: $type:ty),* $(,)? }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, serde::Serialize)]
        $seen struct $name { $($(#[$of])* $field_seen $field: $type),* }

        $crate::count::sums::impl_sums!($name { $($field),* });
    };
}

pub(crate) use {impl_sums, sums};

impl_sums!(Stalls {
    data,
    translation,
    mispredictions,
    fetch,
    faults,
    migrations
});
impl_sums!(BankCounts {
    hits,
    conflicts,
    waited
});
