use crate::accounting::Accounting;
use crate::compaction::Compaction;
use crate::frames::buddy::Buddy;
use crate::frames::folios::Folios;
use crate::frames::rmap::{NO_OWNER, Owner, OwnerLists};
use crate::frames::tag;
use crate::manager::{Manager, Run};
use crate::placement::{Place, Placer};
use crate::reclaim::Reclaim;
use crate::spaces::shared_memory::{ObjectId, SharedMemory};
use pagelab_addr::{Asid, PageId, PageSize, Pfn};
use pagelab_translation::Page;

/// The mapping count shares its word with this flag: the block is held by a slot of an object.
const IN_SLOT: u32 = 1 << 31;
/// And with this one: a fork has shared the block, and nobody was seen to have it alone since (not
/// `PageAnonExclusive`).
const FORKED: u32 = 1 << 30;
/// And with this one: the block is a page of a folio, or one, in [`Folios`].
pub(crate) const IN_FOLIO: u32 = 1 << 29;
/// The mapping count by itself.
const COUNT: u32 = IN_FOLIO - 1;

/// The frame table: what each frame is used for and, for data, which pages map it.
///
/// The first frame of each block of data keeps two words: its owners (see rmap.rs) and how
/// many pages map it.
#[derive(Clone, Debug)]
pub struct FrameTable {
    pub(crate) buddy: Buddy,
    owners: OwnerLists,
    pub(crate) folios: Folios,
    /// Large folios stay whole when entries of 4 KiB map them.
    pub(crate) keeps_folios: bool,
    pub(crate) shared: SharedMemory,
    /// `None` for any free frame.
    pub(crate) placer: Option<Box<dyn Placer>>,
    manager: Box<dyn Manager>,
    /// The manager has private anonymous memory only.
    is_file_system: bool,
    /// Pages by their last use, where they leave when memory is short.
    pub(crate) reclaim: Option<Box<Reclaim>>,
    pub(crate) compaction: Compaction,
    /// Blocks of zeros, of 4 KiB and of 2 MiB, for memory that was only read. Nobody keeps a list of
    /// who maps them.
    zeros: [Option<Pfn>; 2],
    /// The block that is being mapped: like a locked folio it stays where it is.
    pub(crate) pinned: Option<(Pfn, u32)>,
    pub(crate) data_frames: u32,
    peak_data_frames: u32,
    pub(crate) table_frames: u32,
    peak_table_frames: u32,
    preallocated_frames: u32,
}

impl FrameTable {
    pub(crate) fn new(
        buddy: Buddy,
        placer: Option<Box<dyn Placer>>,
        manager: Box<dyn Manager>,
        folios: Option<Accounting>,
        reclaim: Option<Reclaim>,
    ) -> Self {
        let restricted =
            placer.as_ref().map_or(0, |placer| placer.set_aside()) + manager.set_aside();
        FrameTable {
            preallocated_frames: buddy.count() - buddy.free_frames() - restricted,
            buddy,
            owners: OwnerLists::new(),
            folios: Folios::new(folios.unwrap_or_default()),
            keeps_folios: folios.is_some(),
            shared: SharedMemory::default(),
            placer,
            is_file_system: manager.is_file_system(),
            manager,
            reclaim: reclaim.map(Box::new),
            compaction: Compaction::default(),
            zeros: [None; 2],
            pinned: None,
            data_frames: 0,
            peak_data_frames: 0,
            table_frames: 0,
            peak_table_frames: 0,
        }
    }

    /// The free frames behind it.
    pub fn buddy(&self) -> &Buddy {
        &self.buddy
    }

    /// Frames that hold data of the simulated processes.
    pub fn data_frames(&self) -> u32 {
        self.data_frames
    }

    /// The most that [`FrameTable::data_frames`] ever was.
    pub fn peak_data_frames(&self) -> u32 {
        self.peak_data_frames
    }

    /// The same by node.
    pub fn data_frames_by_node(&self) -> Vec<u32> {
        let mut frames = vec![0; self.buddy.nodes()];
        for pfn in (0..self.buddy.count()).map(Pfn) {
            if data_size(self.buddy.tag(pfn)).is_some() {
                frames[self.buddy.node_of(pfn)] += 1;
            }
        }
        frames
    }

    /// Frames that hold page tables.
    pub fn table_frames(&self) -> u32 {
        self.table_frames
    }

