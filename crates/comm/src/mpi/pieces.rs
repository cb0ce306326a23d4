//! Operations of more bytes than the library takes at once, as several operations.
//!
//! MPI counts in `int`, so one operation has less than 2 GiB. A larger one is cut into pieces, each
//! with a part of what each rank gives: all ranks compute the same number of pieces from what all
//! of them know. An all-to-all, of which no rank knows all counts, is exchanged pair by pair. The
//! pieces are started one after the other, at once, so that the operations of a communicator keep
//! their order.

use std::ops::Range;

use millstream_types::DType;

use crate::buffer::{Buffer, Elements};
use crate::error::CommError;

use super::library::{Comm, Library, Operation, Started};

/// A piece, and where its received bytes belong.
type Piece = (Box<dyn Started>, Vec<(Range<usize>, usize)>);

/// The started pieces of an operation.
struct Pieces {
    under_way: Vec<Option<Piece>>,
    whole: Buffer,
}

impl Started for Pieces {
    fn test(&mut self) -> Result<Option<Buffer>, CommError> {
        for slot in &mut self.under_way {
            let Some((started, places)) = slot else { continue };
            let Some(received) = started.test()? else { continue };
            let whole = self.whole.bytes_mut();
            for (from, to) in places.iter() {
                whole[*to..*to + from.len()].copy_from_slice(&received.bytes()[from.clone()]);
            }
            *slot = None;
        }
        let is_done = self.under_way.iter().all(Option::is_none);
        Ok(is_done.then(|| self.whole.clone()))
    }
}

/// Starts an operation of any size, at a position of so many ranks.
///
/// # Errors
/// The library refuses, or memory is exhausted.
pub(super) fn start(
    library: &mut dyn Library,
    comm: Comm,
    operation: &Operation,
    (given, received): (Buffer, Buffer),
    (position, ranks): (usize, usize),
) -> Result<Box<dyn Started>, CommError> {
    let most = library.most_bytes();
    // Of each rank, so that the sum over the ranks is below the limit.
    let each = (most / ranks.max(1)).max(1);
    let longest = |counts: &[usize]| counts.iter().copied().max().unwrap_or(0);
    let (count, each) = match operation {
        Operation::Send { .. } => (given.bytes().len().div_ceil(most), most),
        Operation::Receive { .. } => (received.bytes().len().div_ceil(most), most),
        // Given by the root, received by the others.
        Operation::Broadcast { .. } => {
            (given.bytes().len().max(received.bytes().len()).div_ceil(most), most)
        }
        Operation::AllGather { counts }
        | Operation::Gather { counts, .. }
        | Operation::Scatter { counts, .. } => (longest(counts).div_ceil(each), each),
        // Larger ones are exchanged pair by pair.
        Operation::AllToAll { .. } => (1, most),
    };
    if count <= 1 {
        return library.start(comm, operation, given, received);
    }
    let mut under_way = Vec::with_capacity(count);
    for piece in 0..count {
        let from = piece * each;
        let cut = |counts: &[usize]| -> Vec<usize> {
            counts.iter().map(|count| count.saturating_sub(from).min(each)).collect()
        };
        // The bytes of a piece within buffers in which the ranks' parts follow one another.
        let ranges = |counts: &[usize]| -> Vec<Range<usize>> {
            let places = counts.iter().scan(0, |end, count| {
                *end += count;
                Some(*end - count)
            });
            let each = places.zip(cut(counts));
            // A part that has ended takes no bytes, wherever they begin.
            let range = |(at, length): (usize, usize)| match length {
                0 => at..at,
                _ => at + from..at + from + length,
            };
            each.map(range).collect()
        };
        let none = Vec::new();
        let is_root = |root: &usize| *root == position;
        let (operation, gives, takes) = match operation {
            Operation::Send { .. } => (operation.clone(), ranges(&[given.bytes().len()]), none),
            Operation::Receive { .. } => {
                (operation.clone(), none, ranges(&[received.bytes().len()]))
            }
            Operation::Broadcast { .. } => {
                let [gives, takes] = [&given, &received].map(|b| ranges(&[b.bytes().len()]));
                (operation.clone(), gives, takes)
            }
            Operation::AllGather { counts } => {
                let gives = ranges(&[given.bytes().len()]);
                (Operation::AllGather { counts: cut(counts) }, gives, ranges(counts))
            }
            Operation::Gather { root, counts } => {
                let takes = if is_root(root) { ranges(counts) } else { none };
                let gives = ranges(&[given.bytes().len()]);
                (Operation::Gather { root: *root, counts: cut(counts) }, gives, takes)
            }
            Operation::Scatter { root, counts } => {
                let gives = if is_root(root) { ranges(counts) } else { none };
                let takes = ranges(&[received.bytes().len()]);
                (Operation::Scatter { root: *root, counts: cut(counts) }, gives, takes)
            }
            Operation::AllToAll { .. } => return library.start(comm, operation, given, received),
        };
        let into = bytes(library, takes.iter().map(Range::len).sum())?;
        let gives = joined(library, &given, &gives)?;
        let places = takes.iter().scan(0, |end, range| {
            *end += range.len();
            Some((*end - range.len()..*end, range.start))
        });
        let places = places.collect();
        under_way.push(Some((library.start(comm, &operation, gives, into)?, places)));
    }
    Ok(Box::new(Pieces { under_way, whole: received }))
}

