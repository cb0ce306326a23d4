//! Kernels of the ops in `millstream_ops::collective`: they pack elements, exchange them through a
//! [`Communicator`], and unpack them to the operands.

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

/// A kernel that communicates with the other ranks.
struct Collective {
    run: Run,
    communicator: Arc<dyn Communicator>,
}

impl Kernel for Collective {
    fn run(&self, ctx: &KernelCtx<'_>) -> Result<()> {
        (self.run)(ctx, &*self.communicator)
    }
}

/// Registers the kernels for one rank of a communicator.
pub(super) fn register(kernels: &mut KernelRegistry, communicator: &Arc<dyn Communicator>) {
    for &(op, run) in KERNELS {
        let kernel = Collective { run, communicator: communicator.clone() };
        kernels.register(super::KIND, op, Arc::new(kernel));
    }
}

/// Packs the elements of an operand.
fn pack(ctx: &KernelCtx<'_>, x: RawTensor<'_>) -> Result<Message> {
    let mut packed = Temporary::new(x.dtype, x.shape)?;
    // SAFETY: an operand of the call, and memory that this function owns.
    unsafe { convert(ctx, x, packed.tensor())? };
    Ok(Message { dtype: x.dtype, numel: x.numel(), words: Arc::new(packed.into_words()) })
}

