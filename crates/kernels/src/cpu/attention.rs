//! Kernels of the ops in `millstream_ops::attention`, by head and by block of queries, so that only
//! one block of the scores exists at a time.

use anyhow::{Result, ensure};
use millstream_types::{DType, Dims};

use super::Kernel;
use super::element::Element;
use super::optional_inputs::{operands, required};
use super::pairwise::sum_of;
use super::real::{Real, reals};
use super::slice_matmul::{Matrix, multiply};
use super::softmax::exponentials;
use super::strided::{Address, Sequence, broadcast_step};
use super::vectorised::vectorised;
use crate::context::{KernelCtx, RawTensor};

pub(crate) const KERNELS: &[Kernel] = &[
    ("_scaled_dot_product_flash_attention_for_cpu", forward),
    ("_scaled_dot_product_flash_attention_for_cpu_backward", backward),
];

/// The numbers of scores and of queries in a block, unless one query has more scores.
const SCORES: usize = 1 << 16;
const QUERIES: usize = 64;

/// An operand as rows of equal width, by head.
struct Heads {
    all: Sequence,
    data: Address,
    dtype: DType,
    /// The number of heads of a batch, the rows of a head, and the elements of a row.
    shape: [usize; 3],
    /// The strides of batches, heads and rows.
    strides: [usize; 3],
    /// Whether the elements of a row follow one another.
    in_rows: bool,
}

impl Heads {
    /// # Safety
    /// The tensor, of four dimensions, is an operand of the call that is only read.
    unsafe fn new(tensor: RawTensor<'_>) -> Heads {
        let (shape, strides) = (tensor.shape, tensor.strides);
        let width = shape[3];
        Heads {
            data: Address(tensor.data),
            dtype: tensor.dtype,
            shape: [shape[1], shape[2], width],
            strides: [strides[0], strides[1], strides[2]],
            in_rows: tensor.numel() > 0
                && (width == 1 || strides[3] == 1)
                && (shape[2] == 1 || strides[2] >= width),
            // SAFETY: guaranteed by the caller.
            all: unsafe { Sequence::new(tensor) },
        }
    }

    /// Returns some rows of a head: in place if their elements follow one another, else copied to
    /// the buffer. There is at least one.
    fn rows<'a, T: Real>(
        &'a self,
        head: usize,
        first: usize,
        count: usize,
        buffer: &'a mut Vec<T>,
    ) -> Matrix<'a, T> {
        let [heads, length, width] = self.shape;
        assert!(count > 0 && first + count <= length, "outside of a head");
        if !self.in_rows || self.dtype != T::DTYPE {
            buffer.resize(count * width, T::ZERO);
            self.all.load((head * length + first) * width, buffer);
            return Matrix::new(buffer, count, width, width);
        }
        let [of_batch, of_head, of_row] = self.strides;
        let at = head / heads * of_batch + head % heads * of_head + first * of_row;
        let step = if length == 1 { width } else { of_row };
        // SAFETY: these rows lie in the operand, which is valid and only read by the contract of
        // `new`.
        let rows = unsafe {
            let data = self.data.0.cast::<T>().cast_const().add(at);
            std::slice::from_raw_parts(data, (count - 1) * step + width)
        };
        Matrix::new(rows, count, width, step)
    }
}

/// The operands and the shape of the scores.
struct Scores {
    heads: usize,
    /// The number of heads of q that share a head of k and v.
    sharing: usize,
    queries: usize,
    keys: usize,
    width: usize,
    block: usize,
    scale: f64,
    causal: bool,
    q: Heads,
    k: Heads,
    v: Heads,
    mask: Option<Sequence>,
}

