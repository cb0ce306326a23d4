//! Kernels of the ops of `millstream_ops::attention`. One product computes scores, a kernel of our
//! own turns them into weights, and another product computes results. Scratch memory for the scores
//! is bounded, and limits the number of heads that are processed at once.
//!
//! Scores of f16 and bf16 are f32. Weights are rounded to the dtype of the inputs before the
//! product, as in every kernel that uses tensor cores.

use std::ffi::CString;

use anyhow::{Result, ensure};

use millstream_ep::cuda::{NativeStream, Scratch};
use millstream_types::layout::contiguous_strides;
use millstream_types::{DType, Dims};

use super::gemm::{dense, max_scratch, multiply};
use super::strided::{StridedArgs, StridedOperand, TensorView};
use super::template::KernelTemplate;
use super::{Unsupported, native, source};
use crate::context::{KernelCtx, RawTensor};
use crate::cpu::optional_inputs::{operands, required};
use crate::cpu::strided::broadcast_step;

pub(super) const KERNELS: &[super::Kernel] = &[
    ("_scaled_dot_product_flash_attention_for_cpu", forward),
    ("_scaled_dot_product_flash_attention_for_cpu_backward", backward),
];

macro_rules! softmax {
    ($name:literal, $mask:literal) => {
        KernelTemplate {
            name: $name,
            body: concat!(
                "#define MASK ",
                $mask,
                "\n",
                include_str!("attention.cu"),
                include_str!(concat!($name, ".cu"))
            ),
        }
    };
}

const SOFTMAX: KernelTemplate = softmax!("attention_softmax", 3);
const SOFTMAX_BACKWARD: KernelTemplate = softmax!("attention_softmax_backward", 7);

/// The dtypes of masks. Kernels identify a dtype by its index.
const MASK_DTYPES: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];

pub(super) fn sources() -> Vec<(String, CString)> {
    [SOFTMAX, SOFTMAX_BACKWARD].map(|kernel| kernel.typed_sources(&MASK_DTYPES)).concat()
}

/// A tensor `[b,h,s,d]` or `[b,h,s]`.
type Heads = TensorView<4>;

/// Matrices, by batch, by head of k and v, and by head of q that shares it.
type Matrix = TensorView<5>;

/// The heads that are computed at once: start and length in the batch, and in the heads of k and v.
#[derive(Clone, Copy)]
struct Part {
    batch: (usize, usize),
    kv_heads: (usize, usize),
}

/// A call, forward or backward.
struct AttentionCall<'a> {
    native: &'a NativeStream,
    scratch: Scratch<'a>,
    q: Heads,
    k: Heads,
    v: Heads,
    /// The mask, broadcast to the scores.
    mask: Option<Heads>,
    /// The number of heads of q that share one head of k and v.
    group_size: usize,
    scale: f64,
    causal: bool,
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

    /// Returns the heads of a part. `group_size` of them share one head of k and v.
    fn part(&self, part: Part, group_size: usize) -> Heads {
        let first = part.kv_heads.0 * group_size;
        let mut heads = self.offset_by([part.batch.0, first, 0, 0]);
        (heads.shape[0], heads.shape[1]) = (part.batch.1, part.kv_heads.1 * group_size);
        heads
    }

    /// Returns the heads as matrices. `group_size` of them share one head of k and v.
    fn matrices(&self, group_size: usize) -> Matrix {
        let ([b, h, s, d], [batch, head, row, column]) = (self.shape, self.strides);
        Matrix {
            data: self.data,
            dtype: self.dtype,
            shape: [b, h / group_size, group_size, s, d],
            strides: [batch, group_size * head, head, row, column],
        }
    }
}

impl Matrix {
    fn transposed(mut self) -> Matrix {
        self.shape.swap(3, 4);
        self.strides.swap(3, 4);
        self
    }

    /// Stacks the matrices that share one of k and v. Their strides must allow it.
    fn stacked(mut self) -> Matrix {
        let [_, _, group_size, rows, _] = self.shape;
        if group_size > 1 {
            debug_assert_eq!(self.strides[2], rows * self.strides[3]);
        }
        (self.shape[2], self.shape[3]) = (1, group_size * rows);
        self
    }
}

