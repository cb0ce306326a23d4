//! Kernels of the ops of `millstream_ops::attention`: scores by one product, weights by a kernel of our
//! own, results by another product, for as many heads at once as scratch memory of a bounded size holds.
//!
//! Scores are f32 for f16 and bf16; weights are rounded to their dtype before they are multiplied, as by
//! every kernel that multiplies them by tensor cores.

use std::sync::Arc;

use anyhow::{Result, ensure};

use millstream_ep::cuda::{Native, Scratch};
use millstream_types::layout::contiguous_strides;
use millstream_types::{DType, Dims};

use super::matrices::{dense, multiply};
use super::{KIND, native, source, weights};
use crate::context::{KernelCtx, RawTensor};
use crate::cpu::optional_inputs::{operands, required};
use crate::cpu::strided::broadcast_step;
use crate::registry::KernelRegistry;

pub(super) fn register(kernels: &mut KernelRegistry) {
    let name = "_scaled_dot_product_flash_attention_for_cpu";
    kernels.register(KIND, name, Arc::new(forward));
    kernels.register(KIND, &format!("{name}_backward"), Arc::new(backward));
}

/// The most bytes of scores at once, unless one head has more.
const SCORES: usize = 256 << 20;

/// The same as a share of the device's memory.
const SHARE: u64 = 64;

/// A tensor `[b,h,s,d]` or `[b,h,s]` by its strides.
#[derive(Clone, Copy)]
struct Heads {
    data: *mut u8,
    dtype: DType,
    shape: [usize; 4],
    strides: [usize; 4],
}

/// Which heads are computed at once: of the batch, and of those that k and v have.
#[derive(Clone, Copy)]
struct Part {
    batch: (usize, usize),
    shared: (usize, usize),
}

/// A call, for both ways.
struct Call<'a> {
    native: &'a Native,
    scratch: Scratch<'a>,
    q: Heads,
    k: Heads,
    v: Heads,
    /// Broadcast to the scores.
    mask: Option<Heads>,
    /// Heads of q that share one of k and v.
    sharing: usize,
    scale: f64,
    causal: bool,
}

/// Matrices by batch, head of k and v, and head of q that shares it.
#[derive(Clone, Copy)]
struct Matrix {
    data: *mut u8,
    dtype: DType,
    shape: [usize; 5],
    strides: [usize; 5],
}

impl Heads {
    fn new(tensor: &RawTensor<'_>) -> Result<Heads> {
        let (mut shape, mut strides) = ([1; 4], [0; 4]);
        let rank = tensor.shape.len();
        ensure!((3..=4).contains(&rank), "{tensor:?}: schema and kernel disagree");
        shape[..rank].copy_from_slice(tensor.shape);
        strides[..rank].copy_from_slice(tensor.strides);
        Ok(Heads { data: tensor.data, dtype: tensor.dtype, shape, strides })
    }

    fn raw(&self) -> RawTensor<'_> {
        RawTensor { data: self.data, dtype: self.dtype, shape: &self.shape, strides: &self.strides }
    }

    /// The heads of a part, of which `sharing` belong to each of k's and v's.
    fn part(&self, part: Part, sharing: usize) -> Heads {
        let offset = part.batch.0 * self.strides[0] + part.shared.0 * sharing * self.strides[1];
        let data = self.data.wrapping_add(offset * self.dtype.size());
        let mut shape = self.shape;
        (shape[0], shape[1]) = (part.batch.1, part.shared.1 * sharing);
        Heads { data, shape, ..*self }
    }

    /// As matrices, of which `sharing` belong to each of k's and v's.
    fn matrices(&self, sharing: usize) -> Matrix {
        let ([b, h, s, d], [batch, head, row, column]) = (self.shape, self.strides);
        Matrix {
            data: self.data,
            dtype: self.dtype,
            shape: [b, h / sharing, sharing, s, d],
            strides: [batch, sharing * head, head, row, column],
        }
    }
}

impl Matrix {
    fn raw(&self) -> RawTensor<'_> {
        RawTensor { data: self.data, dtype: self.dtype, shape: &self.shape, strides: &self.strides }
    }

    fn transposed(mut self) -> Matrix {
        self.shape.swap(3, 4);
        self.strides.swap(3, 4);
        self
    }

    /// The matrices that share one of k and v, one below the other. They have to lie so.
    fn stacked(mut self) -> Matrix {
        let [_, _, sharing, rows, _] = self.shape;
        if sharing > 1 {
            debug_assert_eq!(self.strides[2], rows * self.strides[3]);
        }
        (self.shape[2], self.shape[3]) = (1, sharing * rows);
        self
    }
}

