//! The calls of NCCL that make a collective.

use millstream_ep::cuda::nccl::{NcclCall, NcclMemory, NcclReduction, check_reduction};
use millstream_ops::collective::ReduceOp;
use millstream_types::DType;

use crate::buffer::Elements;
use crate::call::Collective;
use crate::error::CommError;

use super::{DeviceCall, of_nccl};

fn reduction_of(reduction: ReduceOp) -> NcclReduction {
    match reduction {
        ReduceOp::Sum => NcclReduction::Sum,
        ReduceOp::Product => NcclReduction::Product,
        ReduceOp::Max => NcclReduction::Max,
        ReduceOp::Min => NcclReduction::Min,
        ReduceOp::Mean => NcclReduction::Mean,
    }
}

/// Checks that NCCL makes a call.
///
/// # Errors
/// It does not reduce elements of the dtype, or the elements are too many for the memory.
pub(super) fn check(call: &DeviceCall) -> Result<(), CommError> {
    let reduction = match call.collective {
        Collective::AllReduce(reduction)
        | Collective::Reduce { reduction, .. }
        | Collective::ReduceScatter { reduction, .. } => Some(reduction_of(reduction)),
        _ => None,
    };
    for (elements, memory) in call.given.iter().chain(&call.taken) {
        if let Some(reduction) = reduction {
            let checked = check_reduction(elements.dtype.part(), reduction).map_err(of_nccl);
            checked.map_err(|e| CommError::new(format!("{}: {e}", call.op)))?;
        }
        if elements.numel.checked_mul(elements.dtype.size()) != Some(memory.bytes()) {
            let bytes = memory.bytes();
            return Err(CommError::new(format!("expected the bytes of {elements}, got {bytes}")));
        }
    }
    Ok(())
}

/// Parts of a tensor, one after the other: each with its position.
fn parts(
    (elements, memory): (Elements, NcclMemory),
    counts: &[usize],
) -> Result<Vec<NcclMemory>, CommError> {
    let size = elements.dtype.size();
    let total = counts.iter().try_fold(0usize, |total, count| total.checked_add(*count));
    if total != Some(elements.numel) {
        return Err(CommError::new(format!("expected parts of {elements}, got {counts:?}")));
    }
    let each = counts.iter().scan(0, |end, count| {
        *end += count * size;
        Some(memory.part(*end - count * size, count * size))
    });
    Ok(each.collect())
}

fn are_even(counts: &[usize]) -> bool {
    counts.iter().all(|count| *count == counts[0])
}

/// The two halves of a call's tensors by position.
struct Tensors<'a>(&'a DeviceCall);

impl Tensors<'_> {
    fn given(&self) -> Result<(Elements, NcclMemory), CommError> {
        self.0.given.first().copied().ok_or_else(|| self.lacking())
    }

    fn taken(&self) -> Result<(Elements, NcclMemory), CommError> {
        self.0.taken.first().copied().ok_or_else(|| self.lacking())
    }

    fn lacking(&self) -> CommError {
        CommError::new(format!("{}: a tensor is missing: schema and kernel disagree", self.0.op))
    }

    /// Returns each given tensor with the one that takes its reduction, and the dtype to reduce:
    /// complex numbers are pairs of floats.
    fn reduced(&self) -> Result<Vec<(NcclMemory, NcclMemory, DType)>, CommError> {
        let DeviceCall { given, taken, .. } = self.0;
        if given.len() != taken.len() {
            return Err(self.lacking());
        }
        let each = given.iter().zip(taken);
        Ok(each.map(|((elements, x), (_, out))| (*x, *out, elements.dtype.part())).collect())
    }
}

