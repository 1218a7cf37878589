//! Fallback between migrate types, as in mm/page_alloc.c (Linux 6.12): a type that has no free block left takes
//! pageblocks of the other one, whole ones if it can, and otherwise frames (`__rmqueue_claim`, `__rmqueue_steal`).

use super::{UNMOVABLE, type_of};
use crate::frames::buddy::{Buddy, NONE, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER, is_free_tag};
use pagelab_addr::Pfn;

/// True if a type may take a whole pageblock for the sake of a free block of this order (`can_steal_fallback`).
fn may_claim(order: u32, migrate_type: usize) -> bool {
    order >= PAGEBLOCK_ORDER / 2 || migrate_type == UNMOVABLE
}

impl Buddy {
    /// Takes a block for a use of pages: first without mixing types in a pageblock, which zones of other nodes are not
    /// asked for (`ALLOC_NOFRAGMENT` in `get_page_from_freelist`).
    pub(super) fn allocate_by_mobility(&mut self, node: usize, order: u32, tag: u8) -> Option<Pfn> {
        let zones = self.zonelists[node].len();
        let home = |buddy: &Buddy, zone: usize| buddy.node_of(Pfn(buddy.zones[zone].start)) == node;
        for mixes in [false, true] {
            for place in 0..zones {
                let zone = self.zonelists[node][place];
                if !mixes && !home(self, zone) {
                    break;
                }
                let found = self.allocate_in(zone, order, tag, mixes);
                if found.is_some() {
                    return found;
                }
            }
        }
        None
    }

    /// `__rmqueue`.
    fn allocate_in(&mut self, zone: usize, order: u32, tag: u8, mixes: bool) -> Option<Pfn> {
        self.smallest(zone, order, type_of(tag), tag)
            .or_else(|| self.claim_pageblock(zone, order, tag, mixes))
            .or_else(|| mixes.then(|| self.steal(zone, order, tag)).flatten())
    }

    /// Takes 2 MiB or more from the other type, and of it what is wanted (`__rmqueue_claim`). If types `mix`, a
    /// pageblock of which half is free or of the right type will do (`try_to_steal_block`).
    fn claim_pageblock(&mut self, zone: usize, order: u32, tag: u8, mixes: bool) -> Option<Pfn> {
        let migrate_type = type_of(tag);
        let least = if mixes {
            order
        } else {
            order.max(PAGEBLOCK_ORDER)
        };
        for from in (least..=self.max_order).rev() {
            let pfn = self.zones[zone].heads[from as usize][1 - migrate_type];
            if pfn == NONE {
                continue;
            }
            if !may_claim(from, migrate_type) {
                break;
            }
            if from >= PAGEBLOCK_ORDER {
                self.unlink(zone, pfn, from);
                self.set_type(pfn, from, migrate_type);
                self.take_half(zone, pfn, from, order, tag);
                self.note(|counts| counts.claimed += 1 << (from - PAGEBLOCK_ORDER));
                return Some(Pfn(pfn));
            }
            let block = pfn & !(PAGEBLOCK_FRAMES - 1);
            if self.suits(zone, block, migrate_type) {
                self.move_pageblock(zone, block, migrate_type);
                self.note(|counts| counts.claimed += 1);
                return self.smallest(zone, order, migrate_type, tag);
            }
        }
        None
    }

    /// True if half of a pageblock is free or of a type.
    fn suits(&self, zone: usize, block: u32, migrate_type: usize) -> bool {
        if block + PAGEBLOCK_FRAMES > self.zones[zone].end {
            return false;
        }
        let tags = &self.tags[block as usize..(block + PAGEBLOCK_FRAMES) as usize];
        let suits = |&&tag: &&u8| is_free_tag(tag) || type_of(tag) == migrate_type;
        tags.iter().filter(suits).count() as u32 >= PAGEBLOCK_FRAMES / 2
    }

    /// Takes frames out of a pageblock of the other type (`__rmqueue_steal`).
    fn steal(&mut self, zone: usize, order: u32, tag: u8) -> Option<Pfn> {
        let found = self.smallest(zone, order, 1 - type_of(tag), tag);
        self.note(|counts| counts.stolen += u64::from(found.is_some()));
        found
    }
}
