//! Page sizes: which a fault may map, and when pages of 4 KiB become one of 2 MiB.
//!
//! A policy is a file of this folder that implements [`PageSizePolicy`]; [`PagePolicy`] names it and
//! [`build`] makes it. Pages that khugepaged makes later are of the sizes that faults may map, too.

mod blocks;
mod config;
mod linux;
mod reservations;
mod reserved;

pub use config::{PagePolicy, UnknownPagePolicy};

use crate::spaces::vma::Vma;
use pagelab_addr::PageSize;
use std::fmt::Debug;

/// Sizes of pages, as bits of their orders: bit 0 for 4 KiB, bit 9 for 2 MiB.
pub(crate) type Orders = u32;

/// The bit of 2 MiB.
pub(crate) const HUGE: Orders = 1 << PageSize::Large2M.order();

/// A page-size policy at work.
pub(crate) trait PageSizePolicy: Debug + Send {
    /// Another at the same point.
    fn boxed(&self) -> Box<dyn PageSizePolicy>;

    /// Sizes above 4 KiB that a fault in private memory may map. The largest is taken that the VMA covers, where
    /// nothing is mapped yet and a block is free.
    fn orders(&self, vma: &Vma) -> Orders;

    /// Order of the largest pages that it is about, whose blocks are counted by what they got; `None` for 4 KiB only.
    fn largest(&self) -> Option<u32>;

    /// True if a page of 4 KiB lies in its place of a block of 2 MiB that is reserved for its region.
    fn reserves(&self) -> bool {
        false
    }

    /// True if a reserved block of which so many pages are used becomes one page now. Those not used are zeroed.
    fn promotes(&mut self, _used: u32) -> bool {
        false
    }
}

/// A policy, and what it says once and for all: each fault asks.
#[derive(Debug)]
pub(crate) struct PageSizes {
    policy: Box<dyn PageSizePolicy>,
    largest: Option<u32>,
    reserves: bool,
}

impl PageSizes {
    /// See [`PageSizePolicy::orders`].
    #[inline]
    pub(crate) fn orders(&self, vma: &Vma) -> Orders {
        self.policy.orders(vma)
    }

    /// See [`PageSizePolicy::largest`].
    #[inline]
    pub(crate) fn largest(&self) -> Option<u32> {
        self.largest
    }

    /// The largest size that it is about, if page tables have entries of that size.
    #[inline]
    pub(crate) fn largest_entry(&self) -> Option<PageSize> {
        let order = self.largest?;
        PageSize::ALL
            .into_iter()
            .find(|size| *size != PageSize::Base4K && size.order() == order)
    }

    /// The size of the pieces in which memory appears that no event announced.
    pub(crate) fn implicit_unit(&self) -> PageSize {
        match self.largest_entry() {
            Some(PageSize::Huge1G) => PageSize::Huge1G,
            _ => PageSize::Large2M,
        }
    }

    /// See [`PageSizePolicy::reserves`].
    #[inline]
    pub(crate) fn reserves(&self) -> bool {
        self.reserves
    }

    /// See [`PageSizePolicy::promotes`].
    pub(crate) fn promotes(&mut self, used: u32) -> bool {
        self.policy.promotes(used)
    }
}

impl Clone for PageSizes {
    fn clone(&self) -> Self {
        PageSizes {
            policy: self.policy.boxed(),
            ..*self
        }
    }
}

/// The policy of a name.
pub(crate) fn build(policy: PagePolicy) -> PageSizes {
    let policy: Box<dyn PageSizePolicy> = match policy {
        PagePolicy::Linux { always, madvise } => Box::new(linux::Linux { always, madvise }),
        PagePolicy::Reserved { promotes_at } => Box::new(reserved::Reserved { promotes_at }),
    };
    PageSizes {
        largest: policy.largest(),
        reserves: policy.reserves(),
        policy,
    }
}