    /// The most that [`FrameTable::table_frames`] ever was, within operations, too: where a table is
    /// rehashed there are the old and the new one.
    pub fn peak_table_frames(&self) -> u32 {
        self.peak_table_frames
    }

    pub(crate) fn count_tables(&mut self, frames: u32) {
        self.table_frames += frames;
        self.peak_table_frames = self.peak_table_frames.max(self.table_frames);
    }

    /// Frames that were in use before the programs started.
    pub fn preallocated_frames(&self) -> u32 {
        self.preallocated_frames
    }

    /// True if a frame was in use before the programs started (or has taken over from one that was,
    /// which a page table wanted).
    pub fn is_preallocated(&self, pfn: Pfn) -> bool {
        matches!(self.buddy.tag(pfn), tag::PREALLOCATED | tag::UNMOVABLE)
    }

    /// The block of zeros of a size, from the first time that it is wanted; it belongs to the kernel.
    /// There is none of 1 GiB.
    pub(crate) fn zeros(&mut self, size: PageSize) -> Option<Pfn> {
        let of_size = *self.zeros.get(size as usize)?;
        if of_size.is_none() {
            let pfn = self.buddy.allocate(size.order(), tag::UNMOVABLE)?;
            *self.buddy.words_mut(pfn) = [NO_OWNER, 0];
            self.preallocated_frames += size.base_pages();
            self.zeros[size as usize] = Some(pfn);
        }
        self.zeros[size as usize]
    }

    /// True if a block of zeros starts at a frame.
    #[inline]
    pub fn is_zeros(&self, head: Pfn) -> bool {
        self.zeros.contains(&Some(head))
    }

    /// The pages that map the block of data around a frame: of each the first base page.
    pub fn owners(&self, pfn: Pfn) -> Vec<PageId> {
        let Some((head, _)) = self.data_block(pfn) else {
            return Vec::new();
        };
        let pages = self.owners.iter(self.buddy.words(head)[0]);
        pages
            .filter_map(|owner| match owner {
                Owner::Page(id) => Some(id),
                Owner::Slot(_) => None,
            })
            .collect()
    }

    /// The slot of a file or of shared memory that holds the frame, whether or not a page maps it.
    pub fn slot(&self, pfn: Pfn) -> Option<u32> {
        let (head, _) = self.data_block(pfn)?;
        let [owners, count] = self.buddy.words(head);
        if count & IN_SLOT == 0 {
            return None;
        }
        self.owners.iter(owners).find_map(|owner| match owner {
            Owner::Slot(slot) => Some(slot),
            Owner::Page(_) => None,
        })
    }

    /// Number of pages that map the block of data that starts at a frame.
    pub fn map_count(&self, head: Pfn) -> u32 {
        self.buddy.words(head)[1] & COUNT
    }

    /// True if one page maps the block that starts at a frame, no object has it and no fork has shared it
    /// (`PageAnonExclusive`).
    pub(crate) fn is_exclusive(&self, head: Pfn) -> bool {
        self.buddy.words(head)[1] & !IN_FOLIO == 1
    }

    /// True if a store of an address space may keep the page that starts at a frame, and then nobody else has it
    /// (`wp_can_reuse_anon_folio`, `do_huge_pmd_wp_page`).
    pub(crate) fn may_reuse(&self, head: Pfn, mm: Asid) -> bool {
        self.is_exclusive(head)
            || self.folio_may_be_reused(head, mm).unwrap_or_else(|| {
                let count = self.buddy.words(head)[1];
                count & !(FORKED | IN_FOLIO) == 1
            })
    }

    /// Notes that a fork shares the block that starts at a frame, or that nobody shares it any more.
    pub(crate) fn set_forked(&mut self, head: Pfn, forked: bool) {
        if !self.is_zeros(head) {
            let count = &mut self.buddy.words_mut(head)[1];
            *count = *count & !FORKED | if forked { FORKED } else { 0 };
        }
    }

    /// True if an object has the block that starts at a frame.
    pub(crate) fn is_in_slot(&self, head: Pfn) -> bool {
        self.buddy.words(head)[1] & IN_SLOT != 0
    }