/// `_scaled_dot_product_flash_attention_for_cpu(q, k, v, attn_mask?; ..)`.
fn forward(ctx: &KernelCtx<'_>) -> Result<()> {
    let ([q, k, v, mask], results) = operands::<4>(ctx, 2)?;
    let mut call = AttentionCall::new(ctx, [required(q)?, required(k)?, required(v)?], mask)?;
    let (out, sums) = (Heads::new(&results[0])?, Heads::new(&results[1])?);
    let (dtype, computed) = (call.q.dtype, source::computed(call.q.dtype));
    let bytes = computed.size() + if computed == dtype { 0 } else { dtype.size() };
    for part in call.parts(bytes) {
        let mark = call.scratch.mark();
        let [q, k, v] = call.inputs(part);
        let scores = call.scores(part, computed)?;
        let weights = if computed == dtype { scores } else { call.scores(part, dtype)? };
        let (out, sums) = (out.part(part, call.group_size), sums.part(part, call.group_size));
        let (score_matrices, weight_matrices) =
            (scores.matrices(call.group_size), weights.matrices(call.group_size));
        // SAFETY: operands of the call and its scratch memory; `out` and `sums` are its outputs.
        unsafe {
            call.multiply(&q, &k.transposed(), &score_matrices)?;
            call.softmax(&SOFTMAX, part, &[scores, weights, sums])?;
            call.multiply(&weight_matrices, &v, &out.matrices(call.group_size))?;
        }
        call.scratch.release(mark);
    }
    Ok(())
}

/// `_scaled_dot_product_flash_attention_for_cpu_backward(grad, q, k, v, out, logsumexp,
/// attn_mask?; ..)`. Recomputes the weights p from logsumexp. The gradient of v is pᵀ grad, and the
/// gradient of the scores is p · (grad vᵀ - Σ grad · out). The gradients of q and k follow from it.
fn backward(ctx: &KernelCtx<'_>) -> Result<()> {
    let ([grad, q, k, v, out, sums, mask], results) = operands::<7>(ctx, 3)?;
    let (grad, out, sums) = (required(grad)?, required(out)?, required(sums)?);
    let mut call = AttentionCall::new(ctx, [required(q)?, required(k)?, required(v)?], mask)?;
    let (native, group_size) = (call.native, call.group_size);
    let (mut grad, out, sums) = (Heads::new(&grad)?, Heads::new(&out)?, Heads::new(&sums)?);
    if group_size > 1 {
        // `Matrix::stacked` needs heads that share one of k and v to be adjacent.
        // SAFETY: operands of the call.
        (grad, call.q) = unsafe { (call.dense(&grad)?, call.dense(&{ call.q })?) };
    }
    let grads = [Heads::new(&results[0])?, Heads::new(&results[1])?, Heads::new(&results[2])?];
    if call.q.raw().numel() == 0 {
        for grad in grads {
            let bytes = grad.raw().numel() * grad.dtype.size();
            // SAFETY: outputs of the call, which are new and so dense.
            unsafe { native.fill(grad.data, 0, bytes)? };
        }
        return Ok(());
    }
    let (dtype, computed) = (call.q.dtype, source::computed(call.q.dtype));
    let bytes = 2 * (computed.size() + if computed == dtype { 0 } else { dtype.size() });
    for part in call.parts(bytes) {
        let mark = call.scratch.mark();
        let [q, k, v] = call.inputs(part);
        let grad = grad.part(part, group_size);
        let (scores, weight_grad) = (call.scores(part, computed)?, call.scores(part, computed)?);
        let (weights, score_grad) = match computed == dtype {
            true => (scores, weight_grad),
            false => (call.scores(part, dtype)?, call.scores(part, dtype)?),
        };
        let (out, sums) = (out.part(part, group_size), sums.part(part, group_size));
        let operands = [scores, weight_grad, weights, score_grad, grad, out, sums];
        let [q_grad, k_grad, v_grad] = grads;
        let q_grad = q_grad.part(part, group_size).matrices(group_size);
        let [k_grad, v_grad] = [k_grad, v_grad].map(|to| to.part(part, 1).matrices(1));
        let stacked_transposed = |of: &Heads| of.matrices(group_size).stacked().transposed();
        // SAFETY: operands of the call and its scratch memory; the gradients are its outputs.
        unsafe {
            call.multiply(&q, &k.transposed(), &scores.matrices(group_size))?;
            call.multiply(
                &grad.matrices(group_size),
                &v.transposed(),
                &weight_grad.matrices(group_size),
            )?;
            call.softmax(&SOFTMAX_BACKWARD, part, &operands)?;
            call.multiply(
                &stacked_transposed(&weights),
                &grad.matrices(group_size).stacked(),
                &v_grad,
            )?;
            call.multiply(&score_grad.matrices(group_size), &k, &q_grad)?;
            call.multiply(&stacked_transposed(&score_grad), &q.stacked(), &k_grad)?;
        }
        call.scratch.release(mark);
    }
    Ok(())
}

