//! Kernels of the ops in `millstream_ops::attention`, by head, by block of queries and by block of
//! keys, so that only one block of the scores exists at a time.
//!
//! Forward, the exponentials of a block of keys are relative to the greatest score so far. Where a
//! later block has a greater one, the values and sums so far are scaled down.
//!
//! A block of scores has a row for each key: its products then read the keys and values in place,
//! and the queries are side by side for all that is computed of each.
//!
//! Source: T. Dao, D. Fu, S. Ermon, A. Rudra, C. Ré, "FlashAttention: fast and memory-efficient
//! exact attention with IO-awareness", 2022.

use std::ops::Range;

use anyhow::{Result, ensure};
use millstream_types::{DType, Dims};

use super::Kernel;
use super::element::Element;
use super::memory::Buffer;
use super::optional_inputs::{operands, required};
use super::pairwise::sum_of;
use super::real::{Real, reals};
use super::slice_matmul::{Matrix, multiply};
use super::strided::{Address, Sequence, broadcast_step};
use super::vectorised::vectorised;
use crate::context::{KernelCtx, RawTensor};

pub(crate) const KERNELS: &[Kernel] = &[
    ("_scaled_dot_product_flash_attention_for_cpu", forward),
    ("_scaled_dot_product_flash_attention_for_cpu_backward", backward),
];

/// The numbers of queries and of keys in a block.
const QUERIES: usize = 96;
const KEYS: usize = 256;

/// The number of keys whose elements of the mask are added at once: a line of the cache.
const MASKED: usize = 16;

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
        buffer: &'a mut Buffer<T>,
    ) -> Matrix<'a, T> {
        let [heads, length, width] = self.shape;
        assert!(count > 0 && first + count <= length, "outside of a head");
        if !self.in_rows || self.dtype != T::DTYPE {
            buffer.resize(count * width);
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
            scale: ctx.attrs().float("scale")?.unwrap_or((width as f64).sqrt().recip()),
            causal: ctx.attrs().bool("is_causal")?.unwrap_or(false),
            q,
            k,
            v,
            mask,
        })
    }

    /// Returns the blocks of the keys that a query sees.
    fn key_blocks(&self, query: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let visible = if self.causal { self.keys.min(query + 1) } else { self.keys };
        (0..visible).step_by(KEYS).map(move |first| first..visible.min(first + KEYS))
    }

    /// Computes the scores of some queries of a head, the first of which is number `first`, and of
    /// the keys k, the first of which is number `first_key`: a row for each key. The scores of keys
    /// that are not visible are minus infinity.
    fn compute<T: Real>(
        &self,
        (head, first): (usize, usize),
        q: Matrix<'_, T>,
        (k, first_key): (Matrix<'_, T>, usize),
        scores: &mut [T],
    ) {
        let (queries, keys) = (q.rows(), k.rows());
        multiply(scores, k, q.transposed(), false);
        scale(scores, T::from_f64(self.scale));
        if let Some(mask) = &self.mask {
            let mut lines = Buffer::new(queries * keys);
            for (number, line) in lines.chunks_exact_mut(keys).enumerate() {
                mask.load((head * self.queries + first + number) * self.keys + first_key, line);
            }
            add_mask(scores, &lines, queries);
        }
        if self.causal {
            for (key, scores) in (first_key..).zip(scores.chunks_exact_mut(queries)) {
                scores[..key.saturating_sub(first).min(queries)].fill(-T::INFINITY);
            }
        }
    }
}

