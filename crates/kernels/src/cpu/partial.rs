//! Partial results of reductions, as words of the workspace.

use super::element::Element;

/// A partial result that fits into words of the workspace.
pub(crate) trait Partial: Copy + Send + Sync {
    const WORDS: usize;

    fn word(self, at: usize) -> u64;
    fn of(words: impl Fn(usize) -> u64) -> Self;
}

impl<T: Element> Partial for T {
    const WORDS: usize = 1;

    fn word(self, _: usize) -> u64 {
        self.to_word()
    }
    fn of(words: impl Fn(usize) -> u64) -> T {
        T::from_word(words(0))
    }
}

impl<A: Element, B: Element> Partial for (A, B) {
    const WORDS: usize = 2;

    fn word(self, at: usize) -> u64 {
        if at == 0 { self.0.to_word() } else { self.1.to_word() }
    }
    fn of(words: impl Fn(usize) -> u64) -> (A, B) {
        (A::from_word(words(0)), B::from_word(words(1)))
    }
}

impl<T: Element, const N: usize> Partial for [T; N] {
    const WORDS: usize = N;

    fn word(self, at: usize) -> u64 {
        self[at].to_word()
    }
    fn of(words: impl Fn(usize) -> u64) -> [T; N] {
        std::array::from_fn(|at| T::from_word(words(at)))
    }
}
