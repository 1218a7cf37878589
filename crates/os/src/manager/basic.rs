//! The `basic` manager: pages of 4 KiB from a list filled at boot, as basicmfs in `linux/modules` has them.

use super::{About, Manager, Run};
use crate::OsConfigError;
use crate::frames::buddy::Buddy;
use crate::frames::tag;
use pagelab_addr::{PAGE_SHIFT, Pfn, parse_quantity};

pub(super) const ABOUT: About = (
    "basic",
    "4K pages from a list filled at boot, size=50% of what is free: private memory only (basicmfs)",
);

pub(super) fn default_size() -> String {
    "50%".to_owned()
}

/// The list (`struct mfs_pool`), which gives what came back last.
#[derive(Clone, Debug)]
pub(super) struct Basic {
    free: Vec<Pfn>,
    /// By frame: it is the list's, free or not.
    own: Vec<bool>,
}

impl Basic {
    /// Takes the pages of the list one by one (`mfs_pool_fill`).
    pub(super) fn new(size: &str, memory: &mut Buddy) -> Result<Self, OsConfigError> {
        let refuse = |reason| OsConfigError {
            key: "manager.size",
            reason,
        };
        let nr = pages(size, memory.free_frames()).ok_or_else(|| {
            refuse(format!(
                "{size:?} is neither an amount of memory nor a share of it"
            ))
        })?;
        let mut basic = Basic {
            free: Vec::new(),
            own: vec![false; memory.count() as usize],
        };
        for _ in 0..nr {
            let pfn = memory.allocate(0, tag::RESTRICTED);
            let pfn =
                pfn.ok_or_else(|| refuse(format!("{size} is more than the machine has free")))?;
            basic.own[pfn.0 as usize] = true;
            basic.free.push(pfn);
        }
        Ok(basic)
    }
}

/// Pages of an amount (`512MiB`) or of a share (`50%`) of so many (`mfs_parse_size`).
fn pages(size: &str, all: u32) -> Option<u64> {
    let pages = match size.strip_suffix('%') {
        Some(percent) => {
            let percent: u64 = percent.parse().ok()?;
            (percent <= 100).then_some(u64::from(all) * percent / 100)?
        }
        None => parse_quantity(size)? >> PAGE_SHIFT,
    };
    (pages > 0).then_some(pages)
}

impl Manager for Basic {
    fn boxed(&self) -> Box<dyn Manager> {
        Box::new(self.clone())
    }

    fn is_file_system(&self) -> bool {
        true
    }

    fn alloc(&mut self, memory: &mut Buddy, run: &mut Run) -> Option<Pfn> {
        let pfn = self.free.pop()?;
        memory.set_tag(pfn, 0, tag::data_of(0));
        *run = Run { nr: 1, order: 0 };
        Some(pfn)
    }

    fn free(&mut self, memory: &mut Buddy, head: Pfn, order: u32) {
        if self.own[head.0 as usize] {
            memory.set_tag(head, 0, tag::RESTRICTED);
            self.free.push(head);
        } else {
            memory.free(head, order);
        }
    }

    fn moved(&mut self, from: Pfn, to: Pfn) {
        self.own.swap(from.0 as usize, to.0 as usize);
    }

    fn set_aside(&self) -> u32 {
        self.free.len() as u32
    }
}

/// The tests of linux/modules/basicmfs/basicmfs_kunit.c, by their names.
#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: usize = 8;

    fn basic() -> (Buddy, Basic) {
        let mut memory = Buddy::new(vec![0; 4096], &[0], 10);
        let basic = Basic::new("32KiB", &mut memory).unwrap();
        assert_eq!(memory.free_frames(), 4096 - PAGES as u32);
        (memory, basic)
    }

    fn page(memory: &mut Buddy, basic: &mut Basic) -> Option<Pfn> {
        basic.alloc(memory, &mut Run { nr: 1, order: 0 })
    }

    #[test]
    fn all_and_no_more() {
        let (mut memory, mut basic) = basic();
        let mut pages = Vec::new();
        for left in (0..PAGES).rev() {
            let mut run = Run { nr: 100, order: 9 };
            let pfn = basic.alloc(&mut memory, &mut run).unwrap();
            assert_eq!((run.nr, run.order), (1, 0));
            assert!(!pages.contains(&pfn));
            assert!(!memory.is_free(pfn));
            pages.push(pfn);
            assert_eq!(basic.set_aside(), left as u32);
        }
        assert_eq!(page(&mut memory, &mut basic), None);
        for pfn in pages {
            basic.free(&mut memory, pfn, 0);
        }
        assert_eq!(basic.set_aside(), PAGES as u32);
        assert_eq!(memory.free_frames(), 4096 - PAGES as u32);
    }

    #[test]
    fn last_in_first_out() {
        let (mut memory, mut basic) = basic();
        let pages: Vec<Pfn> = (0..PAGES)
            .map(|_| page(&mut memory, &mut basic).unwrap())
            .collect();
        let order = [3, 0, 7, 5];
        for &at in &order {
            basic.free(&mut memory, pages[at], 0);
        }
        for &at in order.iter().rev() {
            assert_eq!(page(&mut memory, &mut basic), Some(pages[at]));
        }
        assert_eq!(page(&mut memory, &mut basic), None);
    }

    #[test]
    fn sizes() {
        for (size, expected) in [
            ("50%", Some(512)),
            ("100%", Some(1024)),
            ("64KiB", Some(16)),
            ("1MiB", Some(256)),
            ("101%", None),
            ("0", None),
            ("0%", None),
            ("much", None),
            ("%", None),
        ] {
            assert_eq!(pages(size, 1024), expected, "{size}");
        }
        // A share is of what is free: here three quarters of 4,096 pages.
        let tags = (0..4096).map(|pfn| u8::from(pfn < 1024));
        let mut memory = Buddy::new(tags.collect(), &[0], 10);
        let basic = Basic::new("50%", &mut memory).unwrap();
        assert_eq!(basic.set_aside(), 1536);
        assert!(Basic::new("17MiB", &mut memory).is_err());
    }
}
