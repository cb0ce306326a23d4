//! Methods of the ops under "Collectives".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, Result};

use crate::handle::Tensor;
use crate::tensor::{Int, Ints, call};

/// Options of [`Tensor::allgather_with_`].
#[derive(Clone, Debug, Default)]
pub struct Allgather {
    attrs: Attrs,
}

impl Allgather {
    /// Sets `group`: the ranks that take part, ascending; default all ranks of the program.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_comm::{Communicator, LocalGroup};
    /// # use millstream_vm::*;
    /// # LocalGroup::run(2, |communicator| {
    /// # let (rank, config) = (communicator.rank(), MachineConfig::default());
    /// # let machine = Machine::new(config.communicator(std::sync::Arc::new(communicator)))?;
    /// // On each of two ranks:
    /// let x = Tensor::from_slice(&[[1.0f32, 10.0][rank]], 1, &machine)?;
    /// let out = Tensor::zeros(2, DType::F32, &machine)?;
    /// let second = options::Allgather::default().group((0, 1)).group_index(1);
    /// out.allgather_with_(&x, second)?; // a group of its own, of both ranks
    /// assert_eq!(out.to_vec::<f32>()?, [1.0, 10.0]);
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn group(mut self, group: impl Ints) -> Allgather {
        self.attrs.set("group", group.to_ints());
        self
    }

    /// Sets `group_index`: tells groups of the same ranks apart; default 0.
    #[must_use]
    pub fn group_index(mut self, group_index: impl Int) -> Allgather {
        self.attrs.set("group_index", group_index.to_int());
        self
    }

    /// Sets `splits`: rows along the first dimension of each rank's part; default equal parts.
    #[must_use]
    pub fn splits(mut self, splits: impl Ints) -> Allgather {
        self.attrs.set("splits", splits.to_ints());
        self
    }
}

/// Options of [`Tensor::allreduce_with_`].
#[derive(Clone, Debug, Default)]
pub struct Allreduce {
    attrs: Attrs,
}

impl Allreduce {
    /// Sets `group`: the ranks that take part, ascending; default all ranks of the program.
    ///
    /// ```
    /// # use millstream_comm::{Communicator, LocalGroup};
    /// # use millstream_vm::*;
    /// # LocalGroup::run(2, |communicator| {
    /// # let (rank, config) = (communicator.rank(), MachineConfig::default());
    /// # let machine = Machine::new(config.communicator(std::sync::Arc::new(communicator)))?;
    /// // On each of two ranks:
    /// let x = Tensor::from_slice(&[[1.0f32, 10.0][rank]], 1, &machine)?;
    /// Tensor::allreduce_with_(&[&x], options::Allreduce::default().group(rank))?;
    /// assert_eq!(x.to_vec::<f32>()?, [[1.0, 10.0][rank]]); // each rank alone
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn group(mut self, group: impl Ints) -> Allreduce {
        self.attrs.set("group", group.to_ints());
        self
    }

    /// Sets `group_index`: tells groups of the same ranks apart; default 0.
    ///
    /// ```
    /// # use millstream_comm::{Communicator, LocalGroup};
    /// # use millstream_vm::*;
    /// # LocalGroup::run(2, |communicator| {
    /// # let (rank, config) = (communicator.rank(), MachineConfig::default());
    /// # let machine = Machine::new(config.communicator(std::sync::Arc::new(communicator)))?;
    /// // On each of two ranks:
    /// let x = Tensor::from_slice(&[[1.0f32, 10.0][rank]], 1, &machine)?;
    /// let second = options::Allreduce::default().group((0, 1)).group_index(1);
    /// Tensor::allreduce_with_(&[&x], second)?; // a group of its own, of both ranks
    /// assert_eq!(x.to_vec::<f32>()?, [11.0]);
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn group_index(mut self, group_index: impl Int) -> Allreduce {
        self.attrs.set("group_index", group_index.to_int());
        self
    }

    /// Sets `op`: "sum", "product", "min", "max" or "mean"; default "sum".
    #[must_use]
    pub fn op(mut self, op: &str) -> Allreduce {
        self.attrs.set("op", op);
        self
    }
}

/// Options of [`Tensor::alltoall_`].
///
/// ```
/// # use millstream_types::DType;
/// # use millstream_comm::{Communicator, LocalGroup};
/// # use millstream_vm::*;
/// # LocalGroup::run(2, |communicator| {
/// # let (rank, config) = (communicator.rank(), MachineConfig::default());
/// # let machine = Machine::new(config.communicator(std::sync::Arc::new(communicator)))?;
/// // On each of two ranks:
/// let x = Tensor::from_slice(&[[1.0f32, 2.0, 3.0], [10.0, 20.0, 30.0]][rank], 3, &machine)?;
/// let out = Tensor::zeros([2, 4][rank], DType::F32, &machine)?;
/// let parts = options::Alltoall::default().input_splits((1, 2)).output_splits([rank + 1; 2]);
/// out.alltoall_(&x, parts)?;
/// assert_eq!(out.to_vec::<f32>()?, [vec![1.0, 10.0], vec![2.0, 3.0, 20.0, 30.0]][rank]);
/// # Ok(())
/// # })?;
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Alltoall {
    attrs: Attrs,
}

