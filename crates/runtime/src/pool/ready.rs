//! Ready instructions, the highest priority first.

use std::collections::VecDeque;

use millstream_instructions::Priority;

/// Numbers by priority; of one priority, in the order in which they became ready.
#[derive(Debug, Default)]
pub(super) struct Ready {
    /// Calls of the default priority, which most have.
    usual: VecDeque<u32>,
    /// The others, the lowest priority first.
    levels: Vec<(Priority, VecDeque<u32>)>,
    len: usize,
}

impl Ready {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn push(&mut self, priority: Priority, number: u32) {
        self.len += 1;
        if priority == Priority::default() {
            self.usual.push_back(number);
            return;
        }
        let at = self.levels.binary_search_by_key(&priority, |(level, _)| *level);
        let at = at.unwrap_or_else(|at| {
            self.levels.insert(at, (priority, VecDeque::new()));
            at
        });
        self.levels[at].1.push_back(number);
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<u32> {
        let number = match self.urgent() {
            // An emptied level stays: its priority is likely to occur again.
            Some(level) => self.levels[level].1.pop_front(),
            None => self.usual.pop_front(),
        }?;
        self.len -= 1;
        Some(number)
    }

    /// Returns the level of the next number, unless that has the default priority.
    #[inline]
    fn urgent(&self) -> Option<usize> {
        let level = self.levels.iter().rposition(|(_, numbers)| !numbers.is_empty())?;
        let first = self.usual.is_empty() || self.levels[level].0 > Priority::default();
        first.then_some(level)
    }

    /// Returns the next number.
    #[inline]
    pub(super) fn peek(&self) -> Option<u32> {
        match self.urgent() {
            Some(level) => self.levels[level].1.front(),
            None => self.usual.front(),
        }
        .copied()
    }

    /// Takes the number at position `at` of all that are ready, regardless of priority.
    pub(super) fn take(&mut self, at: usize) -> Option<u32> {
        let mut left = at;
        let levels = self.levels.iter_mut().map(|(_, numbers)| numbers);
        for numbers in std::iter::once(&mut self.usual).chain(levels) {
            if left < numbers.len() {
                self.len -= 1;
                return numbers.remove(left);
            }
            left -= numbers.len();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_first_and_of_equals_the_first() {
        let mut ready = Ready::default();
        let given = [(0, 1), (5, 2), (-3, 3), (0, 4), (1, 5), (5, 6), (-3, 7)];
        for (priority, number) in given {
            ready.push(Priority(priority), number);
        }
        assert_eq!((ready.len(), ready.peek()), (given.len(), Some(2)));
        let order: Vec<u32> = std::iter::from_fn(|| ready.pop()).collect();
        assert_eq!(order, [2, 6, 5, 1, 4, 3, 7]);
        assert_eq!(ready.len(), 0);
        // An empty level is passed over.
        ready.push(Priority(-3), 8);
        ready.push(Priority(0), 9);
        assert_eq!([ready.pop(), ready.pop(), ready.pop()], [Some(9), Some(8), None]);
    }

    #[test]
    fn any_can_be_taken() {
        let mut ready = Ready::default();
        for (priority, number) in [(2, 1), (0, 2), (-1, 3)] {
            ready.push(Priority(priority), number);
        }
        assert_eq!(ready.take(2), Some(1), "the highest level comes last");
        assert_eq!((ready.take(2), ready.len()), (None, 2));
        assert_eq!([ready.pop(), ready.pop(), ready.pop()], [Some(2), Some(3), None]);
    }
}
