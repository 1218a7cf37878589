//! Pages of 4 KiB in one of the frames to which they are hashed: of a bucket and some more (Mosaic pages), or by each
//! of several functions (Revelator).

use super::{Built, Place, Placer};
use crate::frames::buddy::{Buddy, PAGEBLOCK_FRAMES};
use crate::frames::preallocate::{preallocate, scatter, used_frames};
use crate::frames::random::{Draw, SplitMix64};
use crate::frames::tag;
use crate::{HashedStatistics, OsConfig, OsConfigError, PagePolicy};
use pagelab_addr::{PageId, PageSize, Pfn};
use pagelab_translation::{Iceberg, Tiers, Yard};
use std::ops::Range;

/// Hashes of pages to frames.
#[derive(Clone, Copy, Debug)]
enum Places {
    Iceberg(Iceberg),
    Tiers(Tiers),
}

impl Places {
    fn frames(&self) -> Range<u32> {
        match self {
            Places::Iceberg(iceberg) => iceberg.frames(),
            Places::Tiers(tiers) => tiers.frames(),
        }
    }

    /// A free frame among the places of a page, and whether it is of the first kind.
    fn place(&self, page: PageId, free: impl Fn(Pfn) -> bool) -> Option<(Pfn, bool)> {
        let key = u64::from(page.0);
        match self {
            Places::Iceberg(iceberg) => {
                let (pfn, yard) = iceberg.place(key, free)?;
                Some((pfn, yard == Yard::Front))
            }
            Places::Tiers(tiers) => {
                let (pfn, function) = tiers.place(key, free)?;
                Some((pfn, function == 0))
            }
        }
    }
}

#[derive(Clone, Debug)]
struct Hashed {
    places: Places,
    statistics: HashedStatistics,
}

impl Hashed {
    fn boxed(places: Places) -> Option<Box<dyn Placer>> {
        Some(Box::new(Hashed {
            places,
            statistics: HashedStatistics::default(),
        }))
    }

    #[cold]
    fn note_conflict(&mut self, buddy: &Buddy) {
        self.statistics.conflicts += 1;
        if self.statistics.conflicts > 1 {
            return;
        }
        let frames = self.places.frames();
        let total = frames.len() as f64;
        let used = frames.filter(|&pfn| !buddy.is_free(Pfn(pfn))).count();
        self.statistics.used_at_first_conflict = Some(used as f64 / total);
    }
}

impl Placer for Hashed {
    fn boxed(&self) -> Box<dyn Placer> {
        Box::new(self.clone())
    }

    /// Takes one of a page's places or, when all of them are in use, any frame. (Mosaic evicts a page from one of its
    /// places then; there is no swap here.)
    fn place(&mut self, memory: &mut Buddy, page: PageId, size: PageSize) -> Place {
        if size != PageSize::Base4K {
            return Place::Anywhere;
        }
        let tag = tag::data(PageSize::Base4K);
        let place = self.places.place(page, |pfn| memory.is_free(pfn));
        let Some((pfn, first)) = place else {
            let Some(pfn) = memory.allocate(0, tag) else {
                return Place::Full;
            };
            self.note_conflict(memory);
            return Place::At(pfn);
        };
        let claimed = memory.claim(pfn, tag);
        debug_assert!(claimed);
        if first {
            self.statistics.front += 1;
        } else {
            self.statistics.back += 1;
        }
        Place::At(pfn)
    }

    fn displace(&mut self, memory: &mut Buddy, page: PageId, size: PageSize) -> Place {
        self.place(memory, page, size)
    }

    fn iceberg(&self) -> Option<Iceberg> {
        match self.places {
            Places::Iceberg(iceberg) => Some(iceberg),
            Places::Tiers(_) => None,
        }
    }

    fn tiers(&self) -> Option<Tiers> {
        match self.places {
            Places::Iceberg(_) => None,
            Places::Tiers(tiers) => Some(tiers),
        }
    }

    fn hashed(&self) -> Option<HashedStatistics> {
        Some(self.statistics)
    }
}

/// Pages hashed to buckets. Frames of the hashed memory are in use as earlier programs of the same kind, and the
/// kernel, would have left them.
pub(super) fn iceberg(config: &OsConfig, seed: u64) -> Result<Built, OsConfigError> {
    let iceberg = Iceberg::new(Pfn(0), hashed_frames(config)).ok_or_else(|| too_little(config))?;
    let mut tags = vec![0; config.frames() as usize];
    let used = used_frames(config);
    let hashed = iceberg.frames().len();
    let share = hashed as f64 / tags.len() as f64;
    let used_hashed = ((f64::from(used) * share).round() as u32).min(hashed as u32);
    fill(&mut tags, used_hashed, config, seed, &iceberg);
    let rest = &mut tags[hashed..];
    let used_rest = (used - used_hashed).min(rest.len() as u32);
    scatter(rest, used_rest, config, seed);
    Ok((tags, Hashed::boxed(Places::Iceberg(iceberg))))
}

/// Pages hashed by several functions.
pub(super) fn tiers(config: &OsConfig, functions: u32, seed: u64) -> Result<Built, OsConfigError> {
    let tiers = Tiers::of_data(hashed_frames(config), functions);
    let tiers = tiers.ok_or_else(|| too_little(config))?;
    let tags = preallocate(config, seed)?;
    Ok((tags, Hashed::boxed(Places::Tiers(tiers))))
}

fn too_little(config: &OsConfig) -> OsConfigError {
    OsConfigError {
        key: "unhashed_share",
        reason: format!(
            "{} of {} bytes leave too little for hashed pages",
            config.unhashed_share, config.memory_bytes
        ),
    }
}

/// The memory over which 4 KiB pages are hashed: all of it, but for the share left to larger
/// pages where there are such. It starts at frame 0.
fn hashed_frames(config: &OsConfig) -> u32 {
    let hashed = match config.page_policy {
        PagePolicy::BASE => config.frames(),
        _ => (f64::from(config.frames()) * (1.0 - config.unhashed_share)).round() as u32,
    };
    hashed & !(PAGEBLOCK_FRAMES - 1)
}

/// Places `used` pages that no program of the run can have.
fn fill(tags: &mut [u8], used: u32, config: &OsConfig, seed: u64, iceberg: &Iceberg) {
    let mut random = SplitMix64(seed);
    let first = random.next();
    let unmovable = (f64::from(used) * config.unmovable_share).round() as u32;
    let mut unmovable_left = Draw::new(unmovable, used);
    // The lowest free frame, where hashing has no place left.
    let mut lowest = 0;
    for page in 0..u64::from(used) {
        let key = 1 << 31 | (first.wrapping_add(page) & ((1 << 31) - 1));
        let place = iceberg.place(key, |pfn| tags[pfn.0 as usize] == 0);
        let pfn = place.map_or_else(
            || {
                while tags[lowest] != 0 {
                    lowest += 1;
                }
                lowest
            },
            |(pfn, _)| pfn.0 as usize,
        );
        tags[pfn] = if unmovable_left.next(&mut random) {
            tag::UNMOVABLE
        } else {
            tag::PREALLOCATED
        };
    }
}