impl Alltoall {
    /// Sets `group`: the ranks that take part, ascending; default all ranks of the program.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_comm::{Communicator, LocalGroup};
    /// # use millstream_vm::*;
    /// # LocalGroup::run(2, |communicator| {
    /// # let (rank, config) = (communicator.rank(), MachineConfig::default());
    /// # let machine = Machine::new(config.communicator(std::sync::Arc::new(communicator)))?;
    /// // On each of two ranks:
    /// let x = Tensor::from_slice(&[[1.0f32, 2.0], [10.0, 20.0]][rank], 2, &machine)?;
    /// let out = Tensor::zeros(2, DType::F32, &machine)?;
    /// let second = options::Alltoall::default().group((0, 1)).group_index(1);
    /// out.alltoall_(&x, second)?; // a group of its own, of both ranks
    /// assert_eq!(out.to_vec::<f32>()?, [[1.0, 10.0], [2.0, 20.0]][rank]);
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn group(mut self, group: impl Ints) -> Alltoall {
        self.attrs.set("group", group.to_ints());
        self
    }

    /// Sets `group_index`: tells groups of the same ranks apart; default 0.
    #[must_use]
    pub fn group_index(mut self, group_index: impl Int) -> Alltoall {
        self.attrs.set("group_index", group_index.to_int());
        self
    }

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

/// Options of [`Tensor::barrier_with_`].
#[derive(Clone, Debug, Default)]
pub struct Barrier {
    attrs: Attrs,
}

impl Barrier {
    /// Sets `group`: the ranks that take part, ascending; default all ranks of the program.
    #[must_use]
    pub fn group(mut self, group: impl Ints) -> Barrier {
        self.attrs.set("group", group.to_ints());
        self
    }

    /// Sets `group_index`: tells groups of the same ranks apart; default 0.
    #[must_use]
    pub fn group_index(mut self, group_index: impl Int) -> Barrier {
        self.attrs.set("group_index", group_index.to_int());
        self
    }
}

/// Options of [`Tensor::broadcast_with_`].
#[derive(Clone, Debug, Default)]
pub struct Broadcast {
    attrs: Attrs,
}

impl Broadcast {
    /// Sets `group`: the ranks that take part, ascending; default all ranks of the program.
    #[must_use]
    pub fn group(mut self, group: impl Ints) -> Broadcast {
        self.attrs.set("group", group.to_ints());
        self
    }

    /// Sets `group_index`: tells groups of the same ranks apart; default 0.
    #[must_use]
    pub fn group_index(mut self, group_index: impl Int) -> Broadcast {
        self.attrs.set("group_index", group_index.to_int());
        self
    }
}

/// Options of [`Tensor::gather_to_`].
#[derive(Clone, Debug, Default)]
pub struct GatherTo<'a> {
    out: Option<&'a Tensor>,
    attrs: Attrs,
}

