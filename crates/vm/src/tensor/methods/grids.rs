//! Methods of the ops under "Grids, segments, alignments".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, Result};

use crate::handle::Tensor;
use crate::tensor::{Int, Ints, Real, call};

/// Options of [`Tensor::_ctc_loss_with`].
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let log_probs = Tensor::from_slice(&[0.0f32, -1.0, -2.0, -0.5], (2, 1, 2), &machine)?;
/// let targets = Tensor::from_slice(&[0i64], (1, 1), &machine)?;
/// let input_lengths = Tensor::from_slice(&[2i64], 1, &machine)?;
/// let target_lengths = Tensor::from_slice(&[1i64], 1, &machine)?;
/// let options = options::CtcLoss::default().blank(1);
/// let (loss, _) =
///     log_probs._ctc_loss_with(&targets, &input_lengths, &target_lengths, 1, options)?;
/// assert_eq!(loss.to_string(), "tensor([0.2336])");
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct CtcLoss {
    attrs: Attrs,
}

impl CtcLoss {
    /// Sets `blank`: the class of the blank label; default 0.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let log_probs = Tensor::from_slice(&[0.0f32, -1.0, -2.0, -0.5], (2, 1, 2), &machine)?;
    /// let targets = Tensor::from_slice(&[0i64], (1, 1), &machine)?;
    /// let input_lengths = Tensor::from_slice(&[2i64], 1, &machine)?;
    /// let target_lengths = Tensor::from_slice(&[1i64], 1, &machine)?;
    /// let options = options::CtcLoss::default().blank(1);
    /// let (loss, _) =
    ///     log_probs._ctc_loss_with(&targets, &input_lengths, &target_lengths, 1, options)?;
    /// assert_eq!(loss.to_string(), "tensor([0.2336])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn blank(mut self, blank: impl Int) -> CtcLoss {
        self.attrs.set("blank", blank.to_int());
        self
    }

    /// Sets `zero_infinity`: whether gradients of infinite losses are 0; default false.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::zeros((1, 1, 3), DType::F32, &machine)?.with_grad()?; // one step
    /// let targets = Tensor::from_slice(&[1i64, 2], (1, 2), &machine)?; // of two labels
    /// let one = Tensor::full(1, 1, &machine)?;
    /// let two = Tensor::full(1, 2, &machine)?;
    /// let tape = machine.tape();
    /// let zero = options::CtcLoss::default().zero_infinity(true);
    /// let (loss, _) = x._ctc_loss_with(&targets, &one, &two, 2, zero)?;
    /// tape.backward(&loss.sum(..)?)?;
    /// assert_eq!(x.grad().unwrap().to_vec::<f32>()?, [0.0; 3]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn zero_infinity(mut self, zero_infinity: bool) -> CtcLoss {
        self.attrs.set("zero_infinity", zero_infinity);
        self
    }
}

/// Options of [`Tensor::grid_sampler_2d_with`].
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 1, 1, 4), &machine)?;
/// let grid = Tensor::from_slice(&[-1.0f32, 0.0, 0.25, 0.0], (1, 1, 2, 2), &machine)?;
/// let options = options::GridSampler2d::default().interpolation_mode(1);
/// let y = x.grid_sampler_2d_with(&grid, options)?;
/// assert_eq!(y.shape(), [1, 1, 1, 2]);
/// assert_eq!(y.to_vec::<f32>()?, [1.0, 3.0]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct GridSampler2d {
    attrs: Attrs,
}

