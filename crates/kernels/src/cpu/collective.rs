//! Kernels of the ops in `millstream_ops::collective`: they pack elements, exchange them through a
//! [`Group`], and unpack them to the operands.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use millstream_ops::collective::ReduceOp;
use millstream_types::DType;
use millstream_types::layout::contiguous_strides;

use super::copy::convert;
use super::element::{Element, compute, dispatch};
use super::memory::Temporary;
use super::number::Number;
use super::strided::{CHUNK, Sequence};
use crate::context::{KernelCtx, RawTensor};
use crate::group::{Group, Parcel};
use crate::registry::{Kernel, KernelRegistry};

type Run = fn(&KernelCtx<'_>, &dyn Group) -> Result<()>;

const KERNELS: &[(&str, Run)] = &[
    ("allreduce_", allreduce),
    ("broadcast_", broadcast),
    ("allgather_", allgather),
    ("reduce_scatter_", reduce_scatter),
    ("alltoall_", alltoall),
    ("send", send),
    ("recv_", recv),
];

/// A kernel that communicates with the other ranks.
struct Collective {
    run: Run,
    group: Arc<dyn Group>,
}

impl Kernel for Collective {
    fn run(&self, ctx: &KernelCtx<'_>) -> Result<()> {
        (self.run)(ctx, &*self.group)
    }
}

/// Registers the kernels for one rank of a group.
pub(super) fn register(kernels: &mut KernelRegistry, group: &Arc<dyn Group>) {
    for &(op, run) in KERNELS {
        let kernel = Collective { run, group: group.clone() };
        kernels.register(super::KIND, op, Arc::new(kernel));
    }
}

/// Packs the elements of an operand.
fn pack(ctx: &KernelCtx<'_>, x: RawTensor<'_>) -> Result<Parcel> {
    let mut packed = Temporary::new(x.dtype, x.shape)?;
    // SAFETY: an operand of the call, and memory that this function owns.
    unsafe { convert(ctx, x, packed.tensor())? };
    Ok(Parcel { dtype: x.dtype, numel: x.numel(), words: Arc::new(packed.into_words()) })
}

/// Calls `f` with the elements of a parcel as a tensor of this shape, which `f` may only read.
fn as_tensor<T>(
    parcel: &Parcel,
    shape: &[usize],
    f: impl FnOnce(RawTensor<'_>) -> Result<T>,
) -> Result<T> {
    let numel: usize = shape.iter().product();
    ensure!(
        numel == parcel.numel && parcel.words.len() * 8 >= numel * parcel.dtype.size(),
        "expected elements of shape {shape:?}, received {parcel:?}"
    );
    let strides = contiguous_strides(shape)?;
    let data = parcel.words.as_ptr().cast_mut().cast();
    f(RawTensor { data, dtype: parcel.dtype, shape, strides: &strides })
}

/// Writes a parcel to an operand of as many elements.
fn unpack(ctx: &KernelCtx<'_>, parcel: &Parcel, out: RawTensor<'_>) -> Result<()> {
    ensure!(parcel.dtype == out.dtype, "expected elements for {out:?}, received {parcel:?}");
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
    let round = ctx.attrs().int("round")?.context("round: missing; this argument is required")?;
    Ok(u64::try_from(round)?)
}

/// Returns the same parcels for every rank.
fn to_all(parcels: &[Parcel], group: &dyn Group) -> Vec<Vec<Parcel>> {
    vec![parcels.to_vec(); group.ranks()]
}

/// Reduces the operands of all ranks element by element, in rank order.
///
/// # Safety
/// `out` is an operand of the call that the call writes.
unsafe fn reduce(
    parts: &[RawTensor<'_>],
    reduction: ReduceOp,
    out: RawTensor<'_>,
    from: usize,
) -> Result<()> {
    let count = out.numel();
    // SAFETY: guaranteed by the caller; parcels are only read.
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
                        ReduceOp::Sum | ReduceOp::Mean => T::plus(*t, p),
                        ReduceOp::Product => T::times(*t, p),
                        ReduceOp::Min => if p < *t { p } else { *t },
                        ReduceOp::Max => if p > *t { p } else { *t },
                    };
                }
            }
            if reduction == ReduceOp::Mean {
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
    received: &[Parcel],
    shape: &[usize],
    f: impl FnOnce(&[RawTensor<'_>]) -> Result<T>,
) -> Result<T> {
    let strides = contiguous_strides(shape)?;
    let tensor = |parcel: &Parcel| as_tensor(parcel, shape, |t| Ok((t.data, t.dtype)));
    let addresses = received.iter().map(tensor).collect::<Result<Vec<_>>>()?;
    let tensors: Vec<RawTensor<'_>> = addresses
        .into_iter()
        .map(|(data, dtype)| RawTensor { data, dtype, shape, strides: &strides })
        .collect();
    f(&tensors)
}

fn allreduce(ctx: &KernelCtx<'_>, group: &dyn Group) -> Result<()> {
    let tensors = operands(ctx)?;
    let reduction = ReduceOp::of(ctx.attrs())?;
    let what = describe("allreduce_", &tensors, &format!("; {reduction:?}"));
    let mine = tensors.iter().map(|t| pack(ctx, *t)).collect::<Result<Vec<_>>>()?;
    let received = group.exchange(round(ctx)?, &what, to_all(&mine, group))?;
    for (k, out) in tensors.iter().enumerate() {
        let parts: Vec<Parcel> = of_each(&received, k)?;
        // SAFETY: an operand of the call; the schema declares the write.
        all_of(&parts, out.shape, |parts| unsafe { reduce(parts, reduction, *out, 0) })?;
    }
    Ok(())
}

/// Returns the parcel at this position of every rank.
fn of_each(received: &[Vec<Parcel>], number: usize) -> Result<Vec<Parcel>> {
    let one = |parcels: &Vec<Parcel>| parcels.get(number).cloned();
    received
        .iter()
        .map(one)
        .collect::<Option<_>>()
        .context("expected as many tensors from every rank, received fewer from one")
}

fn broadcast(ctx: &KernelCtx<'_>, group: &dyn Group) -> Result<()> {
    let tensors = operands(ctx)?;
    let root = ctx.attrs().int("root")?.context("root: missing; this argument is required")?;
    let at = usize::try_from(root).ok().filter(|root| *root < group.ranks());
    let at =
        at.with_context(|| format!("root: expected a rank below {}, got {root}", group.ranks()))?;
    let what = describe("broadcast_", &tensors, &format!("; root {root}"));
    let mine = match group.rank() == at {
        true => tensors.iter().map(|t| pack(ctx, *t)).collect::<Result<Vec<_>>>()?,
        false => Vec::new(),
    };
    let received = group.exchange(round(ctx)?, &what, to_all(&mine, group))?;
    if group.rank() == at {
        return Ok(());
    }
    let received = received.get(at).context("expected tensors from the root, received none")?;
    ensure!(
        received.len() == tensors.len(),
        "expected {} tensors, received {}",
        tensors.len(),
        received.len()
    );
    received.iter().zip(tensors).try_for_each(|(parcel, out)| unpack(ctx, parcel, out))
}

/// Writes parcels to an operand, one after the other in row-major order.
fn unpack_parts(parts: &[Parcel], out: RawTensor<'_>) -> Result<()> {
    let total: usize = parts.iter().map(|p| p.numel).sum();
    ensure!(total == out.numel(), "expected elements for {out:?}, received {total}");
    // SAFETY: an operand of the call; the schema declares the write.
    let to = unsafe { Sequence::new(out) };
    let mut at = 0;
    for part in parts {
        ensure!(part.dtype == out.dtype, "expected elements for {out:?}, received {part:?}");
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

/// Copies elements between two positions in row-major order.
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

fn allgather(ctx: &KernelCtx<'_>, group: &dyn Group) -> Result<()> {
    let (out, x) = (ctx.operand(0)?, ctx.operand(1)?);
    let what = describe("allgather_", &[x], "");
    let received = group.exchange(round(ctx)?, &what, to_all(&[pack(ctx, x)?], group))?;
    unpack_parts(&of_each(&received, 0)?, out)
}

fn reduce_scatter(ctx: &KernelCtx<'_>, group: &dyn Group) -> Result<()> {
    let (out, x) = (ctx.operand(0)?, ctx.operand(1)?);
    let reduction = ReduceOp::of(ctx.attrs())?;
    let agree = out.numel().checked_mul(group.ranks()) == Some(x.numel());
    ensure!(
        agree,
        "expected out to have 1 / {} of the elements of {x:?}, got {out:?}",
        group.ranks()
    );
    let what = describe("reduce_scatter_", &[x], &format!("; {reduction:?}"));
    let received = group.exchange(round(ctx)?, &what, to_all(&[pack(ctx, x)?], group))?;
    let from = out.numel() * group.rank();
    // SAFETY: an operand of the call; the schema declares the write.
    all_of(&of_each(&received, 0)?, x.shape, |parts| unsafe { reduce(parts, reduction, out, from) })
}

fn alltoall(ctx: &KernelCtx<'_>, group: &dyn Group) -> Result<()> {
    let (out, x) = (ctx.operand(0)?, ctx.operand(1)?);
    let ranks = group.ranks();
    let splits = |name: &str, tensor: &RawTensor<'_>| -> Result<Vec<usize>> {
        let rows = tensor.shape.first().copied().unwrap_or(1);
        let given = ctx.attrs().ints(name)?;
        let rows_of: Vec<usize> = match given {
            Some(given) => {
                ensure!(
                    given.len() == ranks,
                    "{name}: expected {ranks} parts, one for each rank, got {}",
                    given.len()
                );
                given.into_iter().map(usize::try_from).collect::<Result<_, _>>()?
            }
            None => {
                ensure!(
                    rows.is_multiple_of(ranks),
                    "expected rows divisible by {ranks} ranks, got {rows}; pass the splits"
                );
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
    let received = group.exchange(round(ctx)?, &format!("alltoall_({})", x.dtype), parcels)?;
    let parts = of_each(&received, 0)?;
    for (rank, (part, expected)) in parts.iter().zip(&from_each).enumerate() {
        ensure!(
            part.numel == *expected,
            "expected {expected} elements from rank {rank}, received {part:?}"
        );
    }
    unpack_parts(&parts, out)
}

/// Returns a range of the elements of a parcel.
fn cut(parcel: &Parcel, from: usize, count: usize) -> Result<Parcel> {
    let mut part = Temporary::new(parcel.dtype, &[count])?;
    as_tensor(parcel, &[parcel.numel], |whole| {
        // SAFETY: a parcel, which is only read, and memory that this function owns.
        let (whole, to) = unsafe { (Sequence::new(whole), Sequence::new(part.tensor())) };
        move_elements(parcel.dtype, (&whole, from), (&to, 0), count);
        Ok(())
    })?;
    Ok(Parcel { dtype: parcel.dtype, numel: count, words: Arc::new(part.into_words()) })
}

fn peer(ctx: &KernelCtx<'_>, name: &str, group: &dyn Group) -> Result<(usize, i64)> {
    let rank = ctx
        .attrs()
        .int(name)?
        .with_context(|| format!("{name}: missing; this argument is required"))?;
    let at = usize::try_from(rank).ok().filter(|r| *r < group.ranks());
    let at =
        at.with_context(|| format!("{name}: expected a rank below {}, got {rank}", group.ranks()))?;
    Ok((at, ctx.attrs().int("tag")?.unwrap_or(0)))
}

fn send(ctx: &KernelCtx<'_>, group: &dyn Group) -> Result<()> {
    let (to, tag) = peer(ctx, "to", group)?;
    let parcels = operands(ctx)?.into_iter().map(|t| pack(ctx, t)).collect::<Result<_>>()?;
    group.send(to, tag, parcels)
}

fn recv(ctx: &KernelCtx<'_>, group: &dyn Group) -> Result<()> {
    let (from, tag) = peer(ctx, "from", group)?;
    let received = group.recv(from, tag)?;
    let tensors = operands(ctx)?;
    ensure!(
        received.len() == tensors.len(),
        "expected {} tensors, received {}",
        tensors.len(),
        received.len()
    );
    received.iter().zip(tensors).try_for_each(|(parcel, out)| unpack(ctx, parcel, out))
}