    /// The block of the simulated processes' data around a frame.
    fn data_block(&self, pfn: Pfn) -> Option<(Pfn, PageSize)> {
        let size = data_size(self.buddy.tag(pfn))?;
        Some((Pfn(pfn.0 & !(size.base_pages() - 1)), size))
    }

    /// Takes frames for a page of data that nothing maps yet, and pins them. `private` is anonymous memory but for
    /// stacks.
    #[inline]
    pub(crate) fn allocate_data(
        &mut self,
        page: PageId,
        size: PageSize,
        private: bool,
    ) -> Option<Pfn> {
        let placed = match &mut self.placer {
            Some(placer) => placer.place(&mut self.buddy, page, size),
            None => Place::Anywhere,
        };
        let head = match placed {
            Place::At(head) => head,
            Place::Full => return None,
            Place::Anywhere => {
                let mut head = self.take(size, private);
                if head.is_none() && size == PageSize::Base4K && self.shrink() {
                    head = self.take(size, private);
                }
                head?
            }
        };
        self.manager.added(head, size);
        let frames = size.base_pages();
        self.begin(head, frames, frames);
        Some(head)
    }

    /// Takes frames from the manager, or for what it has nothing to do with from the first node.
    #[inline]
    fn take(&mut self, size: PageSize, private: bool) -> Option<Pfn> {
        if self.is_file_system && !private {
            return self.buddy.allocate(size.order(), tag::data(size));
        }
        let mut run = Run {
            nr: size.base_pages(),
            order: size.order(),
        };
        self.manager.alloc(&mut self.buddy, &mut run)
    }

    /// Takes frames for 4 KiB pages of data in a row, at most so many, from the manager, and pins them: the first, and
    /// how many.
    pub(crate) fn allocate_run(&mut self, most: u32) -> Option<(Pfn, u32)> {
        let nr = most.min(self.manager.max_pages());
        let mut run = Run { nr, order: 0 };
        let head = self.manager.alloc(&mut self.buddy, &mut run)?;
        self.begin(head, run.nr, 1);
        Some((head, run.nr))
    }

    /// Takes 2^`order` contiguous frames for as many 4 KiB pages of data that nothing maps yet, and pins them.
    pub(crate) fn allocate_block(&mut self, order: u32) -> Option<Pfn> {
        if !self.has_room(1 << order) {
            return None;
        }
        let head = self.buddy.allocate(order, tag::data(PageSize::Base4K))?;
        self.begin(head, 1 << order, 1);
        Some(head)
    }

    /// Begins the use of frames for data, in pages of so many, and pins them.
    #[inline]
    fn begin(&mut self, head: Pfn, frames: u32, page: u32) {
        for pfn in (head.0..head.0 + frames).step_by(page as usize) {
            *self.buddy.words_mut(Pfn(pfn)) = [NO_OWNER, 0];
        }
        self.count_data(frames);
        self.pinned = Some((head, frames));
    }

    /// Keeps a block of data where it is until [`FrameTable::unpin`].
    pub(crate) fn pin(&mut self, head: Pfn, size: PageSize) {
        self.pinned = Some((head, size.base_pages()));
    }

    pub(crate) fn unpin(&mut self) {
        self.pinned = None;
    }

    /// Notes that a page maps a block.
    #[inline]
    pub(crate) fn add_page(&mut self, head: Pfn, page: Page) {
        if self.is_zeros(head) {
            return;
        }
        let [word, count] = self.buddy.words(head);
        *self.buddy.words_mut(head) = [self.owners.add(word, Owner::Page(page.id)), count + 1];
        if count & IN_FOLIO != 0 {
            self.add_to_folio(head, page.asid);
        }
        if self.reclaim.is_some() {
            self.note_added(head, count == 0);
        }
    }

    /// Notes that a page maps a block no more, and frees it when nothing else holds it. Returns
    /// the number of frames freed.
    #[inline]
    pub(crate) fn remove_page(&mut self, head: Pfn, size: PageSize, page: Page) -> u32 {
        if self.is_zeros(head) {
            return 0;
        }
        let [word, count] = self.buddy.words(head);
        *self.buddy.words_mut(head) = [self.owners.remove(word, Owner::Page(page.id)), count - 1];
        if count & IN_FOLIO != 0 {
            self.subtract_from_folio(head, page.asid);
        }
        self.free_unheld(head, size)
    }