impl GridSampler2d {
    /// Sets `align_corners`: whether -1 and 1 are centres of elements; default false.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 1, 1, 4), &machine)?;
    /// let grid = Tensor::from_slice(&[-1.0f32, 0.0, 0.25, 0.0], (1, 1, 2, 2), &machine)?;
    /// let options = options::GridSampler2d::default().align_corners(true);
    /// let y = x.grid_sampler_2d_with(&grid, options)?;
    /// assert_eq!(y.shape(), [1, 1, 1, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.875]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn align_corners(mut self, align_corners: bool) -> GridSampler2d {
        self.attrs.set("align_corners", align_corners);
        self
    }

    /// Sets `interpolation_mode`: 0 linear, 1 nearest, 2 cubic; default 0.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 1, 1, 4), &machine)?;
    /// let grid = Tensor::from_slice(&[-1.0f32, 0.0, 0.25, 0.0], (1, 1, 2, 2), &machine)?;
    /// let options = options::GridSampler2d::default().interpolation_mode(1);
    /// let y = x.grid_sampler_2d_with(&grid, options)?;
    /// assert_eq!(y.shape(), [1, 1, 1, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn interpolation_mode(mut self, interpolation_mode: impl Int) -> GridSampler2d {
        self.attrs.set("interpolation_mode", interpolation_mode.to_int());
        self
    }

    /// Sets `padding_mode`: 0 zeros, 1 the border, 2 reflections; default 0.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 1, 1, 4), &machine)?;
    /// let grid = Tensor::from_slice(&[-1.0f32, 0.0, 0.25, 0.0], (1, 1, 2, 2), &machine)?;
    /// let y = x.grid_sampler_2d_with(&grid, options::GridSampler2d::default().padding_mode(1))?;
    /// assert_eq!(y.shape(), [1, 1, 1, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn padding_mode(mut self, padding_mode: impl Int) -> GridSampler2d {
        self.attrs.set("padding_mode", padding_mode.to_int());
        self
    }
}

/// Options of [`Tensor::grid_sampler_3d_with`].
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 1, 1, 1, 4), &machine)?;
/// let grid =
///     Tensor::from_slice(&[-1.0f32, 0.0, 0.0, 0.25, 0.0, 0.0], (1, 1, 1, 2, 3), &machine)?;
/// let options = options::GridSampler3d::default().interpolation_mode(1);
/// let y = x.grid_sampler_3d_with(&grid, options)?;
/// assert_eq!(y.shape(), [1, 1, 1, 1, 2]);
/// assert_eq!(y.to_vec::<f32>()?, [1.0, 3.0]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct GridSampler3d {
    attrs: Attrs,
}

impl GridSampler3d {
    /// Sets `align_corners`: whether -1 and 1 are centres of elements; default false.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 1, 1, 1, 4), &machine)?;
    /// let grid =
    ///     Tensor::from_slice(&[-1.0f32, 0.0, 0.0, 0.25, 0.0, 0.0], (1, 1, 1, 2, 3), &machine)?;
    /// let options = options::GridSampler3d::default().align_corners(true);
    /// let y = x.grid_sampler_3d_with(&grid, options)?;
    /// assert_eq!(y.shape(), [1, 1, 1, 1, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.875]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn align_corners(mut self, align_corners: bool) -> GridSampler3d {
        self.attrs.set("align_corners", align_corners);
        self
    }

    /// Sets `interpolation_mode`: 0 linear, 1 nearest, 2 cubic; default 0.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 1, 1, 1, 4), &machine)?;
    /// let grid =
    ///     Tensor::from_slice(&[-1.0f32, 0.0, 0.0, 0.25, 0.0, 0.0], (1, 1, 1, 2, 3), &machine)?;
    /// let options = options::GridSampler3d::default().interpolation_mode(1);
    /// let y = x.grid_sampler_3d_with(&grid, options)?;
    /// assert_eq!(y.shape(), [1, 1, 1, 1, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn interpolation_mode(mut self, interpolation_mode: impl Int) -> GridSampler3d {
        self.attrs.set("interpolation_mode", interpolation_mode.to_int());
        self
    }

    /// Sets `padding_mode`: 0 zeros, 1 the border, 2 reflections; default 0.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 1, 1, 1, 4), &machine)?;
    /// let grid =
    ///     Tensor::from_slice(&[-1.0f32, 0.0, 0.0, 0.25, 0.0, 0.0], (1, 1, 1, 2, 3), &machine)?;
    /// let y = x.grid_sampler_3d_with(&grid, options::GridSampler3d::default().padding_mode(1))?;
    /// assert_eq!(y.shape(), [1, 1, 1, 1, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn padding_mode(mut self, padding_mode: impl Int) -> GridSampler3d {
        self.attrs.set("padding_mode", padding_mode.to_int());
        self
    }
}

