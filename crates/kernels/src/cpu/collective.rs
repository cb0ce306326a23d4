//! Kernels of the ops in `millstream_ops::collective`.
//!
//! A kernel packs the elements that its rank gives, starts a request with the communicator and
//! returns. The request's function unpacks the result into the operands and completes the call, on
//! the thread that completes the request.

use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use millstream_comm::{
    Buffer, Call, Channel, Collective, Communicator, Elements, Outcome, ProcessGroup, ReduceOp,
    Request, Slot,
};
use millstream_types::layout::contiguous_strides;

use super::copy::convert;
use super::element::{Element, dispatch};
use super::strided::{CHUNK, Sequence};
use crate::context::{KernelCtx, RawTensor, StoredTensor};
use crate::registry::{Kernel, KernelRegistry};

/// The ops, each with the function that plans its calls.
pub(crate) const KERNELS: &[(&str, Planner)] = &[
    ("allreduce_", allreduce),
    ("reduce_", reduce),
    ("broadcast_", broadcast),
    ("allgather_", allgather),
    ("reduce_scatter_", reduce_scatter),
    ("alltoall_", alltoall),
    ("gather_to_", gather),
    ("scatter_from_", scatter),
    ("barrier_", barrier),
    ("send", send),
    ("recv_", receive),
];

/// A call on its way to the communicator: what is called, and which operands are given and taken.
pub(crate) struct Plan {
    pub(crate) collective: Collective,
    pub(crate) given: Vec<usize>,
    pub(crate) taken: Vec<usize>,
}

pub(crate) type Planner = fn(&GroupCall<'_, '_>) -> Result<Plan>;

/// A call of a kernel, and its rank's place in the group.
pub(crate) struct GroupCall<'c, 'a> {
    ctx: &'c KernelCtx<'a>,
    group: ProcessGroup,
    /// The position of this rank in the group.
    position: usize,
    /// The number of ranks of the program.
    ranks: usize,
}

/// A kernel that communicates with the other ranks.
struct CollectiveKernel {
    op: &'static str,
    plan: Planner,
}

/// Registers the kernels.
pub(super) fn register(kernels: &mut KernelRegistry) {
    for &(op, plan) in KERNELS {
        kernels.register(super::KIND, op, Arc::new(CollectiveKernel { op, plan }));
    }
}

impl Kernel for CollectiveKernel {
    fn run(&self, ctx: &KernelCtx<'_>) -> Result<()> {
        let (request, targets) = self.start(ctx)?;
        if !ctx.may_defer_completion() {
            let outcome = request.test();
            let outcome = outcome.context("a call that cannot complete later waits for no rank")?;
            return take(outcome, &targets);
        }
        let token = ctx.take_completion_token()?;
        request.then(move |outcome| token.complete(take(outcome, &targets)));
        Ok(())
    }
}

impl CollectiveKernel {
    fn start(&self, ctx: &KernelCtx<'_>) -> Result<(Request, Vec<StoredTensor>)> {
        let ranks = ctx.ranks()?;
        let (slot, plan) = planned(self.op, self.plan, ctx)?;
        let given = plan.given.iter().map(|&k| pack(ctx, &**ranks.communicator, ctx.operand(k)?));
        let given = given.collect::<Result<Vec<_>>>()?;
        let targets = plan.taken.iter().map(|&k| Ok(StoredTensor::of(&ctx.operand(k)?)));
        let targets = targets.collect::<Result<Vec<_>>>()?;
        let request = ranks.communicator.start(Call {
            slot,
            collective: plan.collective,
            op: self.op,
            given,
            expected: targets.iter().map(|x| elements(&x.raw())).collect(),
            origin: ranks.origin.clone(),
        });
        Ok((request, targets))
    }
}

/// Returns the place of a call among the calls of its rank, and its plan.
///
/// # Errors
/// The arguments name no channel of this rank, or do not fit the operands.
pub(crate) fn planned(op: &str, plan: Planner, ctx: &KernelCtx<'_>) -> Result<(Slot, Plan)> {
    let ranks = ctx.ranks()?;
    let (rank, count) = (ranks.communicator.rank(), ranks.communicator.ranks());
    let channel = Channel::of(op, ctx.attrs(), count)?;
    let channel = channel.context("expected a collective: schema and kernel disagree")?;
    let group = match &channel {
        Channel::Collectives(group) => group.clone(),
        _ => ProcessGroup::all(count),
    };
    let position = group.position(rank);
    let position = position.with_context(|| {
        format!("group: expected one with rank {rank}, which makes the call, got {group}")
    })?;
    let plan = plan(&GroupCall { ctx, group, position, ranks: count })?;
    Ok((Slot { channel, number: ranks.number }, plan))
}

