//! Units of memory in the lists: when they come, change and go.

use super::Reclaim;
use super::lru::Kind;
use crate::frames::frame_table::{FrameTable, data_size};
use crate::frames::tag;
use pagelab_addr::{PageSize, Pfn};

impl FrameTable {
    /// Order of the unit that begins at a frame.
    pub(crate) fn unit_order(&self, head: Pfn) -> u32 {
        let tag = self.buddy.tag(head);
        tag::folio_order(tag)
            .or_else(|| data_size(tag).map(PageSize::order))
            .unwrap_or(0)
    }

    /// Size of the entries that map a frame of a unit.
    pub(super) fn size_of_entries(&self, pfn: Pfn) -> PageSize {
        data_size(self.buddy.tag(pfn)).unwrap_or(PageSize::Base4K)
    }

    /// Adds a unit that was just mapped to the lists.
    pub(crate) fn list(&mut self, head: Pfn, order: u32) {
        if let Some(reclaim) = &mut self.reclaim {
            reclaim.lru.add(head, 1 << order, Kind::Anonymous);
        }
    }

    /// Notes that a page maps a unit, as the first one or not.
    #[cold]
    pub(crate) fn note_added(&mut self, head: Pfn, first: bool) {
        if first {
            self.list(head, self.unit_order(head));
        }
        self.note_accessed(head);
    }

    /// Notes that a page is a file's or of shared memory, which is anonymous, and whether it is code.
    #[inline]
    pub(crate) fn list_as_slot(&mut self, pfn: Pfn, is_file: bool, is_code: bool) {
        if let Some(reclaim) = &mut self.reclaim {
            let kind = if is_file { Kind::File } else { Kind::Anonymous };
            reclaim.lru.add(pfn, 1, kind);
            if is_code {
                reclaim.lru.note_executable(pfn);
            }
        }
    }

    /// Takes a unit off the lists, before it is free.
    #[inline]
    pub(crate) fn unlist(&mut self, head: Pfn, order: u32) {
        if let Some(reclaim) = &mut self.reclaim {
            reclaim.lru.remove(head, 1 << order);
            if let Some(queue) = &mut reclaim.split_queue {
                queue.remove(head, order);
            }
        }
    }

    /// Lists the pages of a folio one by one, before it is parted.
    pub(crate) fn list_parts(&mut self, head: Pfn, order: u32) {
        let Some(reclaim) = &mut self.reclaim else {
            return;
        };
        if let Some(queue) = &mut reclaim.split_queue {
            queue.remove(head, order);
        }
        let Some(list) = reclaim.lru.remove(head, 1 << order) else {
            return;
        };
        let free = reclaim.lru.is_lazily_free(head);
        let used = reclaim.lru.set_referenced(head, false);
        for pfn in (head.0..head.0 + (1 << order)).map(Pfn) {
            reclaim.lru.put(pfn, 1, list);
            reclaim.lru.set_lazily_free(pfn, free);
            reclaim.lru.set_referenced(pfn, used);
        }
    }

    /// Kind of a unit that is in a list.
    pub(super) fn listed_kind(&self, head: Pfn) -> Option<Kind> {
        self.reclaim.as_ref()?.lru.kind(head)
    }

    /// Has a unit be neither active nor used (`folio_deactivate`).
    pub(super) fn make_cold(&mut self, pfn: Pfn) {
        let order = self.unit_order(pfn);
        let head = Pfn(pfn.0 & !((1 << order) - 1));
        if self.is_lazily_free(head) {
            self.is_still_free(head, order);
        }
        let Some(kind) = self.listed_kind(head) else {
            return;
        };
        if let Some(reclaim) = &mut self.reclaim {
            reclaim.lru.take_accessed(head, order);
            reclaim.lru.set_referenced(head, false);
            reclaim.lru.cool(head, 1 << order, kind);
        }
    }

    /// Notes that a unit has moved.
    pub(crate) fn list_moved(&mut self, from: Pfn, to: Pfn) {
        if let Some(reclaim) = &mut self.reclaim {
            reclaim.lru.moved(from, to);
            if let Some(queue) = &mut reclaim.split_queue {
                queue.moved(from, to);
            }
        }
    }

    #[inline]
    pub(crate) fn note_accessed(&mut self, pfn: Pfn) {
        if let Some(reclaim) = &mut self.reclaim {
            reclaim.lru.note_accessed(pfn);
        }
    }

    /// True if programs may have so many frames more.
    #[inline]
    pub(crate) fn has_room(&self, frames: u32) -> bool {
        let limits = self.reclaim.as_deref();
        limits.is_none_or(|reclaim| self.is_within(reclaim, frames))
    }

    fn is_within(&self, reclaim: &Reclaim, frames: u32) -> bool {
        let used = self.data_frames() + self.table_frames();
        let free = self.buddy.free_frames();
        used + frames <= reclaim.max && free >= frames + reclaim.marks.min
    }
}