vectorised! {
    /// Multiplies the values by a factor.
    fn scale<T: Real>(values: &mut [T], factor: T) {
        values.iter_mut().for_each(|v| *v *= factor);
    }

    /// Adds the mask, a line for each of so many queries, to scores, a row for each key.
    fn add_mask<T: Real>(scores: &mut [T], mask: &[T], queries: usize) {
        let keys = mask.len() / queries;
        for (block, scores) in scores.chunks_mut(MASKED * queries).enumerate() {
            for (query, line) in mask.chunks_exact(keys).enumerate() {
                let column = scores[query..].iter_mut().step_by(queries);
                column.zip(&line[block * MASKED..]).for_each(|(v, &m)| *v += m);
            }
        }
    }

    /// Raises the greatest score of each query to those of more keys. Returns the factors by which
    /// what was computed with the former ones is multiplied.
    fn raise<T: Real>(scores: &[T], greatest: &mut [T]) -> Vec<T> {
        let mut factors = greatest.to_vec();
        for scores in scores.chunks_exact(factors.len()) {
            greatest.iter_mut().zip(scores).for_each(|(g, &v)| *g = v.greater(*g));
        }
        for (factor, &greatest) in factors.iter_mut().zip(greatest.iter()) {
            // Equal ones may both be minus infinity.
            *factor = if *factor == greatest { T::ONE } else { (*factor - greatest).exp() };
        }
        factors
    }

    /// Replaces scores by their exponentials relative to the greatest score of each query, and
    /// returns the sums.
    fn exponentials<T: Real>(scores: &mut [T], greatest: &[T]) -> Vec<T> {
        let base = |&g: &T| if g == -T::INFINITY { T::ZERO } else { g };
        let bases: Vec<T> = greatest.iter().map(base).collect();
        let mut sums = vec![T::ZERO; bases.len()];
        for scores in scores.chunks_exact_mut(bases.len()) {
            for ((v, &base), sum) in scores.iter_mut().zip(&bases).zip(&mut sums) {
                *v = (*v - base).exp();
                *sum += *v;
            }
        }
        sums
    }

    /// Multiplies each row by a factor of its own.
    fn scale_rows<T: Real>(rows: &mut [T], factors: &[T]) {
        let width = rows.len() / factors.len();
        for (row, &factor) in rows.chunks_exact_mut(width).zip(factors) {
            row.iter_mut().for_each(|v| *v *= factor);
        }
    }

    /// Divides each row by a sum of its own. Returns the logarithms of the sums of exponentials.
    fn divide_rows<T: Real>(rows: &mut [T], sums: &[T], greatest: &[T]) -> Vec<T> {
        let width = rows.len() / sums.len();
        let mut logs = Vec::with_capacity(sums.len());
        for ((row, &sum), &greatest) in rows.chunks_exact_mut(width).zip(sums).zip(greatest) {
            if greatest == -T::INFINITY {
                // No key is visible. PyTorch defines the logarithm as 0.
                logs.push(T::ZERO);
                continue;
            }
            row.iter_mut().for_each(|v| *v /= sum);
            logs.push(greatest + sum.ln());
        }
        logs
    }

    /// Replaces scores by their softmax. `logs` are the logarithms of its sums.
    fn weights<T: Real>(scores: &mut [T], logs: &[T]) {
        for scores in scores.chunks_exact_mut(logs.len()) {
            for (v, &log) in scores.iter_mut().zip(logs) {
                *v = if *v == -T::INFINITY { T::ZERO } else { (*v - log).exp() };
            }
        }
    }

    /// Replaces the gradients of weights p by those of the scores: p · (gradient - Σ grad · out) ·
    /// scale.
    fn score_gradients<T: Real>(gradients: &mut [T], p: &[T], sums: &[T], scale: T) {
        let rows = gradients.chunks_exact_mut(sums.len()).zip(p.chunks_exact(sums.len()));
        for (gradients, p) in rows {
            for ((v, &p), &sum) in gradients.iter_mut().zip(p).zip(sums) {
                *v = p * (*v - sum) * scale;
            }
        }
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
        let (out, logs) = unsafe { (Sequence::new(results[0]), Sequence::new(results[1])) };
        let blocks = all.queries.div_ceil(QUERIES);
        ctx.for_each(all.heads * blocks, |task| {
            let (head, first) = (task / blocks, task % blocks * QUERIES);
            let count = QUERIES.min(all.queries - first);
            let row = head * all.queries + first;
            let shared = head / all.sharing;
            let [mut of_q, mut of_k, mut of_v] = [(); 3].map(|()| Buffer::new(0));
            let q = all.q.rows::<T>(head, first, count, &mut of_q);
            let mut scores = Buffer::new(count * KEYS.min(all.keys));
            let mut values = vec![T::ZERO; count * all.width];
            let (mut greatest, mut sums) = (vec![-T::INFINITY; count], vec![T::ZERO; count]);
            for block in all.key_blocks(first + count - 1) {
                let k = all.k.rows(shared, block.start, block.len(), &mut of_k);
                let v = all.v.rows(shared, block.start, block.len(), &mut of_v);
                let scores = &mut scores[..block.len() * count];
                all.compute((head, first), q, (k, block.start), scores);
                let factors = raise(scores, &mut greatest);
                let of_block = exponentials(scores, &greatest);
                for ((sum, &factor), &more) in sums.iter_mut().zip(&factors).zip(&of_block) {
                    *sum = *sum * factor + more;
                }
                scale_rows(&mut values, &factors);
                let weights = Matrix::new(scores, block.len(), count, count).transposed();
                multiply(&mut values, weights, v, true);
            }
            let of_rows = divide_rows(&mut values, &sums, &greatest);
            out.store(row * all.width, &values);
            logs.store(row, &of_rows);
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
        ctx.for_each(all.heads / all.sharing.max(1), |shared| {
            let size = all.keys * all.width;
            let (mut of_k, mut of_v) = (vec![T::ZERO; size], vec![T::ZERO; size]);
            let [mut k_buffer, mut v_buffer, mut q_buffer] = [(); 3].map(|()| Buffer::new(0));
            let [mut g_buffer, mut o_buffer] = [const { Vec::new() }; 2];
            let scores = QUERIES.min(all.queries) * KEYS.min(all.keys);
            let (mut p, mut gradients) = (Buffer::new(scores), Buffer::new(scores));
            let heads = shared * all.sharing..(shared + 1) * all.sharing;
            let blocks = (0..all.queries).step_by(QUERIES);
            for (head, first) in heads.flat_map(|h| blocks.clone().map(move |first| (h, first))) {
                let count = QUERIES.min(all.queries - first);
                let (row, size) = (head * all.queries + first, count * all.width);
                let q = all.q.rows::<T>(head, first, count, &mut q_buffer);
                // SAFETY: operands of the call that are only read.
                let (grad, out) = unsafe {
                    let at = row * all.width;
                    (grad.elements(at, size, &mut g_buffer), out.elements(at, size, &mut o_buffer))
                };
                let rows = grad.chunks_exact(all.width).zip(out.chunks_exact(all.width));
                let products: Vec<T> =
                    rows.map(|(grad, out)| sum_of([out, grad], |[o, g]| o * g)).collect();
                let grad = Matrix::new(grad, count, all.width, all.width);
                let mut logs = vec![T::ZERO; count];
                sums.load(row, &mut logs);
                let mut of_q = vec![T::ZERO; size];
                for block in all.key_blocks(first + count - 1) {
                    let keys = block.len();
                    let k = all.k.rows(shared, block.start, keys, &mut k_buffer);
                    let v = all.v.rows(shared, block.start, keys, &mut v_buffer);
                    let of_keys = block.start * all.width..block.end * all.width;
                    let (p, gradients) = (&mut p[..keys * count], &mut gradients[..keys * count]);
                    all.compute((head, first), q, (k, block.start), p);
                    weights(p, &logs);
                    let in_rows = |scores| Matrix::new(scores, keys, count, count);
                    multiply(&mut of_v[of_keys.clone()], in_rows(p), grad, true);
                    multiply(gradients, v, grad.transposed(), false);
                    score_gradients(gradients, p, &products, all.scale as T);
                    multiply(&mut of_q, in_rows(gradients).transposed(), k, true);
                    multiply(&mut of_k[of_keys], in_rows(gradients), q, true);
                }
                q_grad.store(row * all.width, &of_q);
            }
            k_grad.store(shared * all.keys * all.width, &of_k);
            v_grad.store(shared * all.keys * all.width, &of_v);
        });
    });
    Ok(())
}
