//! Compiled lists that a machine keeps, to be used again for equal ones.

use std::sync::Arc;

use super::tape::Program;

/// The most programs that are kept.
const CAPACITY: usize = 64;

/// The hash of all that a program depends on.
pub type ProgramKey = [u8; 32];

/// What became of the lists that were compiled with `Recorded::compile_cached`.
///
/// ```
/// # use millstream_runtime::tapes::cache::CacheCounts;
/// assert_eq!(CacheCounts::default().hits, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// The programs that are kept, 64 at most.
    pub entries: usize,
    /// The lists that were equal to one of a kept program.
    pub hits: u64,
    /// The lists that were compiled.
    pub misses: u64,
    /// The programs that were dropped for newer ones.
    pub evictions: u64,
}

/// Programs by their keys, the one that was used longest ago first.
#[derive(Default)]
pub struct ProgramCache {
    entries: Vec<(ProgramKey, Arc<Program>)>,
    counts: CacheCounts,
}

impl ProgramCache {
    /// Returns the program of a key, if it is kept.
    pub fn find(&mut self, key: &ProgramKey) -> Option<Arc<Program>> {
        let Some(at) = self.entries.iter().position(|(known, _)| known == key) else {
            self.counts.misses += 1;
            return None;
        };
        self.counts.hits += 1;
        self.entries[at..].rotate_left(1);
        self.entries.last().map(|(_, program)| program.clone())
    }

    /// Counts a list that is compiled without a look at the kept programs.
    pub const fn note_miss(&mut self) {
        self.counts.misses += 1;
    }

    /// Keeps a program. Where too many are kept, the one that was used longest ago makes room, if
    /// no executable and no launch has it; if they have all of them, the new one is not kept.
    /// Returns the program that is dropped, which has to happen outside of a lock.
    pub fn insert(&mut self, key: ProgramKey, program: Arc<Program>) -> Option<Arc<Program>> {
        if self.entries.iter().any(|(known, _)| *known == key) {
            // Another thread has compiled it meanwhile.
            return Some(program);
        }
        let mut evicted = None;
        if self.entries.len() >= CAPACITY {
            let is_free = |(_, kept): &(ProgramKey, Arc<Program>)| Arc::strong_count(kept) == 1;
            let Some(at) = self.entries.iter().position(is_free) else { return Some(program) };
            evicted = Some(self.entries.remove(at).1);
            self.counts.evictions += 1;
        }
        self.entries.push((key, program));
        evicted
    }

    /// Returns the counts.
    pub const fn counts(&self) -> CacheCounts {
        CacheCounts { entries: self.entries.len(), ..self.counts }
    }
}
