//! Kernels of the ops of `millstream_ops::collective`: elements are packed, exchanged through a
//! [`Communicator`], and put where they belong.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use millstream_ops::collective::Reduction;
use millstream_types::DType;
use millstream_types::layout::contiguous_strides;

use super::copy::convert;
use super::element::{Element, compute, dispatch};
use super::memory::Temporary;
use super::number::Number;
use super::strided::{CHUNK, Sequence};
use crate::communicator::{Communicator, Message};
use crate::context::{KernelCtx, RawTensor};
use crate::registry::{Kernel, KernelRegistry};

type Run = fn(&KernelCtx<'_>, &dyn Communicator) -> Result<()>;

const KERNELS: &[(&str, Run)] = &[
    ("allreduce_", allreduce),
    ("broadcast_", broadcast),
    ("allgather_", allgather),
    ("reduce_scatter_", reduce_scatter),
    ("alltoall_", alltoall),
    ("send", send),
    ("recv_", recv),
];

/// A kernel that speaks to the other ranks.
struct Collective {
    run: Run,
    group: Arc<dyn Communicator>,
}

impl Kernel for Collective {
    fn run(&self, ctx: &KernelCtx<'_>) -> Result<()> {
        (self.run)(ctx, &*self.group)
    }
}

/// Adds the kernels for one rank of a group.
pub(super) fn register(kernels: &mut KernelRegistry, group: &Arc<dyn Communicator>) {
    for &(op, run) in KERNELS {
        let kernel = Collective { run, group: group.clone() };
        kernels.register(super::KIND, op, Arc::new(kernel));
    }
}

/// The elements of an operand.
fn pack(ctx: &KernelCtx<'_>, x: RawTensor<'_>) -> Result<Message> {
    let mut packed = Temporary::new(x.dtype, x.shape)?;
    // SAFETY: an operand of the call, and memory of this function's own.
    unsafe { convert(ctx, x, packed.tensor())? };
    Ok(Message { dtype: x.dtype, numel: x.numel(), words: Arc::new(packed.into_words()) })
}

/// Calls `f` with the elements of a parcel as a tensor of this shape, which is only to be read.
fn as_tensor<T>(
    parcel: &Message,
    shape: &[usize],
    f: impl FnOnce(RawTensor<'_>) -> Result<T>,
) -> Result<T> {
    let numel: usize = shape.iter().product();
    ensure!(
        numel == parcel.numel && parcel.words.len() * 8 >= numel * parcel.dtype.size(),
        "{parcel:?} came for {shape:?}"
    );
    let strides = contiguous_strides(shape)?;
    let data = parcel.words.as_ptr().cast_mut().cast();
    f(RawTensor { data, dtype: parcel.dtype, shape, strides: &strides })
}

/// Writes a parcel to an operand of as many elements.
fn unpack(ctx: &KernelCtx<'_>, parcel: &Message, out: RawTensor<'_>) -> Result<()> {
    ensure!(parcel.dtype == out.dtype, "{parcel:?} came for {out:?}");
    // SAFETY: the parcel is only read, and an operand of the call is written.
    as_tensor(parcel, out.shape, |from| unsafe { convert(ctx, from, out) })
}

fn operands<'a>(ctx: &KernelCtx<'a>) -> Result<Vec<RawTensor<'a>>> {
    (0..ctx.operands()).map(|k| ctx.operand(k)).collect()
}