impl<'a> AttentionCall<'a> {
    fn new(
        ctx: &KernelCtx<'a>,
        [q, k, v]: [RawTensor<'_>; 3],
        mask: Option<RawTensor<'_>>,
    ) -> Result<AttentionCall<'a>> {
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
        Ok(AttentionCall {
            native,
            scratch: native.scratch(),
            group_size: q.shape[1] / k.shape[1],
            scale: scale.unwrap_or((q.shape[3] as f64).sqrt().recip()),
            causal: ctx.attrs().bool("is_causal")?.unwrap_or(false),
            q,
            k,
            v,
            mask,
        })
    }

    /// Splits the heads into parts that fit into the bound, or of one head. Each score takes
    /// `bytes` bytes.
    fn parts(&self, bytes: usize) -> Vec<Part> {
        let (batch, kv_heads) = (self.k.shape[0], self.k.shape[1]);
        let head = self.group_size * self.q.shape[2] * self.k.shape[2] * bytes;
        let most = max_scratch(self.native) / head.max(1);
        let (batches, heads) = match most / kv_heads {
            0 => (1, most.max(1)),
            batches => (batches, kv_heads),
        };
        let ranges = |length: usize, step: usize| {
            (0..length).step_by(step).map(move |first| (first, step.min(length - first)))
        };
        let all = ranges(batch, batches);
        all.flat_map(|batch| ranges(kv_heads, heads).map(move |kv_heads| Part { batch, kv_heads }))
            .collect()
    }

    /// Returns q, k and v of a part.
    fn inputs(&self, part: Part) -> [Matrix; 3] {
        let of = |of: &Heads, group_size| of.part(part, group_size).matrices(group_size);
        [of(&self.q, self.group_size), of(&self.k, 1), of(&self.v, 1)]
    }

    /// Allocates scratch memory for the scores of a part.
    fn scores(&mut self, part: Part, dtype: DType) -> Result<Heads> {
        let heads = part.kv_heads.1 * self.group_size;
        let shape = [part.batch.1, heads, self.q.shape[2], self.k.shape[2]];
        let data = self.scratch.take(shape.iter().product::<usize>() * dtype.size())?;
        let strides = contiguous_strides(&shape)?;
        Ok(Heads { data, dtype, shape, strides: std::array::from_fn(|k| strides[k]) })
    }

    /// Launches a softmax kernel on a part, with a block of threads for each query. The operands
    /// are the kernel's without the mask; the first holds the scores.
    ///
    /// # Safety
    /// The operands are operands of the call, or in its scratch memory. Two may be the same memory
    /// if the kernel reads an element of one for the last time before it writes that of the other.
    unsafe fn softmax(
        &self,
        kernel: &KernelTemplate,
        part: Part,
        operands: &[Heads],
    ) -> Result<()> {
        let mask = self.mask.map(|mask| mask.part(part, self.group_size));
        let mask_dtype = match mask {
            None => -1,
            Some(Heads { dtype, .. }) => {
                let known = MASK_DTYPES.iter().position(|known| *known == dtype);
                known.ok_or_else(|| Unsupported::of(dtype.name()))? as i64
            }
        };
        let shape = operands[0].shape;
        let mask = mask.unwrap_or(operands[0]);
        let operands: Vec<StridedOperand<'_>> =
            operands.iter().chain([&mask]).map(|heads| StridedOperand::new(heads.raw())).collect();
        let integers = [i64::from(self.causal), mask_dtype, self.q.shape[3] as i64];
        let mut args = StridedArgs::new(&shape, StridedArgs::KEEP_DIMENSIONS, &operands)?
            .integers(&integers)?
            .scalars(&[self.scale]);
        args.count = shape[..3].iter().product::<usize>() as u64;
        // SAFETY: the caller's promise.
        unsafe { kernel.launch_blocks(self.native, self.q.dtype, args.count, args) }
    }

    /// Copies heads to dense scratch memory.
    ///
    /// # Safety
    /// `heads` is an operand of the call.
    unsafe fn dense(&mut self, heads: &Heads) -> Result<Heads> {
        // SAFETY: the caller's promise.
        let data = unsafe { dense(self.native, &mut self.scratch, &heads.raw())? };
        let strides: Dims = contiguous_strides(&heads.shape)?;
        Ok(Heads { data, strides: std::array::from_fn(|k| strides[k]), ..*heads })
    }

    /// Launches `out = x y`.
    ///
    /// # Safety
    /// The matrices are in operands of the call, or in its scratch memory.
    unsafe fn multiply(&mut self, x: &Matrix, y: &Matrix, out: &Matrix) -> Result<()> {
        let all = [x.raw(), y.raw(), out.raw()];
        // SAFETY: the caller's promise.
        unsafe { multiply(self.native, &mut self.scratch, all, 1.0, 0.0) }
    }
}
