//! Messages between the ranks of two meshes.

use std::ops::Range;

use smallvec::SmallVec;

use millstream_types::{Sbp, Sharding};

/// A box of elements that one rank has and another needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The rank that has it.
    pub from: u32,
    /// The rank that needs it; it may be the same.
    pub to: u32,
    /// The range of each dimension of the whole tensor.
    pub range: SmallVec<[Range<usize>; 4]>,
}

/// Returns the messages that bring a tensor of this shape from one mesh to another, in an order
/// that all ranks follow. A rank that has what it needs sends it to itself; otherwise the first
/// rank that has a box sends it. `None` if one of the shardings is partial.
pub fn transfers(shape: &[usize], from: &Sharding, to: &Sharding) -> Option<Vec<Transfer>> {
    let is_partial = |sharding: &Sharding| sharding.sbp().iter().any(|s| s.reduction().is_some());
    if is_partial(from) || is_partial(to) {
        return None;
    }
    let mut all = Vec::new();
    for (position, rank) in to.mesh().ranks().iter().enumerate() {
        let needed = to.part(shape, &to.mesh().coordinates_at(position));
        for (range, holders) in holders(shape, from) {
            let common: SmallVec<[Range<usize>; 4]> = needed
                .iter()
                .zip(&range)
                .map(|(a, b)| a.start.max(b.start)..a.end.min(b.end))
                .collect();
            if common.iter().any(Range::is_empty) {
                continue;
            }
            let source = if holders.contains(rank) { *rank } else { holders[0] };
            all.push(Transfer { from: source, to: *rank, range: common });
        }
    }
    Some(all)
}

/// Returns the parts of a tensor, each with the ranks that have it.
fn holders(shape: &[usize], of: &Sharding) -> Vec<(SmallVec<[Range<usize>; 4]>, Vec<u32>)> {
    let mesh = of.mesh();
    let mut parts: Vec<(SmallVec<[usize; 3]>, SmallVec<[Range<usize>; 4]>, Vec<u32>)> = Vec::new();
    for (position, rank) in mesh.ranks().iter().enumerate() {
        let at = mesh.coordinates_at(position);
        let splits = at.iter().zip(of.sbp());
        let key = splits.map(|(k, sbp)| if matches!(sbp, Sbp::Split(_)) { *k } else { 0 });
        let key: SmallVec<[usize; 3]> = key.collect();
        match parts.iter_mut().find(|(of, ..)| *of == key) {
            Some((_, _, ranks)) => ranks.push(*rank),
            None => parts.push((key, of.part(shape, &at), vec![*rank])),
        }
    }
    parts.into_iter().map(|(_, range, ranks)| (range, ranks)).collect()
}