/// Returns the calls of this rank, at a position of its group, for a message those of the peer's
/// position. Calls of the same rank without bytes are left out on all ranks.
///
/// # Errors
/// The tensors do not fit the collective.
pub(super) fn calls(
    call: &DeviceCall,
    position: usize,
    peer: usize,
) -> Result<Vec<NcclCall>, CommError> {
    let tensors = Tensors(call);
    let calls: Vec<NcclCall> = match &call.collective {
        Collective::AllReduce(reduction) => {
            let op = reduction_of(*reduction);
            let each = tensors.reduced()?.into_iter();
            each.map(|(x, out, dtype)| NcclCall::AllReduce(x, out, dtype, op)).collect()
        }
        Collective::Reduce { reduction, root } => {
            let op = reduction_of(*reduction);
            let each = tensors.reduced()?.into_iter();
            each.map(|(x, out, dtype)| NcclCall::Reduce(x, out, dtype, op, *root)).collect()
        }
        Collective::Broadcast { root } => {
            // The root gives its tensors in place.
            let each = call.given.iter().chain(&call.taken);
            each.map(|(_, memory)| NcclCall::Broadcast(*memory, *memory, *root)).collect()
        }
        Collective::AllGather { counts } => {
            let ((_, x), out) = (tensors.given()?, tensors.taken()?);
            let parts = parts(out, counts)?;
            match are_even(counts) {
                true => vec![NcclCall::AllGather(x, out.1)],
                false => {
                    let of = |(root, part): (usize, NcclMemory)| {
                        let from = if root == position { x } else { part };
                        NcclCall::Broadcast(from, part, root)
                    };
                    parts.into_iter().enumerate().map(of).collect()
                }
            }
        }
        Collective::ReduceScatter { reduction, counts } => {
            let (x, (elements, out)) = (tensors.given()?, tensors.taken()?);
            let (op, dtype) = (reduction_of(*reduction), elements.dtype.part());
            let parts = parts(x, counts)?;
            match are_even(counts) {
                true => vec![NcclCall::ReduceScatter(x.1, out, dtype, op)],
                false => {
                    let each = parts.into_iter().enumerate();
                    each.map(|(root, part)| NcclCall::Reduce(part, out, dtype, op, root)).collect()
                }
            }
        }
        Collective::AllToAll { sent, received } => {
            let sends = parts(tensors.given()?, sent)?.into_iter().enumerate();
            let receives = parts(tensors.taken()?, received)?.into_iter().enumerate();
            let sends = sends.map(|(to, part)| NcclCall::Send(part, to));
            sends.chain(receives.map(|(from, part)| NcclCall::Receive(part, from))).collect()
        }
        Collective::Gather { root, counts } => {
            let mut calls = vec![NcclCall::Send(tensors.given()?.1, *root)];
            if position == *root {
                let parts = parts(tensors.taken()?, counts)?.into_iter().enumerate();
                calls.extend(parts.map(|(from, part)| NcclCall::Receive(part, from)));
            }
            calls
        }
        Collective::Scatter { root, counts } => {
            let mut calls = vec![NcclCall::Receive(tensors.taken()?.1, *root)];
            if position == *root {
                let parts = parts(tensors.given()?, counts)?.into_iter().enumerate();
                calls.extend(parts.map(|(to, part)| NcclCall::Send(part, to)));
            }
            calls
        }
        Collective::Barrier => {
            let (_, byte) = tensors.taken()?;
            vec![NcclCall::AllReduce(byte, byte, DType::U8, NcclReduction::Sum)]
        }
        Collective::Send => {
            call.given.iter().map(|(_, memory)| NcclCall::Send(*memory, peer)).collect()
        }
        Collective::Receive => {
            call.taken.iter().map(|(_, memory)| NcclCall::Receive(*memory, peer)).collect()
        }
        Collective::Meeting(_) => return Err(tensors.lacking()),
    };
    let has_bytes = |call: &NcclCall| match call {
        NcclCall::AllReduce(x, ..)
        | NcclCall::Reduce(x, ..)
        | NcclCall::AllGather(x, _)
        | NcclCall::Send(x, _) => x.bytes() > 0,
        NcclCall::Broadcast(_, out, _)
        | NcclCall::ReduceScatter(_, out, ..)
        | NcclCall::Receive(out, _) => out.bytes() > 0,
    };
    Ok(calls.into_iter().filter(has_bytes).collect())
}