    /// Notes that a block is mapped by another page instead of this one.
    pub(crate) fn replace_page(&mut self, head: Pfn, old: PageId, new: PageId) {
        if self.is_zeros(head) {
            return;
        }
        let [word, count] = self.buddy.words(head);
        let word = self.owners.remove(word, Owner::Page(old));
        *self.buddy.words_mut(head) = [self.owners.add(word, Owner::Page(new)), count];
    }

    /// True if the block around a frame may not move, or a part of it.
    pub(crate) fn pins(&self, head: Pfn, order: u32) -> bool {
        self.pinned.is_some_and(|(first, frames)| {
            first.0 < head.0 + (1 << order) && head.0 < first.0 + frames
        })
    }

    /// True if nothing maps any page of a block yet, or any more: it is a reservation.
    pub(crate) fn is_only_reserved(&self, head: Pfn, order: u32) -> bool {
        order > 0 && (0..1 << order).all(|offset| self.map_count(Pfn(head.0 + offset)) == 0)
    }

    /// Takes a block of one frame out of a slot, from which it leaves memory.
    pub(crate) fn drop_slot(&mut self, pfn: Pfn, slot: u32) -> u32 {
        self.shared.drop_frame(slot);
        self.take_from_slot(pfn, slot)
    }

    fn take_from_slot(&mut self, pfn: Pfn, slot: u32) -> u32 {
        let [word, count] = self.buddy.words(pfn);
        let word = self.owners.remove(word, Owner::Slot(slot));
        *self.buddy.words_mut(pfn) = [word, count & !IN_SLOT];
        self.free_unheld(pfn, PageSize::Base4K)
    }

    /// Puts a block of one frame into a slot of an object.
    pub(crate) fn put_in_slot(&mut self, pfn: Pfn, slot: u32) {
        let [word, count] = self.buddy.words(pfn);
        *self.buddy.words_mut(pfn) = [self.owners.add(word, Owner::Slot(slot)), count | IN_SLOT];
        self.shared.set_frame(slot, pfn);
    }

    /// Says that VMAs show so many pages less of an object. Returns the number of frames freed.
    pub(crate) fn hide(&mut self, object: ObjectId, pages: u64) -> u32 {
        let mut slots = Vec::new();
        self.shared
            .hide(object, pages, |pfn, slot| slots.push((pfn, slot)));
        let mut freed = 0;
        for (pfn, slot) in slots {
            match pfn {
                Some(pfn) => freed += self.take_from_slot(pfn, slot),
                None => self.forget_slot(slot),
            }
        }
        freed
    }

    /// Frees a block that nothing holds. Returns the number of frames freed.
    #[inline]
    pub(crate) fn free_unheld(&mut self, head: Pfn, size: PageSize) -> u32 {
        let count = self.buddy.words(head)[1];
        if count & (COUNT | IN_SLOT) != 0 {
            return 0;
        }
        self.manager.removing(head);
        let freed = if count & IN_FOLIO != 0 {
            self.free_page_of_folio(head, size)
        } else {
            self.free_block(head, size.order());
            size.base_pages()
        };
        self.data_frames -= freed;
        freed
    }

    /// Makes 512 blocks of the size `small` out of one, each mapped by the pages at its place
    /// in the pages that mapped the large one, last added first.
    pub(crate) fn split(&mut self, head: Pfn, size: PageSize, small: PageSize, pages: &[Page]) {
        let [mut word, count] = self.buddy.words(head);
        for page in pages {
            word = self.owners.remove(word, Owner::Page(page.id));
        }
        debug_assert_eq!(word, NO_OWNER);
        let mut flags = 0;
        if self.keeps_folios && small == PageSize::Base4K {
            flags = IN_FOLIO;
            let mms: Vec<Asid> = pages.iter().rev().map(|page| page.asid).collect();
            self.note_split(head, &mms);
        } else {
            self.buddy.set_tag(head, size.order(), tag::data(small));
        }
        for offset in (0..size.base_pages()).step_by(small.base_pages() as usize) {
            let mut word = NO_OWNER;
            for page in pages.iter().rev() {
                word = self
                    .owners
                    .add(word, Owner::Page(PageId(page.id.0 + offset)));
            }
            *self.buddy.words_mut(Pfn(head.0 + offset)) = [word, count | flags];
        }
    }

