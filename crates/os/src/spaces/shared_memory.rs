use pagelab_addr::Pfn;
use std::collections::BTreeMap;

/// Slots of one chunk.
const CHUNK: u32 = 512;
const EMPTY: u32 = u32::MAX;
/// A page that was there and has left memory.
const DROPPED: u32 = u32::MAX - 1;

/// An object of shared memory: what an inode of shmem or a file's page cache is to Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ObjectId(u32);

#[derive(Clone, Debug, Default)]
struct Object {
    /// Pages of VMAs that show it. Splitting a VMA does not change their sum.
    vma_pages: u64,
    /// Chunks of slots by page number / 512.
    chunks: BTreeMap<u64, u32>,
}

/// Frames of the pages of each object of shared memory.
///
/// A page of an object that was ever touched has a slot, and the slot's frame knows the slot as
/// one of its owners: see [`crate::frames::rmap::Owner`].
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedMemory {
    objects: Vec<Object>,
    free_objects: Vec<u32>,
    chunks: Vec<[u32; CHUNK as usize]>,
    free_chunks: Vec<u32>,
}

impl SharedMemory {
    /// A new object that no VMA shows yet.
    pub(crate) fn create(&mut self) -> ObjectId {
        if let Some(free) = self.free_objects.pop() {
            return ObjectId(free);
        }
        self.objects.push(Object::default());
        ObjectId(self.objects.len() as u32 - 1)
    }

    /// Says that VMAs show so many more pages of an object.
    pub(crate) fn show(&mut self, id: ObjectId, pages: u64) {
        self.objects[id.0 as usize].vma_pages += pages;
    }

    /// Says that VMAs show so many pages less. When none shows any of it any more the object is
    /// gone, and its slots go to `free`, each with its frame unless its page has left memory.
    pub(crate) fn hide(
        &mut self,
        id: ObjectId,
        pages: u64,
        mut free: impl FnMut(Option<Pfn>, u32),
    ) {
        let object = &mut self.objects[id.0 as usize];
        object.vma_pages -= pages;
        if object.vma_pages > 0 {
            return;
        }
        for (_, chunk) in std::mem::take(&mut object.chunks) {
            let frames = self.chunks[chunk as usize].iter().enumerate();
            for (index, &pfn) in frames.filter(|&(_, &pfn)| pfn != EMPTY) {
                let frame = (pfn != DROPPED).then_some(Pfn(pfn));
                free(frame, chunk * CHUNK + index as u32);
            }
            self.free_chunks.push(chunk);
        }
        self.free_objects.push(id.0);
    }

    /// The slot of an object's page.
    pub(crate) fn slot(&mut self, id: ObjectId, page: u64) -> u32 {
        let chunk = match self.objects[id.0 as usize]
            .chunks
            .get(&(page / u64::from(CHUNK)))
        {
            Some(&chunk) => chunk,
            None => self.add_chunk(id, page / u64::from(CHUNK)),
        };
        chunk * CHUNK + (page % u64::from(CHUNK)) as u32
    }

    fn add_chunk(&mut self, id: ObjectId, number: u64) -> u32 {
        let chunk = self.free_chunks.pop().unwrap_or(self.chunks.len() as u32);
        if chunk as usize == self.chunks.len() {
            self.chunks.push([EMPTY; CHUNK as usize]);
        } else {
            self.chunks[chunk as usize] = [EMPTY; CHUNK as usize];
        }
        self.objects[id.0 as usize].chunks.insert(number, chunk);
        chunk
    }

    /// The frame in a slot.
    pub(crate) fn frame(&self, slot: u32) -> Option<Pfn> {
        let pfn = self.chunks[(slot / CHUNK) as usize][(slot % CHUNK) as usize];
        (pfn < DROPPED).then_some(Pfn(pfn))
    }

    /// True if a page has left memory.
    #[inline]
    pub(crate) fn is_dropped(&self, slot: u32) -> bool {
        self.chunks[(slot / CHUNK) as usize][(slot % CHUNK) as usize] == DROPPED
    }

    /// Notes that a page leaves memory.
    pub(crate) fn drop_frame(&mut self, slot: u32) {
        self.set_frame(slot, Pfn(DROPPED));
    }

    /// Puts a frame into a slot.
    pub(crate) fn set_frame(&mut self, slot: u32, pfn: Pfn) {
        self.chunks[(slot / CHUNK) as usize][(slot % CHUNK) as usize] = pfn.0;
    }
}