/// Starts the messages of an all-to-all between each two ranks, of any size. The counts are bytes,
/// given to each rank and taken from each; `position` is this rank's.
///
/// # Errors
/// The library refuses, or memory is exhausted.
pub(super) fn all_to_all(
    library: &mut dyn Library,
    comm: Comm,
    (sent, received): (&[usize], &[usize]),
    (given, mut whole): (Buffer, Buffer),
    position: usize,
) -> Result<Box<dyn Started>, CommError> {
    let most = library.most_bytes();
    let ranges = |counts: &[usize]| -> Vec<Range<usize>> {
        let each = counts.iter().scan(0, |end, count| {
            *end += count;
            Some(*end - count..*end)
        });
        each.collect()
    };
    let cut = |range: Range<usize>| {
        let end = range.end;
        range.step_by(most).map(move |from| from..end.min(from + most))
    };
    let (gives, takes) = (ranges(sent), ranges(received));
    let own = (gives.get(position).cloned(), takes.get(position).cloned());
    if let (Some(from), Some(to)) = own
        && from.len() == to.len()
    {
        whole.bytes_mut()[to].copy_from_slice(&given.bytes()[from]);
    }
    let (ranks, none) = (gives.len(), bytes(library, 0)?);
    let mut under_way = Vec::new();
    for distance in 1..ranks {
        let from = (position + ranks - distance) % ranks;
        for range in cut(takes[from].clone()) {
            let operation = Operation::Receive { from: Some(from) };
            let into = bytes(library, range.len())?;
            let started = library.start(comm, &operation, none.clone(), into)?;
            under_way.push(Some((started, vec![(0..range.len(), range.start)])));
        }
        let to = (position + distance) % ranks;
        for range in cut(gives[to].clone()) {
            let part = joined(library, &given, &[range])?;
            let started = library.start(comm, &Operation::Send { to }, part, none.clone())?;
            under_way.push(Some((started, Vec::new())));
        }
    }
    Ok(Box::new(Pieces { under_way, whole }))
}

fn bytes(library: &dyn Library, numel: usize) -> Result<Buffer, CommError> {
    library.spare().buffer(Elements { dtype: DType::U8, numel })
}

/// Returns ranges of a buffer's bytes, one after the other.
fn joined(
    library: &dyn Library,
    of: &Buffer,
    ranges: &[Range<usize>],
) -> Result<Buffer, CommError> {
    if let [range] = ranges {
        return of.as_bytes().part(range.clone());
    }
    let mut joined = bytes(library, ranges.iter().map(Range::len).sum())?;
    let mut rest = joined.bytes_mut();
    for range in ranges {
        let (to, after) = rest.split_at_mut(range.len());
        to.copy_from_slice(&of.bytes()[range.clone()]);
        rest = after;
    }
    Ok(joined)
}