    /// Makes one block of 2 MiB of its pages, of which one entry has mapped each of those `used`, for the page that
    /// is mapped now.
    pub(crate) fn join(&mut self, head: Pfn, page: Page, used: &[Page]) {
        let order = PageSize::Large2M.order();
        for small in used {
            let pfn = Pfn(head.0 + (small.id.0 - page.id.0));
            let word = self.buddy.words(pfn)[0];
            let word = (self.owners).remove(word, Owner::Page(small.id));
            debug_assert_eq!(word, NO_OWNER);
        }
        self.folios.remove(head);
        self.buddy
            .set_tag(head, order, tag::data(PageSize::Large2M));
        let word = self.owners.add(NO_OWNER, Owner::Page(page.id));
        *self.buddy.words_mut(head) = [word, 1];
    }

    /// Counts frames that hold data from now on.
    #[inline]
    pub(crate) fn count_data(&mut self, frames: u32) {
        self.data_frames += frames;
        self.peak_data_frames = self.peak_data_frames.max(self.data_frames);
    }

    /// Moves a page of 4 KiB, but for its entries in page tables, to another frame of this very
    /// node: that frame, unless none is free.
    pub(crate) fn move_to_node(&mut self, from: Pfn, node: usize) -> Option<Pfn> {
        if self.buddy.free_frames_of(node) == 0 {
            return None;
        }
        self.part_with_folio(from);
        let tag = self.buddy.tag(from);
        let to = self.buddy.allocate_from(node, 0, tag)?;
        self.relocate(from, to, PageSize::Base4K);
        Some(to)
    }

    /// True if the manager gives several pages at once.
    #[inline]
    pub(crate) fn fills_holes(&self) -> bool {
        self.is_file_system && self.manager.max_pages() > 1
    }

    pub(crate) fn manager(&self) -> &dyn Manager {
        &*self.manager
    }

    pub(crate) fn manager_mut(&mut self) -> &mut dyn Manager {
        &mut *self.manager
    }

    /// The next page that the manager moves, and the node it goes to.
    pub(crate) fn next_move(&mut self) -> Option<(Pfn, usize)> {
        self.manager.next_move(&self.buddy)
    }

    #[inline]
    pub(crate) fn free_block(&mut self, head: Pfn, order: u32) {
        self.unlist(head, order);
        let placer = self.placer.as_mut();
        if !placer.is_some_and(|placer| placer.release(&mut self.buddy, head, order)) {
            self.manager.free(&mut self.buddy, head, order);
        }
    }

    /// True if page walks have to say which pages they found.
    pub(crate) fn tells_accesses(&self) -> bool {
        self.placer().is_some_and(Placer::tells_accesses) || self.reclaim.is_some()
    }

    /// A page walk has found a page in a frame.
    #[inline]
    pub(crate) fn accessed(&mut self, pfn: Pfn) {
        self.manager.accessed(pfn);
        self.note_accessed(pfn);
        if let Some(placer) = &mut self.placer {
            placer.accessed(pfn);
        }
    }

    pub(crate) fn relocate(&mut self, from: Pfn, to: Pfn, size: PageSize) {
        self.move_words(from, to);
        self.free_block(from, size.order());
        self.manager.moved(from, to);
    }

    pub(crate) fn is_pinned(&self, pfn: Pfn) -> bool {
        is_pinned(self.pinned, pfn)
    }

    /// Moves the words of a block of data, and what points back to it.
    pub(crate) fn move_words(&mut self, from: Pfn, to: Pfn) {
        let words = self.buddy.words(from);
        *self.buddy.words_mut(to) = words;
        self.folios.moved(from, to);
        self.list_moved(from, to);
        if words[1] & IN_SLOT == 0 {
            return;
        }
        for owner in self.owners.iter(words[0]) {
            if let Owner::Slot(slot) = owner {
                self.shared.set_frame(slot, to);
            }
        }
    }
}

pub(crate) fn is_pinned(pinned: Option<(Pfn, u32)>, pfn: Pfn) -> bool {
    pinned.is_some_and(|(head, frames)| pfn.0.wrapping_sub(head.0) < frames)
}

pub(crate) fn data_size(tag: u8) -> Option<PageSize> {
    if tag::folio_order(tag).is_some() {
        return Some(PageSize::Base4K);
    }
    PageSize::ALL
        .into_iter()
        .find(|&size| tag::data(size) == tag)
}
