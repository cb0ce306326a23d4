//! Methods of the ops under "Collectives".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, Result};

use crate::api::handle::Tensor;
use crate::tensor::{Int, Ints, call};

/// Options of [`Tensor::allreduce_with_`].
#[derive(Clone, Debug, Default)]
pub struct Allreduce {
    attrs: Attrs,
}

impl Allreduce {
    /// Sets `op`: "sum", "product", "min", "max" or "mean"; default "sum".
    #[must_use]
    pub fn op(mut self, op: &str) -> Allreduce {
        self.attrs.set("op", op);
        self
    }
}

/// Options of [`Tensor::alltoall_with_`].
#[derive(Clone, Debug, Default)]
pub struct Alltoall {
    attrs: Attrs,
}

impl Alltoall {
    /// Sets `input_splits`: rows sent to each rank; default equal parts.
    #[must_use]
    pub fn input_splits(mut self, input_splits: impl Ints) -> Alltoall {
        self.attrs.set("input_splits", input_splits.to_ints());
        self
    }

    /// Sets `output_splits`: rows received from each rank; default equal parts.
    #[must_use]
    pub fn output_splits(mut self, output_splits: impl Ints) -> Alltoall {
        self.attrs.set("output_splits", output_splits.to_ints());
        self
    }
}

/// Options of [`Tensor::recv_with_`].
#[derive(Clone, Debug, Default)]
pub struct Recv {
    attrs: Attrs,
}

impl Recv {
    /// Sets `tag`: distinguishes messages between the same ranks; default 0.
    #[must_use]
    pub fn tag(mut self, tag: impl Int) -> Recv {
        self.attrs.set("tag", tag.to_int());
        self
    }
}

/// Options of [`Tensor::reduce_scatter_with_`].
#[derive(Clone, Debug, Default)]
pub struct ReduceScatter {
    attrs: Attrs,
}

impl ReduceScatter {
    /// Sets `op`: "sum", "product", "min", "max" or "mean"; default "sum".
    #[must_use]
    pub fn op(mut self, op: &str) -> ReduceScatter {
        self.attrs.set("op", op);
        self
    }
}

/// Options of [`Tensor::send_with`].
#[derive(Clone, Debug, Default)]
pub struct Send {
    attrs: Attrs,
}

impl Send {
    /// Sets `tag`: distinguishes messages between the same ranks; default 0.
    #[must_use]
    pub fn tag(mut self, tag: impl Int) -> Send {
        self.attrs.set("tag", tag.to_int());
        self
    }
}