/// `_scaled_dot_product_flash_attention_for_cpu(q, k, v, attn_mask?; ..)`.
fn forward(ctx: &KernelCtx<'_>) -> Result<()> {
    let ([q, k, v, mask], results) = operands::<4>(ctx, 2)?;
    let mut call = Call::new(ctx, [required(q)?, required(k)?, required(v)?], mask)?;
    let (out, sums) = (Heads::new(&results[0])?, Heads::new(&results[1])?);
    let (dtype, computed) = (call.q.dtype, source::computed(call.q.dtype));
    let bytes = computed.size() + if computed == dtype { 0 } else { dtype.size() };
    for part in call.parts(bytes) {
        let mark = call.scratch.mark();
        let [q, k, v] = call.given(part);
        let scores = call.scores(part, computed)?;
        let made = if computed == dtype { scores } else { call.scores(part, dtype)? };
        let (out, sums) = (out.part(part, call.sharing), sums.part(part, call.sharing));
        let operands = [scores.raw(), made.raw(), sums.raw()];
        let kernel = call.kernel(part, &scores, &operands)?;
        let (of_scores, of_weights) = (scores.matrices(call.sharing), made.matrices(call.sharing));
        // SAFETY: operands of the call and scratch memory of its own; `out` and `sums` are its outputs.
        unsafe {
            call.multiply(&q, &k.transposed(), &of_scores)?;
            weights::forward(call.native, dtype, &scores.raw(), kernel)?;
            call.multiply(&of_weights, &v, &out.matrices(call.sharing))?;
        }
        call.scratch.release(mark);
    }
    Ok(())
}

/// `_scaled_dot_product_flash_attention_for_cpu_backward(grad, q, k, v, out, logsumexp,
/// attn_mask?; ..)`: the weights p anew from logsumexp; then v's gradient is pᵀ grad, that of the
/// scores p · (grad vᵀ - Σ grad · out), and from it follow those of q and k.
fn backward(ctx: &KernelCtx<'_>) -> Result<()> {
    let ([grad, q, k, v, out, sums, mask], results) = operands::<7>(ctx, 3)?;
    let (grad, out, sums) = (required(grad)?, required(out)?, required(sums)?);
    let mut call = Call::new(ctx, [required(q)?, required(k)?, required(v)?], mask)?;
    let (native, sharing) = (call.native, call.sharing);
    let (mut grad, out, sums) = (Heads::new(&grad)?, Heads::new(&out)?, Heads::new(&sums)?);
    if sharing > 1 {
        // Heads that share one of k and v have to lie one below the other.
        // SAFETY: operands of the call.
        (grad, call.q) = unsafe { (call.dense(&grad)?, call.dense(&{ call.q })?) };
    }
    let grads = [Heads::new(&results[0])?, Heads::new(&results[1])?, Heads::new(&results[2])?];
    if call.q.raw().numel() == 0 {
        for grad in grads {
            let bytes = grad.raw().numel() * grad.dtype.size();
            // SAFETY: outputs of the call, new and so without gaps.
            unsafe { native.fill(grad.data, 0, bytes)? };
        }
        return Ok(());
    }
    let (dtype, computed) = (call.q.dtype, source::computed(call.q.dtype));
    let bytes = 2 * (computed.size() + if computed == dtype { 0 } else { dtype.size() });
    for part in call.parts(bytes) {
        let mark = call.scratch.mark();
        let [q, k, v] = call.given(part);
        let grad = grad.part(part, sharing);
        let (scores, of_weights) = (call.scores(part, computed)?, call.scores(part, computed)?);
        let (p, of_scores) = match computed == dtype {
            true => (scores, of_weights),
            false => (call.scores(part, dtype)?, call.scores(part, dtype)?),
        };
        let (out, sums) = (out.part(part, sharing), sums.part(part, sharing));
        let operands = [
            scores.raw(),
            of_weights.raw(),
            p.raw(),
            of_scores.raw(),
            grad.raw(),
            out.raw(),
            sums.raw(),
        ];
        let kernel = call.kernel(part, &scores, &operands)?;
        let [to_q, to_k, to_v] = grads;
        let to_q = to_q.part(part, sharing).matrices(sharing);
        let [to_k, to_v] = [to_k, to_v].map(|to| to.part(part, 1).matrices(1));
        let turned = |of: &Heads| of.matrices(sharing).stacked().transposed();
        // SAFETY: operands of the call and scratch memory of its own; the last ones are its outputs.
        unsafe {
            call.multiply(&q, &k.transposed(), &scores.matrices(sharing))?;
            call.multiply(&grad.matrices(sharing), &v.transposed(), &of_weights.matrices(sharing))?;
            weights::backward(native, dtype, &scores.raw(), kernel)?;
            call.multiply(&turned(&p), &grad.matrices(sharing).stacked(), &to_v)?;
            call.multiply(&of_scores.matrices(sharing), &k, &to_q)?;
            call.multiply(&turned(&of_scores), &q.stacked(), &to_k)?;
        }
        call.scratch.release(mark);
    }
    Ok(())
}