/// Options of [`Tensor::segment_reduce_with`].
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let data = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], 4, &machine)?;
/// let lengths = Tensor::from_slice(&[1i64, 3], 2, &machine)?;
/// let options = options::SegmentReduce::default().initial(10.0);
/// let y = data.segment_reduce_with(&lengths, "sum", options)?;
/// assert_eq!(y.to_vec::<f32>()?, [11.0, 19.0]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct SegmentReduce {
    attrs: Attrs,
}

impl SegmentReduce {
    /// Sets `axis`: the dimension of the segments; lengths has those up to it; default 0.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let data = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], (2, 3), &machine)?;
    /// let lengths = Tensor::from_slice(&[1i64, 2, 2, 1], (2, 2), &machine)?;
    /// let options = options::SegmentReduce::default().axis(1);
    /// let y = data.segment_reduce_with(&lengths, "max", options)?;
    /// assert_eq!(y.shape(), [2, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 3.0, 5.0, 6.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn axis(mut self, axis: impl Int) -> SegmentReduce {
        self.attrs.set("axis", axis.to_int());
        self
    }

    /// Sets `initial`: the value to start with.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let data = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], 4, &machine)?;
    /// let lengths = Tensor::from_slice(&[1i64, 3], 2, &machine)?;
    /// let options = options::SegmentReduce::default().initial(10.0);
    /// let y = data.segment_reduce_with(&lengths, "sum", options)?;
    /// assert_eq!(y.to_vec::<f32>()?, [11.0, 19.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn initial(mut self, initial: impl Real) -> SegmentReduce {
        self.attrs.set("initial", initial.to_real());
        self
    }
}

