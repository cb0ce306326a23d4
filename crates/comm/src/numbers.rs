//! The calls of a channel that a rank has made.

use std::collections::BTreeSet;

/// A set of numbers that are added about in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers {
    /// All numbers below are in the set.
    below: u64,
    others: BTreeSet<u64>,
}

impl Numbers {
    /// Adds a number. Returns false if it was in the set.
    pub(crate) fn insert(&mut self, number: u64) -> bool {
        if number < self.below || !self.others.insert(number) {
            return false;
        }
        while self.others.remove(&self.below) {
            self.below += 1;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::Numbers;

    #[test]
    fn each_number_is_added_once() {
        let mut numbers = Numbers::default();
        let added: Vec<bool> =
            [1, 0, 3, 1, 0, 2, 3, 4].into_iter().map(|n| numbers.insert(n)).collect();
        assert_eq!(added, [true, true, true, false, false, true, false, true]);
        assert_eq!((numbers.below, numbers.others.len()), (5, 0));
    }
}