/// Returns the elements of an operand.
fn elements(x: &RawTensor<'_>) -> Elements {
    Elements { dtype: x.dtype, numel: x.numel() }
}

/// Writes the outcome of a request to the operands.
fn take(outcome: Outcome, targets: &[StoredTensor]) -> Result<()> {
    let received = outcome?;
    // A root of a broadcast, a rank that is no root of a reduction: they get nothing.
    if received.is_empty() {
        return Ok(());
    }
    ensure!(
        received.len() == targets.len(),
        "expected {} tensor(s), received {}",
        targets.len(),
        received.len()
    );
    received.iter().zip(targets).try_for_each(|(buffer, target)| unpack(buffer, &target.raw()))
}

/// Packs the elements of an operand into memory of the communicator.
fn pack(ctx: &KernelCtx<'_>, communicator: &dyn Communicator, x: RawTensor<'_>) -> Result<Buffer> {
    let mut packed = communicator.buffer(elements(&x))?;
    let (data, strides) = (packed.bytes_mut().as_mut_ptr(), contiguous_strides(x.shape)?);
    let dense = RawTensor { data, dtype: x.dtype, shape: x.shape, strides: &strides };
    // SAFETY: an operand of the call, and a dense buffer of as many elements, aligned for every
    // dtype, that this function owns.
    unsafe { convert(ctx, x, dense)? };
    Ok(packed)
}

/// Writes elements to an operand of as many.
fn unpack(from: &Buffer, out: &RawTensor<'_>) -> Result<()> {
    ensure!(
        from.dtype() == out.dtype && from.numel() == out.numel(),
        "expected elements for {out:?}, received {from:?}"
    );
    let bytes = from.bytes();
    if out.is_contiguous() {
        // SAFETY: the operand's elements lie without gaps and are as many bytes; the call, which
        // has not completed, writes them.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), out.data, bytes.len()) };
        return Ok(());
    }
    let (count, strides) = (from.numel(), [1]);
    let data = bytes.as_ptr().cast_mut();
    let dense = RawTensor { data, dtype: out.dtype, shape: &[count], strides: &strides };
    // SAFETY: the buffer is only read; the operand is as above.
    let (from, to) = unsafe { (Sequence::new(dense), Sequence::new(*out)) };
    dispatch!(out.dtype, T => {
        let mut elements = [<T as Element>::ZERO; CHUNK];
        for at in (0..count).step_by(CHUNK) {
            let some = CHUNK.min(count - at);
            from.load(at, &mut elements[..some]);
            to.store(at, &elements[..some]);
        }
    });
    Ok(())
}

impl GroupCall<'_, '_> {
    /// Returns the numbers of all operands.
    fn all(&self) -> Vec<usize> {
        (0..self.ctx.operands()).collect()
    }

    /// Returns the position of the root, which the argument `root` names.
    fn root(&self) -> Result<usize> {
        let root = self.ctx.attrs().int("root")?;
        let root = root.context("root: missing; this argument is required")?;
        let known = usize::try_from(root).ok().filter(|root| *root < self.ranks);
        let known = known
            .with_context(|| format!("root: expected a rank below {}, got {root}", self.ranks))?;
        let position = self.group.position(known);
        position.with_context(|| format!("root: expected a rank of {}, got {root}", self.group))
    }

    /// Returns the elements of each rank's part: `splits` rows, or `each` elements.
    fn counts(
        &self,
        name: &str,
        tensor: &RawTensor<'_>,
        each: Option<usize>,
    ) -> Result<Vec<usize>> {
        let (ranks, rows) = (self.group.size(), tensor.shape.first().copied().unwrap_or(1));
        let row: usize = tensor.shape.iter().skip(1).product();
        if let Some(given) = self.ctx.attrs().ints(name)? {
            ensure!(
                given.len() == ranks,
                "{name}: expected {ranks} part(s), one for each rank, got {}",
                given.len()
            );
            let elements = |rows: i64| Ok(usize::try_from(rows)? * row);
            return given.into_iter().map(elements).collect();
        }
        if let Some(each) = each {
            return Ok(vec![each; ranks]);
        }
        ensure!(
            rows.is_multiple_of(ranks),
            "expected rows divisible by {ranks} ranks, got {rows}; pass the {name}"
        );
        Ok(vec![rows / ranks * row; ranks])
    }

