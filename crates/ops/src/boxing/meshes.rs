//! Messages between the ranks of two meshes.

use std::ops::Range;

use millstream_types::{Attrs, Coordinates, DType, NdSbp, Ranges, Result, Sbp, Sharding};

use crate::formula::{Calls, Emitter, Expr, Kept, Symbol, ints};

use super::step::zeros;

/// A box of elements that one rank has and another needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The rank that has it.
    pub from: u32,
    /// The rank that needs it; it may be the same.
    pub to: u32,
    /// The range of each dimension of the whole tensor.
    pub range: Ranges,
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
        for HeldPart { range, ranks: holders, .. } in parts(shape, from) {
            let common: Ranges = needed
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

/// A part of a tensor, and the ranks that have it.
struct HeldPart {
    /// The coordinates along the axes that split the tensor; 0 along the others.
    at: Coordinates,
    range: Ranges,
    ranks: Vec<u32>,
}

/// Returns the parts of a tensor.
fn parts(shape: &[usize], of: &Sharding) -> Vec<HeldPart> {
    let mesh = of.mesh();
    let mut parts: Vec<HeldPart> = Vec::new();
    for (position, rank) in mesh.ranks().iter().enumerate() {
        let own = mesh.coordinates_at(position);
        let splits = own.iter().zip(of.sbp());
        let split = |(k, sbp): (&usize, &Sbp)| if sbp.dim().is_some() { *k } else { 0 };
        let at: Coordinates = splits.map(split).collect();
        match parts.iter_mut().find(|part| part.at == at) {
            Some(part) => part.ranks.push(*rank),
            None => {
                parts.push(HeldPart { range: of.part(shape, &own), at, ranks: vec![*rank] });
            }
        }
    }
    parts
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
    let kept = Kept::new(emitter);
    let calls = kept.calls();
    let part = part.map(|part| calls.of(part));
    let made = exchanged(calls, rank, dtype, shape, [from, to], part);
    let made = made.map(|x| x.symbol);
    kept.end(Ok(made))
}

fn exchanged<'a>(
    calls: Calls<'a>,
    rank: u32,
    dtype: DType,
    shape: &[usize],
    [from, to]: [&Sharding; 2],
    part: Option<Expr<'a>>,
) -> Option<Expr<'a>> {
    let all = transfers(shape, from, to).unwrap_or_default();
    let ranges = |of: &Sharding| {
        let at = of.mesh().coordinates(rank)?;
        Some(of.part(shape, &at))
    };
    let held = part.zip(ranges(from));
    for transfer in all.iter().filter(|t| t.from == rank && t.to != rank) {
        let Some((part, held)) = &held else { continue };
        let dense = boxed(*part, held, transfer).apply("copy", []);
        calls.call("send", &[dense], Attrs::new().with("to", i64::from(transfer.to)));
    }
    let needed = ranges(to)?;
    let lengths = |ranges: &[Range<usize>]| {
        ints(&ranges.iter().map(ExactSizeIterator::len).collect::<Vec<_>>())
    };
    let made = zeros(calls, lengths(&needed), dtype);
    for transfer in all.iter().filter(|t| t.to == rank) {
        let place = boxed(made, &needed, transfer);
        let received = match &held {
            Some((part, held)) if transfer.from == rank => boxed(*part, held, transfer),
            _ => {
                let buffer = zeros(calls, lengths(&transfer.range), dtype);
                let from = Attrs::new().with("from", i64::from(transfer.from));
                calls.call("recv_", &[buffer], from);
                buffer
            }
        };
        place.copy_(received);
    }
    Some(made)
}

/// Returns the box of a transfer within a part, as a view.
fn boxed<'a>(part: Expr<'a>, own: &[Range<usize>], transfer: &Transfer) -> Expr<'a> {
    let dims = own.iter().zip(&transfer.range).enumerate().filter(|(_, (own, range))| own != range);
    dims.fold(part, |view, (dim, (own, range))| {
        view.narrow(dim as i64, (range.start - own.start) as i64, range.len() as i64)
    })
}
