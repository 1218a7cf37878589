/// A small fully associative table with LRU replacement.
#[derive(Debug)]
pub(super) struct Recent<V, const N: usize>(Vec<(i64, V)>);

impl<V, const N: usize> Default for Recent<V, N> {
    fn default() -> Self {
        Recent(Vec::with_capacity(N + 1))
    }
}

impl<V: Default, const N: usize> Recent<V, N> {
    /// Entry of a key, which this is a use of; and true if the table had the key.
    pub(super) fn of(&mut self, key: i64) -> (&mut V, bool) {
        let at = self.0.iter().position(|entry| entry.0 == key);
        match at {
            Some(at) => self.0[..=at].rotate_right(1),
            None => {
                self.0.insert(0, (key, V::default()));
                self.0.truncate(N);
            }
        }
        (&mut self.0[0].1, at.is_some())
    }
}
