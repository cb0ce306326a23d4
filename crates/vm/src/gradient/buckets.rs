//! Gradients of global leaves, brought to the leaves' shardings in buckets.
//!
//! Each rank computes the gradient of its part of the work, so the gradient of a leaf that every
//! rank has whole is a sum of parts. Once a bucket is full, one collective reduces all its
//! gradients, while the backward pass computes those of earlier calls. The last leaves come first,
//! as their gradients are complete first. Source: S. Li et al., "PyTorch Distributed: Experiences
//! on Accelerating Data Parallel Training", 2020, section 3.2.3.

use std::sync::Arc;

use millstream_ops::boxing::between;
use millstream_runtime::scope::origin;
use millstream_types::{DType, Result, Sharding};

use crate::handle::leaf::Leaf;
use crate::handle::{Tensor, global, stream_of};

/// The bytes of a bucket unless the program sets them, as in PyTorch.
pub(super) const USUAL_BYTES: usize = 25 << 20;

/// The gradients of leaves, in the order in which they are complete.
pub(super) struct Buckets {
    bytes: usize,
    leaves: Vec<(Arc<Leaf>, Tensor)>,
    open: Vec<Bucket>,
}

/// Gradients that wait for others, to be reduced together.
struct Bucket {
    dtype: DType,
    from: Arc<Sharding>,
    to: Arc<Sharding>,
    /// The positions of their leaves.
    gradients: Vec<usize>,
    bytes: usize,
}

impl Buckets {
    pub(super) fn new(bytes: usize) -> Buckets {
        Buckets { bytes, leaves: Vec::new(), open: Vec::new() }
    }

    /// Adds the gradient of a leaf.
    ///
    /// # Errors
    /// A collective cannot be called.
    pub(super) fn push(&mut self, leaf: Arc<Leaf>, gradient: Tensor) -> Result<()> {
        let position = self.leaves.len();
        let held = gradient.global().map(|global| global.sharding.clone());
        let (Some(from), Some(to)) = (held, leaf.sharding.clone()) else {
            self.leaves.push((leaf, gradient));
            return Ok(());
        };
        if from == to {
            self.leaves.push((leaf, gradient));
            return Ok(());
        }
        let path = between(gradient.spec(), &from, &to)?;
        if !global::is_reduction(&path) {
            let stream = stream_of(&gradient)?;
            let gradient = global::redistribute(&gradient, &to, &stream, &origin::caller())?;
            self.leaves.push((leaf, gradient));
            return Ok(());
        }
        let (dtype, bytes) = (gradient.dtype(), gradient.spec().span_bytes());
        self.leaves.push((leaf, gradient));
        let of = |open: &Bucket| open.dtype == dtype && open.from == from && open.to == to;
        let at = self.open.iter().position(of).unwrap_or_else(|| {
            self.open.push(Bucket { dtype, from, to, gradients: Vec::new(), bytes: 0 });
            self.open.len() - 1
        });
        let bucket = &mut self.open[at];
        bucket.gradients.push(position);
        bucket.bytes += bytes;
        if bucket.bytes >= self.bytes {
            let full = self.open.remove(at);
            self.reduce(&full)?;
        }
        Ok(())
    }

    fn reduce(&mut self, bucket: &Bucket) -> Result<()> {
        let gradients: Vec<Tensor> =
            bucket.gradients.iter().map(|at| self.leaves[*at].1.clone()).collect();
        let reduced = global::reduce_together(&gradients, &bucket.to)?;
        for (at, gradient) in bucket.gradients.iter().zip(reduced) {
            self.leaves[*at].1 = gradient;
        }
        Ok(())
    }

    /// Reduces the rest, and returns the leaves with their gradients.
    ///
    /// # Errors
    /// A collective cannot be called.
    pub(super) fn finish(mut self) -> Result<Vec<(Arc<Leaf>, Tensor)>> {
        for bucket in std::mem::take(&mut self.open) {
            self.reduce(&bucket)?;
        }
        Ok(self.leaves)
    }
}
