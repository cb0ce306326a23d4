//! The results of a collective, from what all ranks of a group give.

use crate::buffer::{Buffer, Elements};
use crate::call::{Call, Collective};
use crate::error::CommError;
use crate::reduction::reduce;

/// Returns what each rank gets, in the order of the ranks, from the calls of all of them, which are
/// equal. The buffers of one rank are those that it expects.
///
/// # Errors
/// The calls do not fit, or memory is exhausted.
pub(crate) fn combine(calls: &[Call]) -> Result<Vec<Vec<Buffer>>, CommError> {
    let Some(first) = calls.first() else { return Ok(Vec::new()) };
    let ranks = calls.len();
    let nothing = || vec![Vec::new(); ranks];
    match &first.collective {
        Collective::AllReduce(reduction) => {
            let reduced = (0..first.given.len()).map(|k| {
                let out = first.given[k].elements();
                reduce(&from(&of_all(calls, k)?, 0), Buffer::zeros(out)?, *reduction)
            });
            Ok(vec![reduced.collect::<Result<Vec<_>, _>>()?; ranks])
        }
        Collective::Reduce { reduction, root } => {
            let reduced = (0..first.given.len()).map(|k| {
                let out = first.given[k].elements();
                reduce(&from(&of_all(calls, k)?, 0), Buffer::zeros(out)?, *reduction)
            });
            let mut results = nothing();
            *at_root(&mut results, *root)? = reduced.collect::<Result<_, _>>()?;
            Ok(results)
        }
        Collective::Broadcast { root } => {
            let mut results = match calls.get(*root) {
                Some(of_root) => vec![of_root.given.clone(); ranks],
                None => nothing(),
            };
            *at_root(&mut results, *root)? = Vec::new();
            Ok(results)
        }
        Collective::AllGather { .. } => {
            let whole = gathered(calls)?;
            Ok(vec![vec![whole]; ranks])
        }
        Collective::ReduceScatter { reduction, counts } => {
            let parts = of_all(calls, 0)?;
            let dtype = parts[0].dtype();
            let each = counts.iter().scan(0, |end, &numel| {
                *end += numel;
                Some((*end - numel, numel))
            });
            each.map(|(first, numel)| {
                let out = Buffer::zeros(Elements { dtype, numel })?;
                Ok(vec![reduce(&from(&parts, first), out, *reduction)?])
            })
            .collect()
        }
        Collective::AllToAll { .. } => (0..ranks)
            .map(|to| {
                let parts = calls.iter().map(|call| part_for(call, to));
                let parts = parts.collect::<Result<Vec<Buffer>, _>>()?;
                let dtype = of_all(calls, 0)?[0].dtype();
                Ok(vec![Buffer::concat(dtype, &parts.iter().collect::<Vec<_>>())?])
            })
            .collect(),
        Collective::Gather { root, .. } => {
            let mut results = nothing();
            *at_root(&mut results, *root)? = vec![gathered(calls)?];
            Ok(results)
        }
        Collective::Scatter { root, counts } => {
            let whole = calls.get(*root).and_then(|call| call.given.first());
            let whole = whole.ok_or_else(|| CommError::new("the root gave no tensor to cut"))?;
            let each = counts.iter().scan(0, |from, &numel| {
                *from += numel;
                Some(*from - numel..*from)
            });
            each.map(|range| Ok(vec![whole.part(range)?])).collect()
        }
        Collective::Barrier => Ok(nothing()),
        Collective::Send | Collective::Receive => {
            Err(CommError::new("a message has a sender and a receiver"))
        }
        Collective::Meeting(_) => Err(CommError::new("the data of a meeting is not here")),
    }
}

fn at_root(results: &mut [Vec<Buffer>], root: usize) -> Result<&mut Vec<Buffer>, CommError> {
    let missing = || CommError::new(format!("the group has no rank at position {root}"));
    results.get_mut(root).ok_or_else(missing)
}

/// Returns the buffer at this position of every rank.
fn of_all(calls: &[Call], position: usize) -> Result<Vec<&Buffer>, CommError> {
    let each = calls.iter().map(|call| call.given.get(position)).collect::<Option<_>>();
    each.ok_or_else(|| CommError::new("expected as many tensors from every rank"))
}

/// Returns the buffers with the number of their first element.
fn from<'a>(parts: &[&'a Buffer], first: usize) -> Vec<(&'a Buffer, usize)> {
    parts.iter().map(|part| (*part, first)).collect()
}

fn gathered(calls: &[Call]) -> Result<Buffer, CommError> {
    let parts = of_all(calls, 0)?;
    Buffer::concat(parts[0].dtype(), &parts)
}

/// Returns the elements that a rank gives to the one at position `to`.
fn part_for(call: &Call, to: usize) -> Result<Buffer, CommError> {
    let Collective::AllToAll { sent, .. } = &call.collective else {
        return Err(CommError::new(format!("expected an all-to-all, got {call}")));
    };
    let from: usize = sent.iter().take(to).sum();
    let count = sent.get(to).copied().unwrap_or_default();
    match call.given.first() {
        Some(whole) => whole.part(from..from + count),
        None => Err(CommError::new("expected a tensor from every rank")),
    }
}