/// Calls `f` with the elements of a message as a tensor of this shape, which `f` may only read.
fn as_tensor<T>(
    message: &Message,
    shape: &[usize],
    f: impl FnOnce(RawTensor<'_>) -> Result<T>,
) -> Result<T> {
    let numel: usize = shape.iter().product();
    ensure!(
        numel == message.numel && message.words.len() * 8 >= numel * message.dtype.size(),
        "expected elements of shape {shape:?}, received {message:?}"
    );
    let strides = contiguous_strides(shape)?;
    let data = message.words.as_ptr().cast_mut().cast();
    f(RawTensor { data, dtype: message.dtype, shape, strides: &strides })
}

/// Writes a message to an operand of as many elements.
fn unpack(ctx: &KernelCtx<'_>, message: &Message, out: RawTensor<'_>) -> Result<()> {
    ensure!(message.dtype == out.dtype, "expected elements for {out:?}, received {message:?}");
    // SAFETY: the message is only read, and an operand of the call is written.
    as_tensor(message, out.shape, |from| unsafe { convert(ctx, from, out) })
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

/// Returns the same messages for every rank.
fn to_all(messages: &[Message], communicator: &dyn Communicator) -> Vec<Vec<Message>> {
    vec![messages.to_vec(); communicator.ranks()]
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
    // SAFETY: guaranteed by the caller; messages are only read.
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

/// Calls `f` with the first message of every rank as a tensor of this shape.
fn all_of<T>(
    received: &[Message],
    shape: &[usize],
    f: impl FnOnce(&[RawTensor<'_>]) -> Result<T>,
) -> Result<T> {
    let strides = contiguous_strides(shape)?;
    let tensor = |message: &Message| as_tensor(message, shape, |t| Ok((t.data, t.dtype)));
    let addresses = received.iter().map(tensor).collect::<Result<Vec<_>>>()?;
    let tensors: Vec<RawTensor<'_>> = addresses
        .into_iter()
        .map(|(data, dtype)| RawTensor { data, dtype, shape, strides: &strides })
        .collect();
    f(&tensors)
}

fn allreduce(ctx: &KernelCtx<'_>, communicator: &dyn Communicator) -> Result<()> {
    let tensors = operands(ctx)?;
    let reduction = ReduceOp::of(ctx.attrs())?;
    let what = describe("allreduce_", &tensors, &format!("; {reduction:?}"));
    let mine = tensors.iter().map(|t| pack(ctx, *t)).collect::<Result<Vec<_>>>()?;
    let received = communicator.exchange(round(ctx)?, &what, to_all(&mine, communicator))?;
    for (k, out) in tensors.iter().enumerate() {
        let parts: Vec<Message> = of_each(&received, k)?;
        // SAFETY: an operand of the call; the schema declares the write.
        all_of(&parts, out.shape, |parts| unsafe { reduce(parts, reduction, *out, 0) })?;
    }
    Ok(())
}

/// Returns the message at this position of every rank.
fn of_each(received: &[Vec<Message>], number: usize) -> Result<Vec<Message>> {
    let one = |messages: &Vec<Message>| messages.get(number).cloned();
    received
        .iter()
        .map(one)
        .collect::<Option<_>>()
        .context("expected as many tensors from every rank, received fewer from one")
}

fn broadcast(ctx: &KernelCtx<'_>, communicator: &dyn Communicator) -> Result<()> {
    let tensors = operands(ctx)?;
    let root = ctx.attrs().int("root")?.context("root: missing; this argument is required")?;
    let at = usize::try_from(root).ok().filter(|root| *root < communicator.ranks());
    let at = at.with_context(|| {
        format!("root: expected a rank below {}, got {root}", communicator.ranks())
    })?;
    let what = describe("broadcast_", &tensors, &format!("; root {root}"));
    let mine = match communicator.rank() == at {
        true => tensors.iter().map(|t| pack(ctx, *t)).collect::<Result<Vec<_>>>()?,
        false => Vec::new(),
    };
    let received = communicator.exchange(round(ctx)?, &what, to_all(&mine, communicator))?;
    if communicator.rank() == at {
        return Ok(());
    }
    let received = received.get(at).context("expected tensors from the root, received none")?;
    ensure!(
        received.len() == tensors.len(),
        "expected {} tensors, received {}",
        tensors.len(),
        received.len()
    );
    received.iter().zip(tensors).try_for_each(|(message, out)| unpack(ctx, message, out))
}

/// Writes messages to an operand, one after the other in row-major order.
fn unpack_parts(parts: &[Message], out: RawTensor<'_>) -> Result<()> {
    let total: usize = parts.iter().map(|p| p.numel).sum();
    ensure!(total == out.numel(), "expected elements for {out:?}, received {total}");
    // SAFETY: an operand of the call; the schema declares the write.
    let to = unsafe { Sequence::new(out) };
    let mut at = 0;
    for part in parts {
        ensure!(part.dtype == out.dtype, "expected elements for {out:?}, received {part:?}");
        as_tensor(part, &[part.numel], |from| {
            // SAFETY: a message is only read.
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

fn allgather(ctx: &KernelCtx<'_>, communicator: &dyn Communicator) -> Result<()> {
    let (out, x) = (ctx.operand(0)?, ctx.operand(1)?);
    let what = describe("allgather_", &[x], "");
    let received =
        communicator.exchange(round(ctx)?, &what, to_all(&[pack(ctx, x)?], communicator))?;
    unpack_parts(&of_each(&received, 0)?, out)
}

fn reduce_scatter(ctx: &KernelCtx<'_>, communicator: &dyn Communicator) -> Result<()> {
    let (out, x) = (ctx.operand(0)?, ctx.operand(1)?);
    let reduction = ReduceOp::of(ctx.attrs())?;
    let agree = out.numel().checked_mul(communicator.ranks()) == Some(x.numel());
    ensure!(
        agree,
        "expected out to have 1 / {} of the elements of {x:?}, got {out:?}",
        communicator.ranks()
    );
    let what = describe("reduce_scatter_", &[x], &format!("; {reduction:?}"));
    let received =
        communicator.exchange(round(ctx)?, &what, to_all(&[pack(ctx, x)?], communicator))?;
    let from = out.numel() * communicator.rank();
    // SAFETY: an operand of the call; the schema declares the write.
    all_of(&of_each(&received, 0)?, x.shape, |parts| unsafe { reduce(parts, reduction, out, from) })
}

fn alltoall(ctx: &KernelCtx<'_>, communicator: &dyn Communicator) -> Result<()> {
    let (out, x) = (ctx.operand(0)?, ctx.operand(1)?);
    let ranks = communicator.ranks();
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
    let mut messages = Vec::with_capacity(ranks);
    let mut at = 0;
    for count in to_each {
        messages.push(vec![cut(&whole, at, count)?]);
        at += count;
    }
    let received =
        communicator.exchange(round(ctx)?, &format!("alltoall_({})", x.dtype), messages)?;
    let parts = of_each(&received, 0)?;
    for (rank, (part, expected)) in parts.iter().zip(&from_each).enumerate() {
        ensure!(
            part.numel == *expected,
            "expected {expected} elements from rank {rank}, received {part:?}"
        );
    }
    unpack_parts(&parts, out)
}

/// Returns a range of the elements of a message.
fn cut(message: &Message, from: usize, count: usize) -> Result<Message> {
    let mut part = Temporary::new(message.dtype, &[count])?;
    as_tensor(message, &[message.numel], |whole| {
        // SAFETY: a message, which is only read, and memory that this function owns.
        let (whole, to) = unsafe { (Sequence::new(whole), Sequence::new(part.tensor())) };
        move_elements(message.dtype, (&whole, from), (&to, 0), count);
        Ok(())
    })?;
    Ok(Message { dtype: message.dtype, numel: count, words: Arc::new(part.into_words()) })
}

fn peer(ctx: &KernelCtx<'_>, name: &str, communicator: &dyn Communicator) -> Result<(usize, i64)> {
    let rank = ctx
        .attrs()
        .int(name)?
        .with_context(|| format!("{name}: missing; this argument is required"))?;
    let at = usize::try_from(rank).ok().filter(|r| *r < communicator.ranks());
    let at = at.with_context(|| {
        format!("{name}: expected a rank below {}, got {rank}", communicator.ranks())
    })?;
    Ok((at, ctx.attrs().int("tag")?.unwrap_or(0)))
}

fn send(ctx: &KernelCtx<'_>, communicator: &dyn Communicator) -> Result<()> {
    let (to, tag) = peer(ctx, "to", communicator)?;
    let messages = operands(ctx)?.into_iter().map(|t| pack(ctx, t)).collect::<Result<_>>()?;
    communicator.send(to, tag, messages)
}

fn recv(ctx: &KernelCtx<'_>, communicator: &dyn Communicator) -> Result<()> {
    let (from, tag) = peer(ctx, "from", communicator)?;
    let received = communicator.recv(from, tag)?;
    let tensors = operands(ctx)?;
    ensure!(
        received.len() == tensors.len(),
        "expected {} tensors, received {}",
        tensors.len(),
        received.len()
    );
    received.iter().zip(tensors).try_for_each(|(message, out)| unpack(ctx, message, out))
}