impl Tensor {
    /// Returns samples of x at the points of a grid.
    ///
    /// - `x`, this tensor: \[n,c,..\]; floats
    /// - `grid`: \[n,..,d\] of d coordinates; x's dtype
    ///
    /// PyTorch: `aten::grid_sampler_2d`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 1, 1, 4), &machine)?;
    /// let grid = Tensor::from_slice(&[-1.0f32, 0.0, 0.25, 0.0], (1, 1, 2, 2), &machine)?;
    /// let y = x.grid_sampler_2d(&grid)?;
    /// assert_eq!(y.shape(), [1, 1, 1, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [0.5, 3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn grid_sampler_2d(&self, grid: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(grid);
        call::one("grid_sampler_2d", &given, Attrs::new())
    }

    /// Returns samples of x at the points of a grid.
    ///
    /// - `x`, this tensor: \[n,c,..\]; floats
    /// - `grid`: \[n,..,d\] of d coordinates; x's dtype
    /// - `options`: [`struct@GridSampler2d`], which has defaults
    ///
    /// PyTorch: `aten::grid_sampler_2d`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 1, 1, 4), &machine)?;
    /// let grid = Tensor::from_slice(&[-1.0f32, 0.0, 0.25, 0.0], (1, 1, 2, 2), &machine)?;
    /// let options = options::GridSampler2d::default().interpolation_mode(1);
    /// let y = x.grid_sampler_2d_with(&grid, options)?;
    /// assert_eq!(y.shape(), [1, 1, 1, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn grid_sampler_2d_with(&self, grid: &Tensor, options: GridSampler2d) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(grid);
        call::one("grid_sampler_2d", &given, options.attrs)
    }

    /// Returns samples of x at the points of a grid.
    ///
    /// - `x`, this tensor: \[n,c,..\]; floats
    /// - `grid`: \[n,..,d\] of d coordinates; x's dtype
    ///
    /// PyTorch: `aten::grid_sampler_3d`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 1, 1, 1, 4), &machine)?;
    /// let grid =
    ///     Tensor::from_slice(&[-1.0f32, 0.0, 0.0, 0.25, 0.0, 0.0], (1, 1, 1, 2, 3), &machine)?;
    /// let y = x.grid_sampler_3d(&grid)?;
    /// assert_eq!(y.shape(), [1, 1, 1, 1, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [0.5, 3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn grid_sampler_3d(&self, grid: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(grid);
        call::one("grid_sampler_3d", &given, Attrs::new())
    }

    /// Returns samples of x at the points of a grid.
    ///
    /// - `x`, this tensor: \[n,c,..\]; floats
    /// - `grid`: \[n,..,d\] of d coordinates; x's dtype
    /// - `options`: [`struct@GridSampler3d`], which has defaults
    ///
    /// PyTorch: `aten::grid_sampler_3d`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 1, 1, 1, 4), &machine)?;
    /// let grid =
    ///     Tensor::from_slice(&[-1.0f32, 0.0, 0.0, 0.25, 0.0, 0.0], (1, 1, 1, 2, 3), &machine)?;
    /// let options = options::GridSampler3d::default().interpolation_mode(1);
    /// let y = x.grid_sampler_3d_with(&grid, options)?;
    /// assert_eq!(y.shape(), [1, 1, 1, 1, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn grid_sampler_3d_with(&self, grid: &Tensor, options: GridSampler3d) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(grid);
        call::one("grid_sampler_3d", &given, options.attrs)
    }

    /// Returns a reduction of each segment of a dimension.
    ///
    /// - `data`, this tensor: any shape; floats
    /// - `lengths`: the lengths of the segments; i64 or i32
    /// - `reduce`: "sum", "mean", "max", "min" or "prod"
    ///
    /// PyTorch: `aten::segment_reduce`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let data = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], 4, &machine)?;
    /// let lengths = Tensor::from_slice(&[1i64, 3], 2, &machine)?;
    /// assert_eq!(data.segment_reduce(&lengths, "sum")?.to_vec::<f32>()?, [1.0, 9.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn segment_reduce(&self, lengths: &Tensor, reduce: &str) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        given.push(lengths);
        attrs.set("reduce", reduce);
        call::one("segment_reduce", &given, attrs)
    }

    /// Returns a reduction of each segment of a dimension.
    ///
    /// - `data`, this tensor: any shape; floats
    /// - `lengths`: the lengths of the segments; i64 or i32
    /// - `reduce`: "sum", "mean", "max", "min" or "prod"
    /// - `options`: [`struct@SegmentReduce`], which has defaults
    ///
    /// PyTorch: `aten::segment_reduce`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let data = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], 4, &machine)?;
    /// let lengths = Tensor::from_slice(&[1i64, 3], 2, &machine)?;
    /// let options = options::SegmentReduce::default().initial(10.0);
    /// let y = data.segment_reduce_with(&lengths, "sum", options)?;
    /// assert_eq!(y.to_vec::<f32>()?, [11.0, 19.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn segment_reduce_with(
        &self,
        lengths: &Tensor,
        reduce: &str,
        options: SegmentReduce,
    ) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = options.attrs;
        given.push(lengths);
        attrs.set("reduce", reduce);
        call::one("segment_reduce", &given, attrs)
    }

    /// Returns the maxima of windows whose positions a sample determines, and their positions.
    ///
    /// - `x`, this tensor: \[..,c,spatial..\]; floats
    /// - `samples`: \[n,c,d\] of numbers from 0 to 1
    /// - `kernel_size`: the lengths of a window
    /// - `output_size`: the lengths of the result
    ///
    /// PyTorch: `aten::fractional_max_pool`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 5.0, 2.0, 4.0], (1, 1, 1, 4), &machine)?;
    /// let samples = Tensor::from_slice(&[0.5f32, 0.5], (1, 1, 2), &machine)?;
    /// let (values, indices) = x.fractional_max_pool(&samples, [1, 2], [1, 2])?;
    /// assert_eq!(values.shape(), [1, 1, 1, 2]);
    /// assert_eq!(values.to_vec::<f32>()?, [5.0, 4.0]);
    /// assert_eq!(indices.shape(), [1, 1, 1, 2]);
    /// assert_eq!(indices.to_vec::<i64>()?, [1, 3]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn fractional_max_pool(
        &self,
        samples: &Tensor,
        kernel_size: impl Ints,
        output_size: impl Ints,
    ) -> Result<(Tensor, Tensor)> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        given.push(samples);
        attrs.set("kernel_size", kernel_size.to_ints());
        attrs.set("output_size", output_size.to_ints());
        let [a, b] = call::first_of("fractional_max_pool", &given, attrs)?;
        Ok((a, b))
    }

    /// Returns the loss of each sequence over all alignments, and the forward variables.
    ///
    /// - `log_probs`, this tensor: \[time,n,classes\]; f32 or f64
    /// - `targets`: \[n,labels\], or all labels in one dimension
    /// - `input_lengths`: \[n\]: the length of each sequence
    /// - `target_lengths`: \[n\]: the number of labels of each
    /// - `max_target_length`: the greatest number of labels of a sequence
    ///
    /// PyTorch: `aten::_ctc_loss`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let log_probs = Tensor::from_slice(&[0.0f32, -1.0, -2.0, -0.5], (2, 1, 2), &machine)?;
    /// let targets = Tensor::from_slice(&[1i64], (1, 1), &machine)?;
    /// let input_lengths = Tensor::from_slice(&[2i64], 1, &machine)?;
    /// let target_lengths = Tensor::from_slice(&[1i64], 1, &machine)?;
    /// let (loss, _) = log_probs._ctc_loss(&targets, &input_lengths, &target_lengths, 1)?;
    /// assert_eq!(loss.to_string(), "tensor([0.1285])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn _ctc_loss(
        &self,
        targets: &Tensor,
        input_lengths: &Tensor,
        target_lengths: &Tensor,
        max_target_length: impl Int,
    ) -> Result<(Tensor, Tensor)> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        given.push(targets);
        given.push(input_lengths);
        given.push(target_lengths);
        attrs.set("max_target_length", max_target_length.to_int());
        let [a, b] = call::first_of("_ctc_loss", &given, attrs)?;
        Ok((a, b))
    }

    /// Returns the loss of each sequence over all alignments, and the forward variables.
    ///
    /// - `log_probs`, this tensor: \[time,n,classes\]; f32 or f64
    /// - `targets`: \[n,labels\], or all labels in one dimension
    /// - `input_lengths`: \[n\]: the length of each sequence
    /// - `target_lengths`: \[n\]: the number of labels of each
    /// - `max_target_length`: the greatest number of labels of a sequence
    /// - `options`: [`struct@CtcLoss`], which has defaults
    ///
    /// PyTorch: `aten::_ctc_loss`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let log_probs = Tensor::from_slice(&[0.0f32, -1.0, -2.0, -0.5], (2, 1, 2), &machine)?;
    /// let targets = Tensor::from_slice(&[0i64], (1, 1), &machine)?;
    /// let input_lengths = Tensor::from_slice(&[2i64], 1, &machine)?;
    /// let target_lengths = Tensor::from_slice(&[1i64], 1, &machine)?;
    /// let options = options::CtcLoss::default().blank(1);
    /// let (loss, _) =
    ///     log_probs._ctc_loss_with(&targets, &input_lengths, &target_lengths, 1, options)?;
    /// assert_eq!(loss.to_string(), "tensor([0.2336])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn _ctc_loss_with(
        &self,
        targets: &Tensor,
        input_lengths: &Tensor,
        target_lengths: &Tensor,
        max_target_length: impl Int,
        options: CtcLoss,
    ) -> Result<(Tensor, Tensor)> {
        let mut given = call::given(self);
        let mut attrs = options.attrs;
        given.push(targets);
        given.push(input_lengths);
        given.push(target_lengths);
        attrs.set("max_target_length", max_target_length.to_int());
        let [a, b] = call::first_of("_ctc_loss", &given, attrs)?;
        Ok((a, b))
    }
}