impl<'a> GatherTo<'a> {
    /// Sets `group`: the ranks that take part, ascending; default all ranks of the program.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_comm::{Communicator, LocalGroup};
    /// # use millstream_vm::*;
    /// # LocalGroup::run(2, |communicator| {
    /// # let (rank, config) = (communicator.rank(), MachineConfig::default());
    /// # let machine = Machine::new(config.communicator(std::sync::Arc::new(communicator)))?;
    /// // On each of two ranks:
    /// let x = Tensor::from_slice(&[[1.0f32, 10.0][rank]], 1, &machine)?;
    /// let out = Tensor::zeros(2, DType::F32, &machine)?;
    /// let second = options::GatherTo::default().group((0, 1)).group_index(1); // of both ranks
    /// if rank == 0 {
    ///     x.gather_to_(0, second.out(&out))?;
    ///     assert_eq!(out.to_vec::<f32>()?, [1.0, 10.0]);
    /// } else {
    ///     x.gather_to_(0, second)?;
    /// }
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn group(mut self, group: impl Ints) -> GatherTo<'a> {
        self.attrs.set("group", group.to_ints());
        self
    }

    /// Sets `group_index`: tells groups of the same ranks apart; default 0.
    #[must_use]
    pub fn group_index(mut self, group_index: impl Int) -> GatherTo<'a> {
        self.attrs.set("group_index", group_index.to_int());
        self
    }

    /// Gives the tensor `out`: x's dtype, without overlapping elements; overwritten; on the root
    /// alone.
    #[must_use]
    pub fn out(mut self, out: &'a Tensor) -> GatherTo<'a> {
        self.out = Some(out);
        self
    }

    /// Sets `splits`: rows along the first dimension of each rank's part; default equal parts.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_comm::{Communicator, LocalGroup};
    /// # use millstream_vm::*;
    /// # LocalGroup::run(2, |communicator| {
    /// # let (rank, config) = (communicator.rank(), MachineConfig::default());
    /// # let machine = Machine::new(config.communicator(std::sync::Arc::new(communicator)))?;
    /// // On each of two ranks:
    /// let x = Tensor::full(rank + 1, rank as f32 + 1.0, &machine)?; // one row, or two
    /// let out = Tensor::zeros(3, DType::F32, &machine)?;
    /// let parts = options::GatherTo::default().splits((1, 2));
    /// if rank == 0 {
    ///     x.gather_to_(0, parts.out(&out))?;
    ///     assert_eq!(out.to_vec::<f32>()?, [1.0, 2.0, 2.0]);
    /// } else {
    ///     x.gather_to_(0, parts)?;
    /// }
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn splits(mut self, splits: impl Ints) -> GatherTo<'a> {
        self.attrs.set("splits", splits.to_ints());
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

/// Options of [`Tensor::reduce_with_`].
#[derive(Clone, Debug, Default)]
pub struct Reduce {
    attrs: Attrs,
}

impl Reduce {
    /// Sets `group`: the ranks that take part, ascending; default all ranks of the program.
    ///
    /// ```
    /// # use millstream_comm::{Communicator, LocalGroup};
    /// # use millstream_vm::*;
    /// # LocalGroup::run(2, |communicator| {
    /// # let (rank, config) = (communicator.rank(), MachineConfig::default());
    /// # let machine = Machine::new(config.communicator(std::sync::Arc::new(communicator)))?;
    /// // On each of two ranks:
    /// let x = Tensor::from_slice(&[[1.0f32, 10.0][rank]], 1, &machine)?;
    /// Tensor::reduce_with_(&[&x], rank, options::Reduce::default().group(rank))?;
    /// assert_eq!(x.to_vec::<f32>()?, [[1.0, 10.0][rank]]); // each rank alone
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn group(mut self, group: impl Ints) -> Reduce {
        self.attrs.set("group", group.to_ints());
        self
    }

    /// Sets `group_index`: tells groups of the same ranks apart; default 0.
    ///
    /// ```
    /// # use millstream_comm::{Communicator, LocalGroup};
    /// # use millstream_vm::*;
    /// # LocalGroup::run(2, |communicator| {
    /// # let (rank, config) = (communicator.rank(), MachineConfig::default());
    /// # let machine = Machine::new(config.communicator(std::sync::Arc::new(communicator)))?;
    /// // On each of two ranks:
    /// let x = Tensor::from_slice(&[[1.0f32, 10.0][rank]], 1, &machine)?;
    /// let second = options::Reduce::default().group((0, 1)).group_index(1);
    /// Tensor::reduce_with_(&[&x], 0, second)?; // a group of its own, of both ranks
    /// if rank == 0 {
    ///     assert_eq!(x.to_vec::<f32>()?, [11.0]);
    /// }
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn group_index(mut self, group_index: impl Int) -> Reduce {
        self.attrs.set("group_index", group_index.to_int());
        self
    }

    /// Sets `op`: "sum", "product", "min", "max" or "mean"; default "sum".
    #[must_use]
    pub fn op(mut self, op: &str) -> Reduce {
        self.attrs.set("op", op);
        self
    }
}

/// Options of [`Tensor::reduce_scatter_`].
///
/// ```
/// # use millstream_types::DType;
/// # use millstream_comm::{Communicator, LocalGroup};
/// # use millstream_vm::*;
/// # LocalGroup::run(2, |communicator| {
/// # let (rank, config) = (communicator.rank(), MachineConfig::default());
/// # let machine = Machine::new(config.communicator(std::sync::Arc::new(communicator)))?;
/// // On each of two ranks:
/// let x = Tensor::from_slice(&[3.0f32, 4.0], 2, &machine)?;
/// let out = Tensor::zeros(1, DType::F32, &machine)?;
/// out.reduce_scatter_(&x, options::ReduceScatter::default().op("product"))?;
/// assert_eq!(out.to_vec::<f32>()?, [[9.0, 16.0][rank]]);
/// # Ok(())
/// # })?;
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ReduceScatter {
    attrs: Attrs,
}

impl ReduceScatter {
    /// Sets `group`: the ranks that take part, ascending; default all ranks of the program.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_comm::{Communicator, LocalGroup};
    /// # use millstream_vm::*;
    /// # LocalGroup::run(2, |communicator| {
    /// # let (rank, config) = (communicator.rank(), MachineConfig::default());
    /// # let machine = Machine::new(config.communicator(std::sync::Arc::new(communicator)))?;
    /// // On each of two ranks:
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let out = Tensor::zeros(1, DType::F32, &machine)?;
    /// let second = options::ReduceScatter::default().group((0, 1)).group_index(1);
    /// out.reduce_scatter_(&x, second)?; // a group of its own, of both ranks
    /// assert_eq!(out.to_vec::<f32>()?, [[2.0, 4.0][rank]]);
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn group(mut self, group: impl Ints) -> ReduceScatter {
        self.attrs.set("group", group.to_ints());
        self
    }

    /// Sets `group_index`: tells groups of the same ranks apart; default 0.
    #[must_use]
    pub fn group_index(mut self, group_index: impl Int) -> ReduceScatter {
        self.attrs.set("group_index", group_index.to_int());
        self
    }

    /// Sets `op`: "sum", "product", "min", "max" or "mean"; default "sum".
    #[must_use]
    pub fn op(mut self, op: &str) -> ReduceScatter {
        self.attrs.set("op", op);
        self
    }

    /// Sets `splits`: rows along the first dimension of each rank's part; default equal parts.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_comm::{Communicator, LocalGroup};
    /// # use millstream_vm::*;
    /// # LocalGroup::run(2, |communicator| {
    /// # let (rank, config) = (communicator.rank(), MachineConfig::default());
    /// # let machine = Machine::new(config.communicator(std::sync::Arc::new(communicator)))?;
    /// // On each of two ranks:
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// let out = Tensor::zeros(rank + 1, DType::F32, &machine)?;
    /// out.reduce_scatter_(&x, options::ReduceScatter::default().splits((1, 2)))?;
    /// assert_eq!(out.to_vec::<f32>()?, [vec![2.0], vec![4.0, 6.0]][rank]);
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn splits(mut self, splits: impl Ints) -> ReduceScatter {
        self.attrs.set("splits", splits.to_ints());
        self
    }
}

/// Options of [`Tensor::scatter_from_`].
#[derive(Clone, Debug, Default)]
pub struct ScatterFrom<'a> {
    x: Option<&'a Tensor>,
    attrs: Attrs,
}

