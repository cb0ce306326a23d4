//! Messages between the ranks of two meshes.

use std::ops::Range;

use smallvec::SmallVec;

use millstream_types::{Attrs, DType, NdSbp, Result, Sbp, Sharding};

use crate::composite::{Calls, Emitter, Symbol, ints};

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

/// Returns a sharding that is whole where this one is partial, as messages need it.
///
/// # Errors
/// None: it is valid if this one is.
pub fn reduced(sharding: &Sharding) -> Result<Sharding> {
    let sbp: NdSbp = sharding
        .sbp()
        .iter()
        .map(|sbp| if sbp.reduction().is_some() { Sbp::Broadcast } else { *sbp })
        .collect();
    Sharding::new(sharding.mesh(), sbp)
}

/// Makes the calls of a rank that move a tensor from one mesh to another; neither sharding is
/// partial. `part` is the rank's part on the first mesh, if it has one. Returns its part on the
/// second, if it belongs to that. All sends come first, so no rank waits for one that waits for it.
///
/// # Errors
/// A call cannot be made.
pub fn exchange(
    emitter: &mut dyn Emitter,
    rank: u32,
    dtype: DType,
    shape: &[usize],
    from: &Sharding,
    to: &Sharding,
    part: Option<Symbol>,
) -> Result<Option<Symbol>> {
    let mut calls = Calls { emitter };
    let all = transfers(shape, from, to).unwrap_or_default();
    let ranges = |of: &Sharding| {
        let at = of.mesh().coordinates(rank)?;
        Some(of.part(shape, &at))
    };
    let held = part.zip(ranges(from));
    for transfer in all.iter().filter(|t| t.from == rank && t.to != rank) {
        let Some((part, held)) = &held else { continue };
        let view = boxed(&mut calls, *part, held, transfer)?;
        let dense = calls.apply("copy", &[view])?;
        calls.call("send", &[dense], Attrs::new().with("to", i64::from(transfer.to)))?;
    }
    let Some(needed) = ranges(to) else { return Ok(None) };
    let lengths = |ranges: &[Range<usize>]| {
        ints(&ranges.iter().map(ExactSizeIterator::len).collect::<Vec<_>>())
    };
    let made = calls.zeros(&lengths(&needed), dtype)?;
    for transfer in all.iter().filter(|t| t.to == rank) {
        let place = boxed(&mut calls, made, &needed, transfer)?;
        let received = match &held {
            Some((part, held)) if transfer.from == rank => {
                boxed(&mut calls, *part, held, transfer)?
            }
            _ => {
                let buffer = calls.zeros(&lengths(&transfer.range), dtype)?;
                let from = Attrs::new().with("from", i64::from(transfer.from));
                calls.call("recv_", &[buffer], from)?;
                buffer
            }
        };
        calls.call("copy_", &[place, received], Attrs::new())?;
    }
    Ok(Some(made))
}

/// Returns the box of a transfer within a part, as a view.
fn boxed(
    calls: &mut Calls<'_>,
    part: Symbol,
    own: &[Range<usize>],
    transfer: &Transfer,
) -> Result<Symbol> {
    let mut view = part;
    for (dim, (own, range)) in own.iter().zip(&transfer.range).enumerate() {
        if own != range {
            let attrs = Attrs::new().with("dim", dim as i64);
            let attrs = attrs.with("start", (range.start - own.start) as i64);
            view = calls.one("narrow", &[view], attrs.with("length", range.len() as i64))?;
        }
    }
    Ok(view)
}
