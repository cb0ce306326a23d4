//! Kernels of the ops in `millstream_ops::attention`, by head and by block of queries, so that only
//! one block of the scores exists at a time.

use anyhow::{Result, ensure};
use millstream_types::Dims;

use super::Kernel;
use super::element::Element;
use super::optional_inputs::{operands, required};
use super::pairwise::pairwise_sum;
use super::real::{Real, reals};
use super::slice_matmul::{Matrix, multiply};
use super::softmax::exponentials;
use super::strided::{Sequence, broadcast_step};
use crate::context::{KernelCtx, RawTensor};

pub(crate) const KERNELS: &[Kernel] = &[
    ("_scaled_dot_product_flash_attention_for_cpu", forward),
    ("_scaled_dot_product_flash_attention_for_cpu_backward", backward),
];

/// The numbers of scores and of queries in a block, unless one query has more scores.
const SCORES: usize = 1 << 16;
const QUERIES: usize = 64;

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
    q: Sequence,
    k: Sequence,
    v: Sequence,
    mask: Option<Sequence>,
}

impl Scores {
    /// # Safety
    /// The tensors are operands of the call.
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
        let [q, k, v] = unsafe { [q, k, v].map(|t| Sequence::new(t)) };
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

    fn load<T: Real>(&self, from: &Sequence, row: usize, rows: usize) -> Vec<T> {
        let mut values = vec![T::ZERO; rows * self.width];
        from.load(row * self.width, &mut values);
        values
    }

    fn matrix<'a, T>(&self, rows: &'a [T]) -> Matrix<'a, T> {
        Matrix::new(rows, rows.len() / self.width, self.width, self.width)
    }

    /// Computes the scores of a block of queries that begins at query `first` of its head. The
    /// scores of keys that are not visible are minus infinity.
    fn compute<T: Real>(&self, head: usize, first: usize, q: &[T], k: &[T], scores: &mut [T]) {
        let scale = T::from_f64(self.scale);
        multiply(scores, self.matrix(q), self.matrix(k).transposed(), false);
        let mut mask = vec![T::ZERO; self.keys];
        for (number, scores) in scores.chunks_exact_mut(self.keys).enumerate() {
            scores.iter_mut().for_each(|v| *v *= scale);
            if let Some(from) = &self.mask {
                from.load((head * self.queries + first + number) * self.keys, &mut mask);
                scores.iter_mut().zip(&mask).for_each(|(v, &m)| *v += m);
            }
            scores[self.visible_keys(first + number)..].fill(-T::INFINITY);
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
        let (out, sums) = unsafe { (Sequence::new(results[0]), Sequence::new(results[1])) };
        let blocks = all.queries.div_ceil(all.block.max(1));
        ctx.for_each(all.heads * blocks, |task| {
            let (head, first) = (task / blocks, task % blocks * all.block);
            let count = all.block.min(all.queries - first);
            let row = head * all.queries + first;
            let q: Vec<T> = all.load(&all.q, row, count);
            let k: Vec<T> = all.load(&all.k, head / all.sharing * all.keys, all.keys);
            let v: Vec<T> = all.load(&all.v, head / all.sharing * all.keys, all.keys);
            let mut scores = vec![T::ZERO; count * all.keys];
            all.compute(head, first, &q, &k, &mut scores);
            let mut logs = vec![T::ZERO; count];
            for (scores, log) in scores.chunks_exact_mut(all.keys).zip(&mut logs) {
                if scores.iter().all(|&v| v == -T::INFINITY) {
                    // No key is visible. PyTorch defines the logarithm as 0.
                    scores.fill(T::ZERO);
                    continue;
                }
                let (greatest, sum) = exponentials(scores);
                scores.iter_mut().for_each(|v| *v /= sum);
                *log = greatest + sum.ln();
            }
            let mut values = vec![T::ZERO; count * all.width];
            let scores = Matrix::new(&scores, count, all.keys, all.keys);
            multiply(&mut values, scores, all.matrix(&v), false);
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
            let k: Vec<T> = all.load(&all.k, shared * all.keys, all.keys);
            let v: Vec<T> = all.load(&all.v, shared * all.keys, all.keys);
            let (mut of_k, mut of_v) = (vec![T::ZERO; k.len()], vec![T::ZERO; v.len()]);
            let heads = shared * all.sharing..(shared + 1) * all.sharing;
            let blocks = (0..all.queries).step_by(all.block.max(1));
            for (head, first) in heads.flat_map(|h| blocks.clone().map(move |first| (h, first))) {
                let count = all.block.min(all.queries - first);
                let row = head * all.queries + first;
                let q: Vec<T> = all.load(&all.q, row, count);
                let grad: Vec<T> = all.load(&grad, row, count);
                let mut products: Vec<T> = all.load(&out, row, count);
                let mut logs = vec![T::ZERO; count];
                sums.load(row, &mut logs);
                let mut p = vec![T::ZERO; count * all.keys];
                all.compute(head, first, &q, &k, &mut p);
                for (p, &log) in p.chunks_exact_mut(all.keys).zip(&logs) {
                    let seen = |v: T| v != -T::INFINITY;
                    p.iter_mut().for_each(|p| *p = if seen(*p) { (*p - log).exp() } else { 0.0 });
                }
                let block = |p| Matrix::new(p, count, all.keys, all.keys);
                multiply(&mut of_v, block(&p).transposed(), all.matrix(&grad), true);
                let mut scores = vec![T::ZERO; count * all.keys];
                multiply(&mut scores, all.matrix(&grad), all.matrix(&v).transposed(), false);
                products.iter_mut().zip(&grad).for_each(|(o, &g)| *o *= g);
                let rows = scores.chunks_exact_mut(all.keys).zip(p.chunks_exact(all.keys));
                for ((scores, p), products) in rows.zip(products.chunks_exact(all.width)) {
                    let sum: T = pairwise_sum(products);
                    for (score, &p) in scores.iter_mut().zip(p) {
                        *score = p * (*score - sum) * scale;
                    }
                }
                let mut of_q = vec![T::ZERO; q.len()];
                multiply(&mut of_q, block(&scores), all.matrix(&k), false);
                q_grad.store(row * all.width, &of_q);
                multiply(&mut of_k, block(&scores).transposed(), all.matrix(&q), true);
            }
            k_grad.store(shared * all.keys * all.width, &of_k);
            v_grad.store(shared * all.keys * all.width, &of_v);
        });
    });
    Ok(())
}
