/// A list that is refilled over and over: room is made before a run of elements, so that adding
/// one is a store and needs no branch on capacity.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffer<T> {
    items: Vec<T>,
    len: usize,
}

impl<T: Copy + Default> Buffer<T> {
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Makes room for `more` elements and returns it; what is filled in counts once
    /// [`Buffer::added`] says so.
    #[inline(always)]
    pub(crate) fn room(&mut self, more: usize) -> &mut [T] {
        let wanted = self.len + more;
        if self.items.len() < wanted {
            self.items.resize(wanted.next_power_of_two(), T::default());
        }
        &mut self.items[self.len..wanted]
    }

    /// Counts elements filled into the room.
    #[inline(always)]
    pub(crate) fn added(&mut self, count: usize) {
        debug_assert!(self.len + count <= self.items.len());
        self.len += count;
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, item: T) {
        self.room(1)[0] = item;
        self.len += 1;
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.items[..self.len]
    }

    #[inline(always)]
    pub(crate) fn as_slice(&self) -> &[T] {
        &self.items[..self.len]
    }
}
