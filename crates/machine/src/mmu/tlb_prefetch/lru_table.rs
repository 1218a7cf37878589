use std::num::NonZeroU32;

/// A small fully associative table with LRU replacement.
#[derive(Debug)]
pub(super) struct LruTable<V> {
    entries: Vec<(i64, V)>,
    most: usize,
}

impl<V: Default> LruTable<V> {
    pub(super) fn new(most: NonZeroU32) -> Self {
        LruTable {
            entries: Vec::new(),
            most: most.get() as usize,
        }
    }

    /// Entry of a key, which this is a use of; and true if the table had the key.
    pub(super) fn of(&mut self, key: i64) -> (&mut V, bool) {
        let at = self.entries.iter().position(|entry| entry.0 == key);
        match at {
            Some(at) => self.entries[..=at].rotate_right(1),
            None => {
                self.entries.insert(0, (key, V::default()));
                self.entries.truncate(self.most);
            }
        }
        (&mut self.entries[0].1, at.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_are_kept() {
        let mut table = LruTable::<u32>::new(NonZeroU32::MIN.saturating_add(1));
        for (key, expected) in [
            (7, false),
            (8, false),
            (7, true),
            (9, false),
            (7, true),
            (8, false),
        ] {
            let (value, known) = table.of(key);
            assert_eq!((*value > 0, known), (expected, expected), "{key}");
            *value += 1;
        }
    }
}