    /// Checks that this rank's part, and all parts together, have the elements of two tensors.
    fn check(
        &self,
        counts: &[usize],
        part: &RawTensor<'_>,
        whole: Option<&RawTensor<'_>>,
    ) -> Result<()> {
        let total: usize = counts.iter().sum();
        if let Some(whole) = whole
            && whole.numel() != total
        {
            let ranks = self.group.size();
            bail!("expected {total} elements in {whole:?}, the parts of {ranks} ranks")
        }
        let own = counts[self.position];
        ensure!(part.numel() == own, "expected {own} elements, this rank's part, got {part:?}");
        Ok(())
    }
}

fn allreduce(call: &GroupCall<'_, '_>) -> Result<Plan> {
    let collective = Collective::AllReduce(ReduceOp::of(call.ctx.attrs())?);
    Ok(Plan { collective, given: call.all(), taken: call.all() })
}

fn reduce(call: &GroupCall<'_, '_>) -> Result<Plan> {
    let (reduction, root) = (ReduceOp::of(call.ctx.attrs())?, call.root()?);
    let collective = Collective::Reduce { reduction, root };
    Ok(Plan { collective, given: call.all(), taken: call.all() })
}

fn broadcast(call: &GroupCall<'_, '_>) -> Result<Plan> {
    let root = call.root()?;
    let (given, taken) = match call.position == root {
        true => (call.all(), Vec::new()),
        false => (Vec::new(), call.all()),
    };
    Ok(Plan { collective: Collective::Broadcast { root }, given, taken })
}

fn allgather(call: &GroupCall<'_, '_>) -> Result<Plan> {
    let (out, x) = (call.ctx.operand(0)?, call.ctx.operand(1)?);
    let counts = call.counts("splits", &out, Some(x.numel()))?;
    call.check(&counts, &x, Some(&out))?;
    Ok(Plan { collective: Collective::AllGather { counts }, given: vec![1], taken: vec![0] })
}

fn reduce_scatter(call: &GroupCall<'_, '_>) -> Result<Plan> {
    let (out, x) = (call.ctx.operand(0)?, call.ctx.operand(1)?);
    let counts = call.counts("splits", &x, Some(out.numel()))?;
    call.check(&counts, &out, Some(&x))?;
    let reduction = ReduceOp::of(call.ctx.attrs())?;
    let collective = Collective::ReduceScatter { reduction, counts };
    Ok(Plan { collective, given: vec![1], taken: vec![0] })
}

fn alltoall(call: &GroupCall<'_, '_>) -> Result<Plan> {
    let (out, x) = (call.ctx.operand(0)?, call.ctx.operand(1)?);
    let sent = call.counts("input_splits", &x, None)?;
    let received = call.counts("output_splits", &out, None)?;
    let collective = Collective::AllToAll { sent, received };
    Ok(Plan { collective, given: vec![1], taken: vec![0] })
}

fn gather(call: &GroupCall<'_, '_>) -> Result<Plan> {
    let (root, x) = (call.root()?, call.ctx.operand(0)?);
    let out = call.ctx.operand(1).ok();
    let is_root = call.position == root;
    ensure!(is_root == out.is_some(), "expected out on rank {root}, the root, and there alone");
    let counts = call.counts("splits", &x, Some(x.numel()))?;
    call.check(&counts, &x, out.as_ref())?;
    let taken = if is_root { vec![1] } else { Vec::new() };
    Ok(Plan { collective: Collective::Gather { root, counts }, given: vec![0], taken })
}

fn scatter(call: &GroupCall<'_, '_>) -> Result<Plan> {
    let (root, out) = (call.root()?, call.ctx.operand(0)?);
    let x = call.ctx.operand(1).ok();
    let is_root = call.position == root;
    ensure!(is_root == x.is_some(), "expected x on rank {root}, the root, and there alone");
    let counts = call.counts("splits", &out, Some(out.numel()))?;
    call.check(&counts, &out, x.as_ref())?;
    let given = if is_root { vec![1] } else { Vec::new() };
    Ok(Plan { collective: Collective::Scatter { root, counts }, given, taken: vec![0] })
}

fn barrier(_: &GroupCall<'_, '_>) -> Result<Plan> {
    Ok(Plan { collective: Collective::Barrier, given: Vec::new(), taken: Vec::new() })
}

fn send(call: &GroupCall<'_, '_>) -> Result<Plan> {
    Ok(Plan { collective: Collective::Send, given: call.all(), taken: Vec::new() })
}

fn receive(call: &GroupCall<'_, '_>) -> Result<Plan> {
    Ok(Plan { collective: Collective::Receive, given: Vec::new(), taken: call.all() })
}