impl<'a> Call<'a> {
    fn new(
        ctx: &KernelCtx<'a>,
        [q, k, v]: [RawTensor<'_>; 3],
        mask: Option<RawTensor<'_>>,
    ) -> Result<Call<'a>> {
        let native = native(ctx)?;
        let [q, k, v] = [Heads::new(&q)?, Heads::new(&k)?, Heads::new(&v)?];
        ensure!(k.shape[1] > 0 && k.shape[2] > 0, "{:?}: schema and kernel disagree", k.raw());
        let scores = [q.shape[0], q.shape[1], q.shape[2], k.shape[2]];
        let mask = mask.map(|mask| {
            let step = |k| broadcast_step(&mask, scores.len(), k) / mask.dtype.size();
            let strides = std::array::from_fn(step);
            Heads { data: mask.data, dtype: mask.dtype, shape: scores, strides }
        });
        let scale = ctx.attrs().float("scale")?;
        Ok(Call {
            native,
            scratch: native.scratch(),
            sharing: q.shape[1] / k.shape[1],
            scale: scale.unwrap_or((q.shape[3] as f64).sqrt().recip()),
            causal: ctx.attrs().bool("is_causal")?.unwrap_or(false),
            q,
            k,
            v,
            mask,
        })
    }

    /// The parts in which all heads are computed, where each score takes `bytes` bytes.
    fn parts(&self, bytes: usize) -> Vec<Part> {
        let share = usize::try_from(self.native.properties().memory / SHARE).unwrap_or(SCORES);
        let (batch, shared) = (self.k.shape[0], self.k.shape[1]);
        let head = self.sharing * self.q.shape[2] * self.k.shape[2] * bytes;
        let most = SCORES.min(share) / head.max(1);
        let (batches, heads) = match most / shared {
            0 => (1, most.max(1)),
            batches => (batches, shared),
        };
        let cut = |length: usize, step: usize| {
            (0..length).step_by(step).map(move |first| (first, step.min(length - first)))
        };
        let all = cut(batch, batches);
        all.flat_map(|batch| cut(shared, heads).map(move |shared| Part { batch, shared })).collect()
    }

    /// q, k and v of a part.
    fn given(&self, part: Part) -> [Matrix; 3] {
        let of = |of: &Heads, sharing| of.part(part, sharing).matrices(sharing);
        [of(&self.q, self.sharing), of(&self.k, 1), of(&self.v, 1)]
    }

    /// Memory for a part's scores.
    fn scores(&mut self, part: Part, dtype: DType) -> Result<Heads> {
        let heads = part.shared.1 * self.sharing;
        let shape = [part.batch.1, heads, self.q.shape[2], self.k.shape[2]];
        let data = self.scratch.take(shape.iter().product::<usize>() * dtype.size())?;
        let strides = contiguous_strides(&shape)?;
        Ok(Heads { data, dtype, shape, strides: std::array::from_fn(|k| strides[k]) })
    }

    fn kernel(
        &self,
        part: Part,
        scores: &Heads,
        operands: &[RawTensor<'_>],
    ) -> Result<weights::Call> {
        let mask = self.mask.map(|mask| mask.part(part, self.sharing));
        let mask = mask.as_ref().map(Heads::raw);
        let how = (self.scale, self.causal);
        weights::Call::new(&scores.raw(), self.q.shape[3], how, mask, operands)
    }

    /// # Safety
    /// It is an operand of the call.
    unsafe fn dense(&mut self, heads: &Heads) -> Result<Heads> {
        // SAFETY: the caller's promise.
        let data = unsafe { dense(self.native, &mut self.scratch, &heads.raw())? };
        let strides: Dims = contiguous_strides(&heads.shape)?;
        Ok(Heads { data, strides: std::array::from_fn(|k| strides[k]), ..*heads })
    }

    /// # Safety
    /// The matrices are of operands of the call, or of its scratch memory.
    unsafe fn multiply(&mut self, x: &Matrix, y: &Matrix, out: &Matrix) -> Result<()> {
        let all = [x.raw(), y.raw(), out.raw()];
        // SAFETY: the caller's promise.
        unsafe { multiply(self.native, &mut self.scratch, all, 1.0, 0.0) }
    }
}
