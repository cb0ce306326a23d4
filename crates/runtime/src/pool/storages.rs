//! The pending uses of each storage.

use super::graph::NONE;

/// The uses of a storage.
#[derive(Clone, Copy, Debug)]
struct Use {
    /// The last write.
    writer: u32,
    /// The reads since then.
    reads: u32,
}

/// The reads between two writes.
#[derive(Clone, Copy, Debug)]
struct Reads {
    open: u32,
    /// The write that waits for them.
    writer: u32,
}

/// In the entry of a use, this bit marks one of these reads; without it, the use is the last write
/// of this storage.
const READS: u32 = 1 << 31;

/// A noted use: its entry, and its predecessors.
pub(super) struct Noted {
    pub(super) entry: u32,
    pub(super) after: After,
}

/// The predecessors of a use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    Nothing,
    /// This write.
    Write(u32),
    /// Reads; the last of them returns the write ([`Storages::end_use`]).
    Reads,
}

/// The storages, by number. Several storages may share a number: then more is ordered than
/// necessary.
#[derive(Default)]
pub(super) struct Storages {
    uses: Vec<Use>,
    reads: Vec<Reads>,
    free: Vec<u32>,
}

impl Storages {
    #[inline]
    fn at(&mut self, root: u32) -> (usize, Use) {
        let root = (root & !READS) as usize;
        if self.uses.len() <= root {
            self.uses.resize(root + 1, Use { writer: NONE, reads: NONE });
        }
        (root, self.uses[root])
    }

    /// Notes that an instruction writes a storage. Returns none if that is noted already.
    #[inline]
    pub(super) fn write(&mut self, root: u32, number: u32) -> Option<Noted> {
        let (root, Use { writer, mut reads }) = self.at(root);
        if writer == number {
            return None;
        }
        let reading = reads != NONE && self.reads[reads as usize].open > 0;
        let after = if reading {
            // The reads come after the last write, so this one does, too.
            self.reads[reads as usize].writer = number;
            reads = NONE;
            After::Reads
        } else if writer != NONE {
            After::Write(writer)
        } else {
            After::Nothing
        };
        self.uses[root] = Use { writer: number, reads };
        Some(Noted { entry: root as u32, after })
    }

    /// Notes that an instruction reads a storage. Returns none if the instruction writes it, too,
    /// which is noted already.
    #[inline]
    pub(super) fn read(&mut self, root: u32, number: u32) -> Option<Noted> {
        let (root, Use { writer, mut reads }) = self.at(root);
        if writer == number {
            return None;
        }
        if reads == NONE {
            reads = self.free.pop().unwrap_or(self.reads.len() as u32);
            if reads as usize == self.reads.len() {
                self.reads.push(Reads { open: 0, writer: NONE });
            }
            self.reads[reads as usize] = Reads { open: 0, writer: NONE };
            self.uses[root].reads = reads;
        }
        self.reads[reads as usize].open += 1;
        let after = if writer == NONE { After::Nothing } else { After::Write(writer) };
        Some(Noted { entry: READS | reads, after })
    }

    /// Ends a use. If it was the last of the reads that a write waits for, returns that write.
    #[inline]
    pub(super) fn end_use(&mut self, number: u32, entry: u32) -> Option<u32> {
        if entry & READS == 0 {
            let uses = &mut self.uses[entry as usize];
            if uses.writer == number {
                uses.writer = NONE;
            }
            return None;
        }
        let reads = entry & !READS;
        let of = &mut self.reads[reads as usize];
        of.open -= 1;
        if of.open > 0 || of.writer == NONE {
            return None;
        }
        self.free.push(reads);
        Some(of.writer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(noted: Option<Noted>) -> Option<After> {
        noted.map(|noted| noted.after)
    }

    /// Reads overlap, a write comes after all of them, and later uses come after the write.
    #[test]
    fn reads_between_writes() {
        let mut storages = Storages::default();
        let first = storages.write(7, 0).unwrap();
        assert_eq!(first.after, After::Nothing);
        let reads = [1, 2].map(|number| storages.read(7, number).unwrap());
        assert!(reads.iter().all(|read| read.after == After::Write(0)));
        let second = storages.write(7, 3).unwrap();
        assert_eq!(second.after, After::Reads);
        assert_eq!(after(storages.read(7, 4)), Some(After::Write(3)));
        assert_eq!(storages.end_use(0, first.entry), None);
        assert_eq!(storages.end_use(2, reads[1].entry), None);
        assert_eq!(storages.end_use(1, reads[0].entry), Some(3));
        // The write has reads of its own, one of which is still open.
        assert_eq!(storages.end_use(3, second.entry), None);
        assert_eq!(after(storages.read(7, 5)), Some(After::Nothing));
        assert_eq!(after(storages.write(7, 6)), Some(After::Reads));
    }

    #[test]
    fn an_instruction_does_not_come_after_itself() {
        let mut storages = Storages::default();
        let write = storages.write(1, 0).unwrap();
        assert!(storages.write(1, 0).is_none() && storages.read(1, 0).is_none());
        assert_eq!(storages.end_use(0, write.entry), None);
        assert_eq!(after(storages.write(1, 1)), Some(After::Nothing));
    }
}