fn describe(op: &str, tensors: &[RawTensor<'_>], more: &str) -> String {
    let each: Vec<String> = tensors.iter().map(|t| format!("{}{:?}", t.dtype, t.shape)).collect();
    format!("{op}({}){more}", each.join(", "))
}

fn round(ctx: &KernelCtx<'_>) -> Result<u64> {
    let round = ctx.attrs().int("round")?.context("round: expected, and not given")?;
    Ok(u64::try_from(round)?)
}

/// The same for every rank.
fn to_all(parcels: &[Message], group: &dyn Communicator) -> Vec<Vec<Message>> {
    vec![parcels.to_vec(); group.ranks()]
}

/// What all ranks bring becomes one, element by element, in the order of the ranks.
///
/// # Safety
/// `out` is an operand of the call that it writes.
unsafe fn reduce(
    parts: &[RawTensor<'_>],
    reduction: Reduction,
    out: RawTensor<'_>,
    from: usize,
) -> Result<()> {
    let count = out.numel();
    // SAFETY: the caller's promise; parcels are only read.
    let to = unsafe { Sequence::new(out) };
    // SAFETY: as above.
    let parts: Vec<Sequence> = parts.iter().map(|p| unsafe { Sequence::new(*p) }).collect();
    compute!(out.dtype, T => {
        let (mut total, mut part) = ([<T as Element>::ZERO; CHUNK], [<T as Element>::ZERO; CHUNK]);
        for at in (0..count).step_by(CHUNK) {
            let some = CHUNK.min(count - at);
            let (total, part) = (&mut total[..some], &mut part[..some]);
            for (rank, values) in parts.iter().enumerate() {
                if rank == 0 {
                    values.load(from + at, total);
                    continue;
                }
                values.load(from + at, part);
                for (t, &p) in total.iter_mut().zip(part.iter()) {
                    *t = match reduction {
                        Reduction::Sum | Reduction::Mean => T::plus(*t, p),
                        Reduction::Product => T::times(*t, p),
                        Reduction::Min => if p < *t { p } else { *t },
                        Reduction::Max => if p > *t { p } else { *t },
                    };
                }
            }
            if reduction == Reduction::Mean {
                let ranks = T::from_i64(parts.len() as i64);
                total.iter_mut().for_each(|t| *t /= ranks);
            }
            to.store(at, total);
        }
    });
    Ok(())
}

/// Calls `f` with the first parcel of every rank as a tensor of this shape.
fn all_of<T>(
    came: &[Message],
    shape: &[usize],
    f: impl FnOnce(&[RawTensor<'_>]) -> Result<T>,
) -> Result<T> {
    let strides = contiguous_strides(shape)?;
    let tensor = |parcel: &Message| as_tensor(parcel, shape, |t| Ok((t.data, t.dtype)));
    let places = came.iter().map(tensor).collect::<Result<Vec<_>>>()?;
    let tensors: Vec<RawTensor<'_>> = places
        .into_iter()
        .map(|(data, dtype)| RawTensor { data, dtype, shape, strides: &strides })
        .collect();
    f(&tensors)
}

fn allreduce(ctx: &KernelCtx<'_>, group: &dyn Communicator) -> Result<()> {
    let tensors = operands(ctx)?;
    let reduction = Reduction::of(ctx.attrs())?;
    let what = describe("allreduce_", &tensors, &format!("; {reduction:?}"));
    let mine = tensors.iter().map(|t| pack(ctx, *t)).collect::<Result<Vec<_>>>()?;
    let came = group.exchange(round(ctx)?, &what, to_all(&mine, group))?;
    for (k, out) in tensors.iter().enumerate() {
        let parts: Vec<Message> = of_each(&came, k)?;
        // SAFETY: an operand of the call, which the schema says is written.
        all_of(&parts, out.shape, |parts| unsafe { reduce(parts, reduction, *out, 0) })?;
    }
    Ok(())
}

/// Every rank's parcel of this number.
fn of_each(came: &[Vec<Message>], number: usize) -> Result<Vec<Message>> {
    let one = |parcels: &Vec<Message>| parcels.get(number).cloned();
    came.iter().map(one).collect::<Option<_>>().context("a rank sent too few tensors")
}

fn broadcast(ctx: &KernelCtx<'_>, group: &dyn Communicator) -> Result<()> {
    let tensors = operands(ctx)?;
    let root = ctx.attrs().int("root")?.context("root: expected, and not given")?;
    let at = usize::try_from(root).ok().filter(|root| *root < group.ranks());
    let at = at.with_context(|| format!("root: there is no rank {root} of {}", group.ranks()))?;
    let what = describe("broadcast_", &tensors, &format!("; root {root}"));
    let mine = match group.rank() == at {
        true => tensors.iter().map(|t| pack(ctx, *t)).collect::<Result<Vec<_>>>()?,
        false => Vec::new(),
    };
    let came = group.exchange(round(ctx)?, &what, to_all(&mine, group))?;
    if group.rank() == at {
        return Ok(());
    }
    let came = came.get(at).context("the root sent nothing")?;
    ensure!(came.len() == tensors.len(), "{} tensors came, not {}", came.len(), tensors.len());
    came.iter().zip(tensors).try_for_each(|(parcel, out)| unpack(ctx, parcel, out))
}

/// Writes parcels to an operand, one after another in row-major order.
fn unpack_parts(parts: &[Message], out: RawTensor<'_>) -> Result<()> {
    let total: usize = parts.iter().map(|p| p.numel).sum();
    ensure!(total == out.numel(), "{total} elements came for {out:?}");
    // SAFETY: an operand of the call, which the schema says is written.
    let to = unsafe { Sequence::new(out) };
    let mut at = 0;
    for part in parts {
        ensure!(part.dtype == out.dtype, "{part:?} came for {out:?}");
        as_tensor(part, &[part.numel], |from| {
            // SAFETY: a parcel is only read.
            let from = unsafe { Sequence::new(from) };
            move_elements(part.dtype, (&from, 0), (&to, at), part.numel);
            Ok(())
        })?;
        at += part.numel;
    }
    Ok(())
}

/// Copies elements from one place in row-major order to another.
fn move_elements(dtype: DType, from: (&Sequence, usize), to: (&Sequence, usize), count: usize) {
    dispatch!(dtype, T => {
        let mut buffer = [<T as Element>::ZERO; CHUNK];
        for at in (0..count).step_by(CHUNK) {
            let some = CHUNK.min(count - at);
            from.0.load(from.1 + at, &mut buffer[..some]);
            to.0.store(to.1 + at, &buffer[..some]);
        }
    });
}

fn allgather(ctx: &KernelCtx<'_>, group: &dyn Communicator) -> Result<()> {
    let (out, x) = (ctx.operand(0)?, ctx.operand(1)?);
    let what = describe("allgather_", &[x], "");
    let came = group.exchange(round(ctx)?, &what, to_all(&[pack(ctx, x)?], group))?;
    unpack_parts(&of_each(&came, 0)?, out)
}

fn reduce_scatter(ctx: &KernelCtx<'_>, group: &dyn Communicator) -> Result<()> {
    let (out, x) = (ctx.operand(0)?, ctx.operand(1)?);
    let reduction = Reduction::of(ctx.attrs())?;
    let agree = out.numel().checked_mul(group.ranks()) == Some(x.numel());
    ensure!(agree, "{out:?} is not one of {} parts of {x:?}", group.ranks());
    let what = describe("reduce_scatter_", &[x], &format!("; {reduction:?}"));
    let came = group.exchange(round(ctx)?, &what, to_all(&[pack(ctx, x)?], group))?;
    let from = out.numel() * group.rank();
    // SAFETY: an operand of the call, which the schema says is written.
    all_of(&of_each(&came, 0)?, x.shape, |parts| unsafe { reduce(parts, reduction, out, from) })
}

fn alltoall(ctx: &KernelCtx<'_>, group: &dyn Communicator) -> Result<()> {
    let (out, x) = (ctx.operand(0)?, ctx.operand(1)?);
    let ranks = group.ranks();
    let splits = |name: &str, tensor: &RawTensor<'_>| -> Result<Vec<usize>> {
        let rows = tensor.shape.first().copied().unwrap_or(1);
        let given = ctx.attrs().ints(name)?;
        let rows_of: Vec<usize> = match given {
            Some(given) => {
                ensure!(given.len() == ranks, "{name}: {} parts for {ranks} ranks", given.len());
                given.into_iter().map(usize::try_from).collect::<Result<_, _>>()?
            }
            None => {
                ensure!(rows.is_multiple_of(ranks), "{rows} rows for {ranks} ranks");
                vec![rows / ranks; ranks]
            }
        };
        let row = tensor.numel().checked_div(rows).unwrap_or(0);
        Ok(rows_of.into_iter().map(|r| r * row).collect())
    };
    let (to_each, from_each) = (splits("input_splits", &x)?, splits("output_splits", &out)?);
    let whole = pack(ctx, x)?;
    let mut parcels = Vec::with_capacity(ranks);
    let mut at = 0;
    for count in to_each {
        parcels.push(vec![cut(&whole, at, count)?]);
        at += count;
    }
    let came = group.exchange(round(ctx)?, &format!("alltoall_({})", x.dtype), parcels)?;
    let parts = of_each(&came, 0)?;
    for (rank, (part, expected)) in parts.iter().zip(&from_each).enumerate() {
        ensure!(part.numel == *expected, "rank {rank} sent {part:?}, expected {expected} elements");
    }
    unpack_parts(&parts, out)
}

/// Some elements of a parcel.
fn cut(parcel: &Message, from: usize, count: usize) -> Result<Message> {
    let mut part = Temporary::new(parcel.dtype, &[count])?;
    as_tensor(parcel, &[parcel.numel], |whole| {
        // SAFETY: a parcel, which is only read, and memory of this function's own.
        let (whole, to) = unsafe { (Sequence::new(whole), Sequence::new(part.tensor())) };
        move_elements(parcel.dtype, (&whole, from), (&to, 0), count);
        Ok(())
    })?;
    Ok(Message { dtype: parcel.dtype, numel: count, words: Arc::new(part.into_words()) })
}

fn peer(ctx: &KernelCtx<'_>, name: &str, group: &dyn Communicator) -> Result<(usize, i64)> {
    let rank = ctx.attrs().int(name)?.with_context(|| format!("{name}: expected a rank"))?;
    let at = usize::try_from(rank).ok().filter(|r| *r < group.ranks());
    let at = at.with_context(|| format!("{name}: there is no rank {rank} of {}", group.ranks()))?;
    Ok((at, ctx.attrs().int("tag")?.unwrap_or(0)))
}

fn send(ctx: &KernelCtx<'_>, group: &dyn Communicator) -> Result<()> {
    let (to, tag) = peer(ctx, "to", group)?;
    let parcels = operands(ctx)?.into_iter().map(|t| pack(ctx, t)).collect::<Result<_>>()?;
    group.send(to, tag, parcels)
}

fn recv(ctx: &KernelCtx<'_>, group: &dyn Communicator) -> Result<()> {
    let (from, tag) = peer(ctx, "from", group)?;
    let came = group.recv(from, tag)?;
    let tensors = operands(ctx)?;
    ensure!(came.len() == tensors.len(), "{} tensors came, not {}", came.len(), tensors.len());
    came.iter().zip(tensors).try_for_each(|(parcel, out)| unpack(ctx, parcel, out))
}