impl Scores {
    /// # Safety
    /// The tensors are operands of the call that are only read.
    unsafe fn new(
        ctx: &KernelCtx<'_>,
        [q, k, v]: [RawTensor<'_>; 3],
        mask: Option<RawTensor<'_>>,
    ) -> Result<Scores> {
        let (&[batch, heads, queries, width], &[_, shared, keys, _]) = (q.shape, k.shape) else {
            anyhow::bail!("{q:?}: schema and kernel disagree");
        };
        let agree = k.shape == v.shape && keys > 0 && width > 0 && shared > 0;
        ensure!(agree, "{k:?}: schema and kernel disagree");
        let shape = [batch, heads, queries, keys];
        let mask = mask.map(|mask| {
            let step = |k| broadcast_step(&mask, shape.len(), k) / mask.dtype.size();
            let strides: Dims = (0..shape.len()).map(step).collect();
            // SAFETY: guaranteed by the caller; the schema has checked that the mask broadcasts.
            unsafe { Sequence::new(RawTensor { shape: &shape, strides: &strides, ..mask }) }
        });
        // SAFETY: guaranteed by the caller.
        let [q, k, v] = unsafe { [q, k, v].map(|t| Heads::new(t)) };
        Ok(Scores {
            heads: batch * heads,
            sharing: heads / shared,
            queries,
            keys,
            width,
            block: (SCORES / keys).clamp(1, QUERIES).min(queries),
            scale: ctx.attrs().float("scale")?.unwrap_or((width as f64).sqrt().recip()),
            causal: ctx.attrs().bool("is_causal")?.unwrap_or(false),
            q,
            k,
            v,
            mask,
        })
    }

    /// Returns the number of keys that are visible to a query.
    fn visible_keys(&self, query: usize) -> usize {
        if self.causal { self.keys.min(query + 1) } else { self.keys }
    }

    /// Computes the scores of the block of queries q that begins at query `first` of its head. The
    /// scores of keys that are not visible are minus infinity. Keys that no query of the block sees
    /// have no scores: k are the others.
    fn compute<T: Real>(
        &self,
        head: usize,
        first: usize,
        q: Matrix<'_, T>,
        k: Matrix<'_, T>,
        scores: &mut [T],
    ) {
        let keys = k.rows();
        multiply(scores, q, k.transposed(), false);
        let mut mask = vec![T::ZERO; if self.mask.is_some() { keys } else { 0 }];
        for (number, scores) in scores.chunks_exact_mut(keys).enumerate() {
            if let Some(from) = &self.mask {
                from.load((head * self.queries + first + number) * self.keys, &mut mask);
            }
            scale_and_add(scores, T::from_f64(self.scale), &mask);
            scores[self.visible_keys(first + number)..].fill(-T::INFINITY);
        }
    }
}

vectorised! {
    /// Multiplies the values by a factor, and adds the elements of the mask, which may be empty.
    fn scale_and_add<T: Real>(values: &mut [T], scale: T, mask: &[T]) {
        values.iter_mut().for_each(|v| *v *= scale);
        values.iter_mut().zip(mask).for_each(|(v, &m)| *v += m);
    }

    /// Replaces scores by their softmax; returns the logarithm of the sum of their exponentials.
    fn weights<T: Real>(scores: &mut [T]) -> T {
        let (greatest, sum) = exponentials(scores);
        if greatest == -T::INFINITY {
            // No key is visible. PyTorch defines the logarithm as 0.
            scores.fill(T::ZERO);
            return T::ZERO;
        }
        scores.iter_mut().for_each(|v| *v /= sum);
        greatest + sum.ln()
    }

    /// Replaces scores by their softmax, of which the logarithm of the sum is known.
    fn weights_again<T: Real>(scores: &mut [T], log: T) {
        for v in scores {
            *v = if *v == -T::INFINITY { T::ZERO } else { (*v - log).exp() };
        }
    }

    /// Replaces the gradients of weights p by those of the scores: p · (gradient - Σ grad · out) ·
    /// scale.
    fn score_gradients<T: Real>(
        gradients: &mut [T],
        p: &[T],
        grad: &[T],
        out: &[T],
        scale: T,
    ) {
        let sum = sum_of([out, grad], |[o, g]| o * g);
        gradients.iter_mut().zip(p).for_each(|(v, &p)| *v = p * (*v - sum) * scale);
    }
}

/// `_scaled_dot_product_flash_attention_for_cpu(q, k, v, attn_mask?; ..)`.
fn forward(ctx: &KernelCtx<'_>) -> Result<()> {
    let ([q, k, v, mask], results) = operands::<4>(ctx, 2)?;
    let given = [required(q)?, required(k)?, required(v)?];
    // SAFETY: operands of the call, only read here.
    let all = unsafe { Scores::new(ctx, given, mask) }?;
    reals!(given[0].dtype, T => {
        // SAFETY: outputs of the call; each block has its own part of them.
        let (out, sums) = unsafe { (Sequence::new(results[0]), Sequence::new(results[1])) };
        let blocks = all.queries.div_ceil(all.block.max(1));
        ctx.for_each(all.heads * blocks, |task| {
            let (head, first) = (task / blocks, task % blocks * all.block);
            let count = all.block.min(all.queries - first);
            let row = head * all.queries + first;
            let (shared, keys) = (head / all.sharing, all.visible_keys(first + count - 1));
            let [mut of_q, mut of_k, mut of_v] = [const { Vec::new() }; 3];
            let q = all.q.rows::<T>(head, first, count, &mut of_q);
            let k = all.k.rows(shared, 0, keys, &mut of_k);
            let v = all.v.rows(shared, 0, keys, &mut of_v);
            let mut scores = vec![T::ZERO; count * keys];
            all.compute(head, first, q, k, &mut scores);
            let logs: Vec<T> = scores.chunks_exact_mut(keys).map(weights).collect();
            let mut values = vec![T::ZERO; count * all.width];
            multiply(&mut values, Matrix::new(&scores, count, keys, keys), v, false);
            out.store(row * all.width, &values);
            sums.store(row, &logs);
        });
    });
    Ok(())
}

/// `_scaled_dot_product_flash_attention_for_cpu_backward(grad, q, k, v, out, logsumexp, attn_mask?;
/// ..)`. The weights p are recomputed from logsumexp. The gradient for v is pᵀ grad; the gradient
/// of the scores is p · (grad vᵀ - Σ grad · out), from which the gradients for q and k follow.
fn backward(ctx: &KernelCtx<'_>) -> Result<()> {
    let ([grad, q, k, v, out, sums, mask], results) = operands::<7>(ctx, 3)?;
    let (grad, out, sums) = (required(grad)?, required(out)?, required(sums)?);
    let given = [required(q)?, required(k)?, required(v)?];
    ensure!(grad.shape == given[0].shape, "{grad:?}: schema and kernel disagree");
    // SAFETY: operands of the call, only read here.
    let all = unsafe { Scores::new(ctx, given, mask) }?;
    reals!(grad.dtype, T => {
        // SAFETY: operands of the call; only its outputs are written, and each head has
        // its own part of them.
        let ([grad, out, sums], [q_grad, k_grad, v_grad]) = unsafe {
            (
                [grad, out, sums].map(|t| Sequence::new(t)),
                [results[0], results[1], results[2]].map(|t| Sequence::new(t)),
            )
        };
        let scale = all.scale as T;
        ctx.for_each(all.heads / all.sharing.max(1), |shared| {
            let [mut k_buffer, mut v_buffer, mut q_buffer] = [const { Vec::new() }; 3];
            let size = all.keys * all.width;
            let (mut of_k, mut of_v) = (vec![T::ZERO; size], vec![T::ZERO; size]);
            let heads = shared * all.sharing..(shared + 1) * all.sharing;
            let blocks = (0..all.queries).step_by(all.block.max(1));
            let [mut g_buffer, mut o_buffer] = [const { Vec::new() }; 2];
            for (head, first) in heads.flat_map(|h| blocks.clone().map(move |first| (h, first))) {
                let count = all.block.min(all.queries - first);
                let (row, size) = (head * all.queries + first, count * all.width);
                let keys = all.visible_keys(first + count - 1);
                let q = all.q.rows::<T>(head, first, count, &mut q_buffer);
                let k = all.k.rows::<T>(shared, 0, keys, &mut k_buffer);
                let v = all.v.rows::<T>(shared, 0, keys, &mut v_buffer);
                // SAFETY: operands of the call that are only read.
                let (grad, out) = unsafe {
                    let at = row * all.width;
                    (grad.elements(at, size, &mut g_buffer), out.elements(at, size, &mut o_buffer))
                };
                let mut logs = vec![T::ZERO; count];
                sums.load(row, &mut logs);
                let mut p = vec![T::ZERO; count * keys];
                all.compute(head, first, q, k, &mut p);
                for (p, &log) in p.chunks_exact_mut(keys).zip(&logs) {
                    weights_again(p, log);
                }
                let block = |p| Matrix::new(p, count, keys, keys);
                let of_grad = Matrix::new(grad, count, all.width, all.width);
                multiply(&mut of_v[..keys * all.width], block(&p).transposed(), of_grad, true);
                let mut scores = vec![T::ZERO; count * keys];
                multiply(&mut scores, of_grad, v.transposed(), false);
                let rows = scores.chunks_exact_mut(keys).zip(p.chunks_exact(keys));
                let products = grad.chunks_exact(all.width).zip(out.chunks_exact(all.width));
                for ((scores, p), (grad, out)) in rows.zip(products) {
                    score_gradients(scores, p, grad, out, scale);
                }
                let mut of_q = vec![T::ZERO; size];
                multiply(&mut of_q, block(&scores), k, false);
                q_grad.store(row * all.width, &of_q);
                multiply(&mut of_k[..keys * all.width], block(&scores).transposed(), q, true);
            }
            k_grad.store(shared * all.keys * all.width, &of_k);
            v_grad.store(shared * all.keys * all.width, &of_v);
        });
    });
    Ok(())
}