impl<'a> ScatterFrom<'a> {
    /// Sets `group`: the ranks that take part, ascending; default all ranks of the program.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_comm::{Communicator, LocalGroup};
    /// # use millstream_vm::*;
    /// # LocalGroup::run(2, |communicator| {
    /// # let (rank, config) = (communicator.rank(), MachineConfig::default());
    /// # let machine = Machine::new(config.communicator(std::sync::Arc::new(communicator)))?;
    /// // On each of two ranks:
    /// let x = Tensor::from_slice(&[1.0f32, 10.0], 2, &machine)?;
    /// let out = Tensor::zeros(1, DType::F32, &machine)?;
    /// let second = options::ScatterFrom::default().group((0, 1)).group_index(1); // of both ranks
    /// out.scatter_from_(0, if rank == 0 { second.x(&x) } else { second })?;
    /// assert_eq!(out.to_vec::<f32>()?, [[1.0, 10.0][rank]]);
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn group(mut self, group: impl Ints) -> ScatterFrom<'a> {
        self.attrs.set("group", group.to_ints());
        self
    }

    /// Sets `group_index`: tells groups of the same ranks apart; default 0.
    #[must_use]
    pub fn group_index(mut self, group_index: impl Int) -> ScatterFrom<'a> {
        self.attrs.set("group_index", group_index.to_int());
        self
    }

    /// Sets `splits`: rows along the first dimension of each rank's part; default equal parts.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_comm::{Communicator, LocalGroup};
    /// # use millstream_vm::*;
    /// # LocalGroup::run(2, |communicator| {
    /// # let (rank, config) = (communicator.rank(), MachineConfig::default());
    /// # let machine = Machine::new(config.communicator(std::sync::Arc::new(communicator)))?;
    /// // On each of two ranks:
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// let out = Tensor::zeros(rank + 1, DType::F32, &machine)?;
    /// let parts = options::ScatterFrom::default().splits((1, 2));
    /// out.scatter_from_(0, if rank == 0 { parts.x(&x) } else { parts })?;
    /// assert_eq!(out.to_vec::<f32>()?, [vec![1.0], vec![2.0, 3.0]][rank]);
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn splits(mut self, splits: impl Ints) -> ScatterFrom<'a> {
        self.attrs.set("splits", splits.to_ints());
        self
    }

    /// Gives the tensor `x`: out's dtype; on the root alone.
    #[must_use]
    pub fn x(mut self, x: &'a Tensor) -> ScatterFrom<'a> {
        self.x = Some(x);
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
    ///
    /// The op `allreduce_`, which PyTorch has under another name or not at all.
    ///
    /// ```
    /// # use millstream_comm::{Communicator, LocalGroup};
    /// # use millstream_vm::*;
    /// # LocalGroup::run(2, |communicator| {
    /// # let (rank, config) = (communicator.rank(), MachineConfig::default());
    /// # let machine = Machine::new(config.communicator(std::sync::Arc::new(communicator)))?;
    /// // On each of two ranks:
    /// let x = Tensor::from_slice(&[[1.0f32, 10.0][rank]], 1, &machine)?;
    /// Tensor::allreduce_(&[&x])?;
    /// assert_eq!(x.to_vec::<f32>()?, [11.0]);
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn allreduce_(x: &[&Tensor]) -> Result<()> {
        let mut given = call::Inputs::new();
        given.extend(x.iter().copied());
        call::changed("allreduce_", &given, Attrs::new())
    }

    /// Replaces each tensor by its reduction over all ranks, in rank order.
    ///
    /// - `x`: any shape, without overlapping elements; overwritten; any number of them
    /// - `options`: [`struct@Allreduce`], which has defaults
    ///
    /// The op `allreduce_`, which PyTorch has under another name or not at all.
    ///
    /// ```
    /// # use millstream_comm::{Communicator, LocalGroup};
    /// # use millstream_vm::*;
    /// # LocalGroup::run(2, |communicator| {
    /// # let (rank, config) = (communicator.rank(), MachineConfig::default());
    /// # let machine = Machine::new(config.communicator(std::sync::Arc::new(communicator)))?;
    /// // On each of two ranks:
    /// let x = Tensor::from_slice(&[[1.0f32, 10.0][rank]], 1, &machine)?;
    /// Tensor::allreduce_with_(&[&x], options::Allreduce::default().op("max"))?;
    /// assert_eq!(x.to_vec::<f32>()?, [10.0]);
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn allreduce_with_(x: &[&Tensor], options: Allreduce) -> Result<()> {
        let mut given = call::Inputs::new();
        given.extend(x.iter().copied());
        call::changed("allreduce_", &given, options.attrs)
    }

    /// Replaces each tensor of the root by its reduction over all ranks, in rank order.
    ///
    /// - `x`: any shape, without overlapping elements; overwritten; any number of them
    /// - `root`: the rank that gets the reductions
    ///
    /// PyTorch: `aten::reduce_`.
    ///
    /// ```
    /// # use millstream_comm::{Communicator, LocalGroup};
    /// # use millstream_vm::*;
    /// # LocalGroup::run(2, |communicator| {
    /// # let (rank, config) = (communicator.rank(), MachineConfig::default());
    /// # let machine = Machine::new(config.communicator(std::sync::Arc::new(communicator)))?;
    /// // On each of two ranks:
    /// let x = Tensor::from_slice(&[[1.0f32, 10.0][rank]], 1, &machine)?;
    /// Tensor::reduce_(&[&x], 0)?;
    /// if rank == 0 {
    ///     assert_eq!(x.to_vec::<f32>()?, [11.0]);
    /// }
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn reduce_(x: &[&Tensor], root: impl Int) -> Result<()> {
        let mut given = call::Inputs::new();
        let mut attrs = Attrs::new();
        given.extend(x.iter().copied());
        attrs.set("root", root.to_int());
        call::changed("reduce_", &given, attrs)
    }

    /// Replaces each tensor of the root by its reduction over all ranks, in rank order.
    ///
    /// - `x`: any shape, without overlapping elements; overwritten; any number of them
    /// - `root`: the rank that gets the reductions
    /// - `options`: [`struct@Reduce`], which has defaults
    ///
    /// PyTorch: `aten::reduce_`.
    ///
    /// ```
    /// # use millstream_comm::{Communicator, LocalGroup};
    /// # use millstream_vm::*;
    /// # LocalGroup::run(2, |communicator| {
    /// # let (rank, config) = (communicator.rank(), MachineConfig::default());
    /// # let machine = Machine::new(config.communicator(std::sync::Arc::new(communicator)))?;
    /// // On each of two ranks:
    /// let x = Tensor::from_slice(&[[1.0f32, 10.0][rank]], 1, &machine)?;
    /// Tensor::reduce_with_(&[&x], 0, options::Reduce::default().op("mean"))?;
    /// if rank == 0 {
    ///     assert_eq!(x.to_vec::<f32>()?, [5.5]);
    /// }
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn reduce_with_(x: &[&Tensor], root: impl Int, options: Reduce) -> Result<()> {
        let mut given = call::Inputs::new();
        let mut attrs = options.attrs;
        given.extend(x.iter().copied());
        attrs.set("root", root.to_int());
        call::changed("reduce_", &given, attrs)
    }

    /// Replaces the tensors of all ranks by those of the root.
    ///
    /// - `x`: any shape, without overlapping elements; overwritten; any number of them
    /// - `root`: the rank whose tensors are sent
    ///
    /// The op `broadcast_`, which PyTorch has under another name or not at all.
    ///
    /// ```
    /// # use millstream_comm::{Communicator, LocalGroup};
    /// # use millstream_vm::*;
    /// # LocalGroup::run(2, |communicator| {
    /// # let (rank, config) = (communicator.rank(), MachineConfig::default());
    /// # let machine = Machine::new(config.communicator(std::sync::Arc::new(communicator)))?;
    /// // On each of two ranks:
    /// let x = Tensor::from_slice(&[[1.0f32, 10.0][rank]], 1, &machine)?;
    /// Tensor::broadcast_(&[&x], 1)?;
    /// assert_eq!(x.to_vec::<f32>()?, [10.0]);
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn broadcast_(x: &[&Tensor], root: impl Int) -> Result<()> {
        let mut given = call::Inputs::new();
        let mut attrs = Attrs::new();
        given.extend(x.iter().copied());
        attrs.set("root", root.to_int());
        call::changed("broadcast_", &given, attrs)
    }

    /// Replaces the tensors of all ranks by those of the root.
    ///
    /// - `x`: any shape, without overlapping elements; overwritten; any number of them
    /// - `root`: the rank whose tensors are sent
    /// - `options`: [`struct@Broadcast`], which has defaults
    ///
    /// The op `broadcast_`, which PyTorch has under another name or not at all.
    ///
    /// ```
    /// # use millstream_comm::{Communicator, LocalGroup};
    /// # use millstream_vm::*;
    /// # LocalGroup::run(2, |communicator| {
    /// # let (rank, config) = (communicator.rank(), MachineConfig::default());
    /// # let machine = Machine::new(config.communicator(std::sync::Arc::new(communicator)))?;
    /// // On each of two ranks:
    /// let x = Tensor::from_slice(&[[1.0f32, 10.0][rank]], 1, &machine)?;
    /// let second = options::Broadcast::default().group((0, 1)).group_index(1);
    /// Tensor::broadcast_with_(&[&x], 1, second)?; // a group of its own, of both ranks
    /// assert_eq!(x.to_vec::<f32>()?, [10.0]);
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn broadcast_with_(x: &[&Tensor], root: impl Int, options: Broadcast) -> Result<()> {
        let mut given = call::Inputs::new();
        let mut attrs = options.attrs;
        given.extend(x.iter().copied());
        attrs.set("root", root.to_int());
        call::changed("broadcast_", &given, attrs)
    }

    /// Concatenates the tensors of all ranks into out, in rank order.
    ///
    /// - `out`, this tensor: without overlapping elements; overwritten
    /// - `x`: out's dtype; the same shape on all ranks
    ///
    /// The op `allgather_`, which PyTorch has under another name or not at all.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_comm::{Communicator, LocalGroup};
    /// # use millstream_vm::*;
    /// # LocalGroup::run(2, |communicator| {
    /// # let (rank, config) = (communicator.rank(), MachineConfig::default());
    /// # let machine = Machine::new(config.communicator(std::sync::Arc::new(communicator)))?;
    /// // On each of two ranks:
    /// let x = Tensor::from_slice(&[[1.0f32, 10.0][rank]], 1, &machine)?;
    /// let out = Tensor::zeros(2, DType::F32, &machine)?;
    /// out.allgather_(&x)?;
    /// assert_eq!(out.to_vec::<f32>()?, [1.0, 10.0]);
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn allgather_(&self, x: &Tensor) -> Result<&Tensor> {
        let mut given = call::given(self);
        given.push(x);
        call::changed("allgather_", &given, Attrs::new())?;
        Ok(self)
    }

    /// Concatenates the tensors of all ranks into out, in rank order.
    ///
    /// - `out`, this tensor: without overlapping elements; overwritten
    /// - `x`: out's dtype; the same shape on all ranks
    /// - `options`: [`struct@Allgather`], which has defaults
    ///
    /// The op `allgather_`, which PyTorch has under another name or not at all.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_comm::{Communicator, LocalGroup};
    /// # use millstream_vm::*;
    /// # LocalGroup::run(2, |communicator| {
    /// # let (rank, config) = (communicator.rank(), MachineConfig::default());
    /// # let machine = Machine::new(config.communicator(std::sync::Arc::new(communicator)))?;
    /// // On each of two ranks:
    /// let x = Tensor::full(rank + 1, rank as f32 + 1.0, &machine)?; // one row, or two
    /// let out = Tensor::zeros(3, DType::F32, &machine)?;
    /// out.allgather_with_(&x, options::Allgather::default().splits((1, 2)))?;
    /// assert_eq!(out.to_vec::<f32>()?, [1.0, 2.0, 2.0]);
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn allgather_with_(&self, x: &Tensor, options: Allgather) -> Result<&Tensor> {
        let mut given = call::given(self);
        given.push(x);
        call::changed("allgather_", &given, options.attrs)?;
        Ok(self)
    }

    /// Reduces the tensors of all ranks and writes this rank's part to out.
    ///
    /// - `out`, this tensor: without overlapping elements; overwritten
    /// - `x`: out's dtype; the same shape on all ranks
    /// - `options`: [`struct@ReduceScatter`], which has defaults
    ///
    /// The op `reduce_scatter_`, which PyTorch has under another name or not at all.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_comm::{Communicator, LocalGroup};
    /// # use millstream_vm::*;
    /// # LocalGroup::run(2, |communicator| {
    /// # let (rank, config) = (communicator.rank(), MachineConfig::default());
    /// # let machine = Machine::new(config.communicator(std::sync::Arc::new(communicator)))?;
    /// // On each of two ranks:
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let out = Tensor::zeros(1, DType::F32, &machine)?;
    /// out.reduce_scatter_(&x, Default::default())?;
    /// assert_eq!(out.to_vec::<f32>()?, [[2.0, 4.0][rank]]); // twice the rank's part of x
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn reduce_scatter_(&self, x: &Tensor, options: ReduceScatter) -> Result<&Tensor> {
        let mut given = call::given(self);
        given.push(x);
        call::changed("reduce_scatter_", &given, options.attrs)?;
        Ok(self)
    }

    /// Sends part k of x to rank k, along the first dimension.
    ///
    /// - `out`, this tensor: without overlapping elements; overwritten
    /// - `x`: out's dtype; the same shape on all ranks
    /// - `options`: [`struct@Alltoall`], which has defaults
    ///
    /// The op `alltoall_`, which PyTorch has under another name or not at all.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_comm::{Communicator, LocalGroup};
    /// # use millstream_vm::*;
    /// # LocalGroup::run(2, |communicator| {
    /// # let (rank, config) = (communicator.rank(), MachineConfig::default());
    /// # let machine = Machine::new(config.communicator(std::sync::Arc::new(communicator)))?;
    /// // On each of two ranks:
    /// let x = Tensor::from_slice(&[[1.0f32, 2.0], [10.0, 20.0]][rank], 2, &machine)?;
    /// let out = Tensor::zeros(2, DType::F32, &machine)?;
    /// out.alltoall_(&x, Default::default())?;
    /// assert_eq!(out.to_vec::<f32>()?, [[1.0, 10.0], [2.0, 20.0]][rank]);
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn alltoall_(&self, x: &Tensor, options: Alltoall) -> Result<&Tensor> {
        let mut given = call::given(self);
        given.push(x);
        call::changed("alltoall_", &given, options.attrs)?;
        Ok(self)
    }

    /// Concatenates the tensors of all ranks into out of the root, in rank order.
    ///
    /// - `x`, this tensor: any shape
    /// - `root`: the rank that gets the tensors
    /// - `options`: [`struct@GatherTo`], which has defaults
    ///
    /// PyTorch: `aten::gather_to_`.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_comm::{Communicator, LocalGroup};
    /// # use millstream_vm::*;
    /// # LocalGroup::run(2, |communicator| {
    /// # let (rank, config) = (communicator.rank(), MachineConfig::default());
    /// # let machine = Machine::new(config.communicator(std::sync::Arc::new(communicator)))?;
    /// // On each of two ranks:
    /// let x = Tensor::from_slice(&[[1.0f32, 10.0][rank]], 1, &machine)?;
    /// let out = Tensor::zeros(2, DType::F32, &machine)?;
    /// if rank == 0 {
    ///     x.gather_to_(0, options::GatherTo::default().out(&out))?;
    ///     assert_eq!(out.to_vec::<f32>()?, [1.0, 10.0]);
    /// } else {
    ///     x.gather_to_(0, Default::default())?;
    /// }
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn gather_to_(&self, root: impl Int, options: GatherTo<'_>) -> Result<&Tensor> {
        let mut given = call::given(self);
        let mut attrs = options.attrs;
        attrs.set("root", root.to_int());
        call::optional(&[options.out], &mut given, &mut attrs);
        call::changed("gather_to_", &given, attrs)?;
        Ok(self)
    }

    /// Returns writes this rank's part of the root's tensor to out.
    ///
    /// - `out`, this tensor: without overlapping elements; overwritten
    /// - `root`: the rank whose tensor is cut
    /// - `options`: [`struct@ScatterFrom`], which has defaults
    ///
    /// PyTorch: `aten::scatter_from_`.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_comm::{Communicator, LocalGroup};
    /// # use millstream_vm::*;
    /// # LocalGroup::run(2, |communicator| {
    /// # let (rank, config) = (communicator.rank(), MachineConfig::default());
    /// # let machine = Machine::new(config.communicator(std::sync::Arc::new(communicator)))?;
    /// // On each of two ranks:
    /// let x = Tensor::from_slice(&[1.0f32, 10.0], 2, &machine)?;
    /// let out = Tensor::zeros(1, DType::F32, &machine)?;
    /// if rank == 0 {
    ///     out.scatter_from_(0, options::ScatterFrom::default().x(&x))?;
    /// } else {
    ///     out.scatter_from_(0, Default::default())?;
    /// }
    /// assert_eq!(out.to_vec::<f32>()?, [[1.0, 10.0][rank]]);
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn scatter_from_(&self, root: impl Int, options: ScatterFrom<'_>) -> Result<&Tensor> {
        let mut given = call::given(self);
        let mut attrs = options.attrs;
        attrs.set("root", root.to_int());
        call::optional(&[options.x], &mut given, &mut attrs);
        call::changed("scatter_from_", &given, attrs)?;
        Ok(self)
    }

    /// Waits until every rank of the group has got here; what uses the tensors waits too.
    ///
    /// - `x`: any shape; any number of them; unchanged
    ///
    /// PyTorch: `aten::barrier_`.
    ///
    /// ```
    /// # use millstream_comm::{Communicator, LocalGroup};
    /// # use millstream_vm::*;
    /// # LocalGroup::run(2, |communicator| {
    /// # let (rank, config) = (communicator.rank(), MachineConfig::default());
    /// # let machine = Machine::new(config.communicator(std::sync::Arc::new(communicator)))?;
    /// // On each of two ranks:
    /// let x = Tensor::from_slice(&[1.0f32], 1, &machine)?;
    /// Tensor::barrier_(&[&x])?;
    /// assert_eq!(x.to_vec::<f32>()?, [1.0]); // both ranks have got to the barrier
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn barrier_(x: &[&Tensor]) -> Result<()> {
        let mut given = call::Inputs::new();
        given.extend(x.iter().copied());
        call::changed("barrier_", &given, Attrs::new())
    }

    /// Waits until every rank of the group has got here; what uses the tensors waits too.
    ///
    /// - `x`: any shape; any number of them; unchanged
    /// - `options`: [`struct@Barrier`], which has defaults
    ///
    /// PyTorch: `aten::barrier_`.
    ///
    /// ```
    /// # use millstream_comm::{Communicator, LocalGroup};
    /// # use millstream_vm::*;
    /// # LocalGroup::run(2, |communicator| {
    /// # let (rank, config) = (communicator.rank(), MachineConfig::default());
    /// # let machine = Machine::new(config.communicator(std::sync::Arc::new(communicator)))?;
    /// // On each of two ranks:
    /// let x = Tensor::from_slice(&[1.0f32], 1, &machine)?;
    /// let second = options::Barrier::default().group((0, 1)).group_index(1);
    /// Tensor::barrier_with_(&[&x], second)?; // a group of its own, of both ranks
    /// assert_eq!(x.to_vec::<f32>()?, [1.0]);
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn barrier_with_(x: &[&Tensor], options: Barrier) -> Result<()> {
        let mut given = call::Inputs::new();
        given.extend(x.iter().copied());
        call::changed("barrier_", &given, options.attrs)
    }

    /// Sends tensors to another rank without waiting for their receipt.
    ///
    /// - `x`: any shape; any number of them
    /// - `to`: the rank that receives them
    ///
    /// The op `send`, which PyTorch has under another name or not at all.
    ///
    /// ```
    /// # use millstream_comm::{Communicator, LocalGroup};
    /// # use millstream_vm::*;
    /// # LocalGroup::run(2, |communicator| {
    /// # let (rank, config) = (communicator.rank(), MachineConfig::default());
    /// # let machine = Machine::new(config.communicator(std::sync::Arc::new(communicator)))?;
    /// // On each of two ranks:
    /// let x = Tensor::from_slice(&[[1.0f32, 10.0][rank]], 1, &machine)?;
    /// if rank == 0 {
    ///     Tensor::send(&[&x], 1)?;
    /// } else {
    ///     Tensor::recv_(&[&x], 0)?;
    /// }
    /// assert_eq!(x.to_vec::<f32>()?, [1.0]);
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn send(x: &[&Tensor], to: impl Int) -> Result<()> {
        let mut given = call::Inputs::new();
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
    /// ```
    /// # use millstream_comm::{Communicator, LocalGroup};
    /// # use millstream_vm::*;
    /// # LocalGroup::run(2, |communicator| {
    /// # let (rank, config) = (communicator.rank(), MachineConfig::default());
    /// # let machine = Machine::new(config.communicator(std::sync::Arc::new(communicator)))?;
    /// // On each of two ranks:
    /// let x = Tensor::from_slice(&[[1.0f32, 10.0][rank]], 1, &machine)?;
    /// if rank == 0 {
    ///     Tensor::send_with(&[&x], 1, options::Send::default().tag(5))?;
    /// } else {
    ///     Tensor::recv_with_(&[&x], 0, options::Recv::default().tag(5))?;
    /// }
    /// assert_eq!(x.to_vec::<f32>()?, [1.0]);
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn send_with(x: &[&Tensor], to: impl Int, options: Send) -> Result<()> {
        let mut given = call::Inputs::new();
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
    /// ```
    /// # use millstream_comm::{Communicator, LocalGroup};
    /// # use millstream_vm::*;
    /// # LocalGroup::run(2, |communicator| {
    /// # let (rank, config) = (communicator.rank(), MachineConfig::default());
    /// # let machine = Machine::new(config.communicator(std::sync::Arc::new(communicator)))?;
    /// // On each of two ranks:
    /// let x = Tensor::from_slice(&[[1.0f32, 10.0][rank]], 1, &machine)?;
    /// if rank == 0 {
    ///     Tensor::send(&[&x], 1)?;
    /// } else {
    ///     Tensor::recv_(&[&x], 0)?;
    /// }
    /// assert_eq!(x.to_vec::<f32>()?, [1.0]);
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn recv_(x: &[&Tensor], from: impl Int) -> Result<()> {
        let mut given = call::Inputs::new();
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
    /// ```
    /// # use millstream_comm::{Communicator, LocalGroup};
    /// # use millstream_vm::*;
    /// # LocalGroup::run(2, |communicator| {
    /// # let (rank, config) = (communicator.rank(), MachineConfig::default());
    /// # let machine = Machine::new(config.communicator(std::sync::Arc::new(communicator)))?;
    /// // On each of two ranks:
    /// let x = Tensor::from_slice(&[[1.0f32, 10.0][rank]], 1, &machine)?;
    /// if rank == 0 {
    ///     Tensor::send_with(&[&x], 1, options::Send::default().tag(5))?;
    /// } else {
    ///     Tensor::recv_with_(&[&x], 0, options::Recv::default().tag(5))?;
    /// }
    /// assert_eq!(x.to_vec::<f32>()?, [1.0]);
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn recv_with_(x: &[&Tensor], from: impl Int, options: Recv) -> Result<()> {
        let mut given = call::Inputs::new();
        let mut attrs = options.attrs;
        given.extend(x.iter().copied());
        attrs.set("from", from.to_int());
        call::changed("recv_", &given, attrs)
    }
}
