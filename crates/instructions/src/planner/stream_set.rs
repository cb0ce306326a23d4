//! Sets of streams, with a bit for each: a search passes 64 streams outside the set in a step.

use millstream_types::StreamId;

/// A set of streams.
#[derive(Debug, Default)]
pub(super) struct StreamSet(Vec<u64>);

impl StreamSet {
    #[inline]
    pub(super) fn insert(&mut self, stream: StreamId) {
        let word = stream.index() / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (stream.index() % 64);
    }

    pub(super) fn remove(&mut self, stream: StreamId) {
        if let Some(word) = self.0.get_mut(stream.index() / 64) {
            *word &= !(1 << (stream.index() % 64));
        }
    }

    /// Returns the last stream before the one of index `end`.
    pub(super) fn last_before(&self, end: usize) -> Option<StreamId> {
        let mut at = (end / 64).min(self.0.len());
        let mut word = self.0.get(at).map_or(0, |word| word & ((1 << (end % 64)) - 1));
        while word == 0 {
            at = at.checked_sub(1)?;
            word = self.0[at];
        }
        Some(StreamId((64 * at) as u16 + word.ilog2() as u16))
    }

    /// Takes out the last stream.
    pub(super) fn pop(&mut self) -> Option<StreamId> {
        let last = self.last_before(usize::MAX)?;
        self.remove(last);
        Some(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn is_a_set(inserted in proptest::collection::vec(0u16..300, 0..60), end in 0usize..400) {
            let (mut set, mut model) = (StreamSet::default(), BTreeSet::new());
            for id in inserted {
                set.insert(StreamId(id));
                model.insert(id);
            }
            let before = model.iter().rfind(|id| usize::from(**id) < end);
            prop_assert_eq!(set.last_before(end), before.map(|id| StreamId(*id)));
            while let Some(last) = model.pop_last() {
                prop_assert_eq!(set.pop(), Some(StreamId(last)));
            }
            prop_assert_eq!(set.pop(), None);
        }
    }
}