impl Tensor {
    /// Replaces each tensor by its reduction over all ranks, in rank order.
    ///
    /// - `x`: any shape, without overlapping elements; overwritten; any number of them
    /// - `round`: the number of this collective in program order, from 0; the same on all ranks
    ///
    /// The op `allreduce_`, which PyTorch has under another name or not at all.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn allreduce_(x: &[&Tensor], round: impl Int) -> Result<()> {
        let mut given = Vec::new();
        let mut attrs = Attrs::new();
        given.extend(x.iter().copied());
        attrs.set("round", round.to_int());
        call::changed("allreduce_", &given, attrs)
    }

    /// Replaces each tensor by its reduction over all ranks, in rank order.
    ///
    /// - `x`: any shape, without overlapping elements; overwritten; any number of them
    /// - `round`: the number of this collective in program order, from 0; the same on all ranks
    /// - `options`: [`struct@Allreduce`], which has defaults
    ///
    /// The op `allreduce_`, which PyTorch has under another name or not at all.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn allreduce_with_(x: &[&Tensor], round: impl Int, options: Allreduce) -> Result<()> {
        let mut given = Vec::new();
        let mut attrs = options.attrs;
        given.extend(x.iter().copied());
        attrs.set("round", round.to_int());
        call::changed("allreduce_", &given, attrs)
    }

    /// Replaces the tensors of all ranks by those of the root.
    ///
    /// - `x`: any shape, without overlapping elements; overwritten; any number of them
    /// - `root`: the rank whose tensors are sent
    /// - `round`: the number of this collective in program order, from 0; the same on all ranks
    ///
    /// The op `broadcast_`, which PyTorch has under another name or not at all.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn broadcast_(x: &[&Tensor], root: impl Int, round: impl Int) -> Result<()> {
        let mut given = Vec::new();
        let mut attrs = Attrs::new();
        given.extend(x.iter().copied());
        attrs.set("root", root.to_int());
        attrs.set("round", round.to_int());
        call::changed("broadcast_", &given, attrs)
    }

    /// Concatenates the tensors of all ranks into out, in rank order.
    ///
    /// - `out`, this tensor: without overlapping elements; overwritten
    /// - `x`: out's dtype; the same shape on all ranks
    /// - `round`: the number of this collective in program order, from 0; the same on all ranks
    ///
    /// The op `allgather_`, which PyTorch has under another name or not at all.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn allgather_(&self, x: &Tensor, round: impl Int) -> Result<&Tensor> {
        let mut given = vec![self];
        let mut attrs = Attrs::new();
        given.push(x);
        attrs.set("round", round.to_int());
        call::changed("allgather_", &given, attrs)?;
        Ok(self)
    }

    /// Reduces the tensors of all ranks and writes this rank's part to out.
    ///
    /// - `out`, this tensor: without overlapping elements; overwritten
    /// - `x`: out's dtype; the same shape on all ranks
    /// - `round`: the number of this collective in program order, from 0; the same on all ranks
    ///
    /// The op `reduce_scatter_`, which PyTorch has under another name or not at all.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn reduce_scatter_(&self, x: &Tensor, round: impl Int) -> Result<&Tensor> {
        let mut given = vec![self];
        let mut attrs = Attrs::new();
        given.push(x);
        attrs.set("round", round.to_int());
        call::changed("reduce_scatter_", &given, attrs)?;
        Ok(self)
    }

    /// Reduces the tensors of all ranks and writes this rank's part to out.
    ///
    /// - `out`, this tensor: without overlapping elements; overwritten
    /// - `x`: out's dtype; the same shape on all ranks
    /// - `round`: the number of this collective in program order, from 0; the same on all ranks
    /// - `options`: [`struct@ReduceScatter`], which has defaults
    ///
    /// The op `reduce_scatter_`, which PyTorch has under another name or not at all.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn reduce_scatter_with_(
        &self,
        x: &Tensor,
        round: impl Int,
        options: ReduceScatter,
    ) -> Result<&Tensor> {
        let mut given = vec![self];
        let mut attrs = options.attrs;
        given.push(x);
        attrs.set("round", round.to_int());
        call::changed("reduce_scatter_", &given, attrs)?;
        Ok(self)
    }

    /// Sends part k of x to rank k, along the first dimension.
    ///
    /// - `out`, this tensor: without overlapping elements; overwritten
    /// - `x`: out's dtype; the same shape on all ranks
    /// - `round`: the number of this collective in program order, from 0; the same on all ranks
    ///
    /// The op `alltoall_`, which PyTorch has under another name or not at all.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn alltoall_(&self, x: &Tensor, round: impl Int) -> Result<&Tensor> {
        let mut given = vec![self];
        let mut attrs = Attrs::new();
        given.push(x);
        attrs.set("round", round.to_int());
        call::changed("alltoall_", &given, attrs)?;
        Ok(self)
    }

    /// Sends part k of x to rank k, along the first dimension.
    ///
    /// - `out`, this tensor: without overlapping elements; overwritten
    /// - `x`: out's dtype; the same shape on all ranks
    /// - `round`: the number of this collective in program order, from 0; the same on all ranks
    /// - `options`: [`struct@Alltoall`], which has defaults
    ///
    /// The op `alltoall_`, which PyTorch has under another name or not at all.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn alltoall_with_(
        &self,
        x: &Tensor,
        round: impl Int,
        options: Alltoall,
    ) -> Result<&Tensor> {
        let mut given = vec![self];
        let mut attrs = options.attrs;
        given.push(x);
        attrs.set("round", round.to_int());
        call::changed("alltoall_", &given, attrs)?;
        Ok(self)
    }

    /// Sends tensors to another rank without waiting for their receipt.
    ///
    /// - `x`: any shape; any number of them
    /// - `to`: the rank that receives them
    ///
    /// The op `send`, which PyTorch has under another name or not at all.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn send(x: &[&Tensor], to: impl Int) -> Result<()> {
        let mut given = Vec::new();
        let mut attrs = Attrs::new();
        given.extend(x.iter().copied());
        attrs.set("to", to.to_int());
        call::changed("send", &given, attrs)
    }

    /// Sends tensors to another rank without waiting for their receipt.
    ///
    /// - `x`: any shape; any number of them
    /// - `to`: the rank that receives them
    /// - `options`: [`struct@Send`], which has defaults
    ///
    /// The op `send`, which PyTorch has under another name or not at all.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn send_with(x: &[&Tensor], to: impl Int, options: Send) -> Result<()> {
        let mut given = Vec::new();
        let mut attrs = options.attrs;
        given.extend(x.iter().copied());
        attrs.set("to", to.to_int());
        call::changed("send", &given, attrs)
    }

    /// Waits for the tensors that another rank sends and writes them to x.
    ///
    /// - `x`: any shape, without overlapping elements; overwritten; any number of them
    /// - `from`: the rank that sends them
    ///
    /// The op `recv_`, which PyTorch has under another name or not at all.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn recv_(x: &[&Tensor], from: impl Int) -> Result<()> {
        let mut given = Vec::new();
        let mut attrs = Attrs::new();
        given.extend(x.iter().copied());
        attrs.set("from", from.to_int());
        call::changed("recv_", &given, attrs)
    }

    /// Waits for the tensors that another rank sends and writes them to x.
    ///
    /// - `x`: any shape, without overlapping elements; overwritten; any number of them
    /// - `from`: the rank that sends them
    /// - `options`: [`struct@Recv`], which has defaults
    ///
    /// The op `recv_`, which PyTorch has under another name or not at all.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn recv_with_(x: &[&Tensor], from: impl Int, options: Recv) -> Result<()> {
        let mut given = Vec::new();
        let mut attrs = options.attrs;
        given.extend(x.iter().copied());
        attrs.set("from", from.to_int());
        call::changed("recv_", &given, attrs)
    }
}
