//! Methods of the ops under "Grids, segments, alignments".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, Result};

use crate::handle::Tensor;
use crate::tensor::{Int, Ints, Real, call};

/// Options of [`Tensor::_ctc_loss_with`].
#[derive(Clone, Debug, Default)]
pub struct CtcLoss {
    attrs: Attrs,
}

impl CtcLoss {
    /// Sets `blank`: the class of the blank label; default 0.
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
    #[must_use]
    pub fn initial(mut self, initial: impl Real) -> SegmentReduce {
        self.attrs.set("initial", initial.to_real());
        self
    }
}

/// Options of [`Tensor::upsample_bicubic2d_with`].
#[derive(Clone, Debug, Default)]
pub struct UpsampleBicubic2d {
    attrs: Attrs,
}

impl UpsampleBicubic2d {
    /// Sets `align_corners`: whether the outermost elements stay outermost; default false.
    #[must_use]
    pub fn align_corners(mut self, align_corners: bool) -> UpsampleBicubic2d {
        self.attrs.set("align_corners", align_corners);
        self
    }

    /// Sets `scales_h`: the factor of a length; default the ratio of the lengths.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], (1, 1, 1, 2), &machine)?;
    /// let options = options::UpsampleBicubic2d::default().scales_h(1.0);
    /// let y = x.upsample_bicubic2d_with([1, 4], options)?;
    /// assert_eq!(y.shape(), [1, 1, 1, 4]);
    /// assert_eq!(y.to_vec::<f32>()?, [0.89453125, 1.2265625, 1.7734375, 2.1054688]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn scales_h(mut self, scales_h: impl Real) -> UpsampleBicubic2d {
        self.attrs.set("scales_h", scales_h.to_real());
        self
    }

    /// Sets `scales_w`: the factor of a length; default the ratio of the lengths.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], (1, 1, 1, 2), &machine)?;
    /// let options = options::UpsampleBicubic2d::default().scales_w(2.0);
    /// let y = x.upsample_bicubic2d_with([1, 4], options)?;
    /// assert_eq!(y.shape(), [1, 1, 1, 4]);
    /// assert_eq!(y.to_vec::<f32>()?, [0.89453125, 1.2265625, 1.7734375, 2.1054688]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn scales_w(mut self, scales_w: impl Real) -> UpsampleBicubic2d {
        self.attrs.set("scales_w", scales_w.to_real());
        self
    }
}

/// Options of [`Tensor::upsample_bilinear2d_with`].
#[derive(Clone, Debug, Default)]
pub struct UpsampleBilinear2d {
    attrs: Attrs,
}

impl UpsampleBilinear2d {
    /// Sets `align_corners`: whether the outermost elements stay outermost; default false.
    #[must_use]
    pub fn align_corners(mut self, align_corners: bool) -> UpsampleBilinear2d {
        self.attrs.set("align_corners", align_corners);
        self
    }

    /// Sets `scales_h`: the factor of a length; default the ratio of the lengths.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], (1, 1, 1, 2), &machine)?;
    /// let options = options::UpsampleBilinear2d::default().scales_h(1.0);
    /// let y = x.upsample_bilinear2d_with([1, 4], options)?;
    /// assert_eq!(y.shape(), [1, 1, 1, 4]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 1.25, 1.75, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn scales_h(mut self, scales_h: impl Real) -> UpsampleBilinear2d {
        self.attrs.set("scales_h", scales_h.to_real());
        self
    }

    /// Sets `scales_w`: the factor of a length; default the ratio of the lengths.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], (1, 1, 1, 2), &machine)?;
    /// let options = options::UpsampleBilinear2d::default().scales_w(2.0);
    /// let y = x.upsample_bilinear2d_with([1, 4], options)?;
    /// assert_eq!(y.shape(), [1, 1, 1, 4]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 1.25, 1.75, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn scales_w(mut self, scales_w: impl Real) -> UpsampleBilinear2d {
        self.attrs.set("scales_w", scales_w.to_real());
        self
    }
}

/// Options of [`Tensor::upsample_linear1d_with`].
#[derive(Clone, Debug, Default)]
pub struct UpsampleLinear1d {
    attrs: Attrs,
}

impl UpsampleLinear1d {
    /// Sets `align_corners`: whether the outermost elements stay outermost; default false.
    #[must_use]
    pub fn align_corners(mut self, align_corners: bool) -> UpsampleLinear1d {
        self.attrs.set("align_corners", align_corners);
        self
    }

    /// Sets `scales`: the factor of a length; default the ratio of the lengths.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], (1, 1, 2), &machine)?;
    /// let y = x.upsample_linear1d_with(4, options::UpsampleLinear1d::default().scales(2.0))?;
    /// assert_eq!(y.shape(), [1, 1, 4]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 1.25, 1.75, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn scales(mut self, scales: impl Real) -> UpsampleLinear1d {
        self.attrs.set("scales", scales.to_real());
        self
    }
}

/// Options of [`Tensor::upsample_nearest1d_with`].
#[derive(Clone, Debug, Default)]
pub struct UpsampleNearest1d {
    attrs: Attrs,
}

impl UpsampleNearest1d {
    /// Sets `scales`: the factor of a length; default the ratio of the lengths.
    #[must_use]
    pub fn scales(mut self, scales: impl Real) -> UpsampleNearest1d {
        self.attrs.set("scales", scales.to_real());
        self
    }
}

/// Options of [`Tensor::upsample_nearest2d_with`].
#[derive(Clone, Debug, Default)]
pub struct UpsampleNearest2d {
    attrs: Attrs,
}

impl UpsampleNearest2d {
    /// Sets `scales_h`: the factor of a length; default the ratio of the lengths.
    #[must_use]
    pub fn scales_h(mut self, scales_h: impl Real) -> UpsampleNearest2d {
        self.attrs.set("scales_h", scales_h.to_real());
        self
    }

    /// Sets `scales_w`: the factor of a length; default the ratio of the lengths.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], (1, 1, 1, 2), &machine)?;
    /// let options = options::UpsampleNearest2d::default().scales_w(2.0);
    /// let y = x.upsample_nearest2d_with([1, 4], options)?;
    /// assert_eq!(y.shape(), [1, 1, 1, 4]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 1.0, 2.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn scales_w(mut self, scales_w: impl Real) -> UpsampleNearest2d {
        self.attrs.set("scales_w", scales_w.to_real());
        self
    }
}

/// Options of [`Tensor::upsample_nearest3d_with`].
#[derive(Clone, Debug, Default)]
pub struct UpsampleNearest3d {
    attrs: Attrs,
}

impl UpsampleNearest3d {
    /// Sets `scales_d`: the factor of a length; default the ratio of the lengths.
    #[must_use]
    pub fn scales_d(mut self, scales_d: impl Real) -> UpsampleNearest3d {
        self.attrs.set("scales_d", scales_d.to_real());
        self
    }

    /// Sets `scales_h`: the factor of a length; default the ratio of the lengths.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], (1, 1, 1, 1, 2), &machine)?;
    /// let options = options::UpsampleNearest3d::default().scales_h(1.0);
    /// let y = x.upsample_nearest3d_with([1, 1, 4], options)?;
    /// assert_eq!(y.shape(), [1, 1, 1, 1, 4]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 1.0, 2.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn scales_h(mut self, scales_h: impl Real) -> UpsampleNearest3d {
        self.attrs.set("scales_h", scales_h.to_real());
        self
    }

    /// Sets `scales_w`: the factor of a length; default the ratio of the lengths.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], (1, 1, 1, 1, 2), &machine)?;
    /// let options = options::UpsampleNearest3d::default().scales_w(2.0);
    /// let y = x.upsample_nearest3d_with([1, 1, 4], options)?;
    /// assert_eq!(y.shape(), [1, 1, 1, 1, 4]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 1.0, 2.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn scales_w(mut self, scales_w: impl Real) -> UpsampleNearest3d {
        self.attrs.set("scales_w", scales_w.to_real());
        self
    }
}

/// Options of [`Tensor::upsample_trilinear3d`].
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let x = Tensor::from_slice(&[1.0f32, 2.0], (1, 1, 1, 1, 2), &machine)?;
/// let options = options::UpsampleTrilinear3d::default().align_corners(true);
/// let y = x.upsample_trilinear3d([1, 1, 4], options)?;
/// assert_eq!(y.to_string(), "tensor([[[[[1.0000, 1.3333, 1.6667, 2.0000]]]]])");
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct UpsampleTrilinear3d {
    attrs: Attrs,
}

impl UpsampleTrilinear3d {
    /// Sets `align_corners`: whether the outermost elements stay outermost; default false.
    #[must_use]
    pub fn align_corners(mut self, align_corners: bool) -> UpsampleTrilinear3d {
        self.attrs.set("align_corners", align_corners);
        self
    }

    /// Sets `scales_d`: the factor of a length; default the ratio of the lengths.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], (1, 1, 1, 1, 2), &machine)?;
    /// let options = options::UpsampleTrilinear3d::default().scales_d(1.0);
    /// let y = x.upsample_trilinear3d([1, 1, 4], options)?;
    /// assert_eq!(y.shape(), [1, 1, 1, 1, 4]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 1.25, 1.75, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn scales_d(mut self, scales_d: impl Real) -> UpsampleTrilinear3d {
        self.attrs.set("scales_d", scales_d.to_real());
        self
    }

    /// Sets `scales_h`: the factor of a length; default the ratio of the lengths.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], (1, 1, 1, 1, 2), &machine)?;
    /// let options = options::UpsampleTrilinear3d::default().scales_h(1.0);
    /// let y = x.upsample_trilinear3d([1, 1, 4], options)?;
    /// assert_eq!(y.shape(), [1, 1, 1, 1, 4]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 1.25, 1.75, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn scales_h(mut self, scales_h: impl Real) -> UpsampleTrilinear3d {
        self.attrs.set("scales_h", scales_h.to_real());
        self
    }

    /// Sets `scales_w`: the factor of a length; default the ratio of the lengths.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], (1, 1, 1, 1, 2), &machine)?;
    /// let options = options::UpsampleTrilinear3d::default().scales_w(2.0);
    /// let y = x.upsample_trilinear3d([1, 1, 4], options)?;
    /// assert_eq!(y.shape(), [1, 1, 1, 1, 4]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 1.25, 1.75, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn scales_w(mut self, scales_w: impl Real) -> UpsampleTrilinear3d {
        self.attrs.set("scales_w", scales_w.to_real());
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
    #[track_caller]
    pub fn grid_sampler_3d_with(&self, grid: &Tensor, options: GridSampler3d) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(grid);
        call::one("grid_sampler_3d", &given, options.attrs)
    }

    /// Returns the means of samples in the cells of boxes.
    ///
    /// - `x`, this tensor: \[n,c,h,w\]; f32 or f64
    /// - `rois`: \[k,5\]: an image's number, and the corners of a box; x's dtype
    /// - `spatial_scale`: the factor of the corners
    /// - `pooled_height`: the cells of a column
    /// - `pooled_width`: the cells of a row
    /// - `sampling_ratio`: the samples along a side of a cell; 0 or less: one for each element
    /// - `aligned`: whether positions are those of the elements' centres
    ///
    /// PyTorch: `aten::roi_align`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], (1, 1, 2, 3), &machine)?;
    /// let rois = Tensor::from_slice(&[0.0f32, 0.0, 0.0, 2.0, 1.0], (1, 5), &machine)?;
    /// let y = x.roi_align(&rois, 1.0, 1, 2, 1, true)?;
    /// assert_eq!(y.shape(), [1, 1, 1, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn roi_align(
        &self,
        rois: &Tensor,
        spatial_scale: impl Real,
        pooled_height: impl Int,
        pooled_width: impl Int,
        sampling_ratio: impl Int,
        aligned: bool,
    ) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        given.push(rois);
        attrs.set("spatial_scale", spatial_scale.to_real());
        attrs.set("pooled_height", pooled_height.to_int());
        attrs.set("pooled_width", pooled_width.to_int());
        attrs.set("sampling_ratio", sampling_ratio.to_int());
        attrs.set("aligned", aligned);
        call::one("roi_align", &given, attrs)
    }

    /// Returns which boxes no kept one before covers.
    ///
    /// - `boxes`, this tensor: \[n,4\], of two corners; f32 or f64
    /// - `iou_threshold`: the greatest share of the union
    ///
    /// PyTorch: `aten::nms_mask`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let boxes =
    ///     Tensor::from_slice(&[0.0f32, 0.0, 2.0, 2.0, 0.0, 0.0, 2.0, 3.0], (2, 4), &machine)?;
    /// assert_eq!(boxes.nms_mask(0.5)?.to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn nms_mask(&self, iou_threshold: impl Real) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("iou_threshold", iou_threshold.to_real());
        call::one("nms_mask", &[self], attrs)
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

    /// Returns the positions that an affine map gives to each element of a grid.
    ///
    /// - `theta`, this tensor: \[n,dims,dims+1\]: the maps
    /// - `size`: \[n,c,spatial..\]: the shape of the samples
    /// - `align_corners`: whether -1 and 1 are the centres of the outermost elements
    ///
    /// PyTorch: `aten::affine_grid_generator`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let theta = Tensor::from_slice(&[1.0f32, 0.0, 0.0, 0.0, 2.0, 0.0], (1, 2, 3), &machine)?;
    /// let y = theta.affine_grid_generator([1, 1, 2, 2], true)?;
    /// assert_eq!(y.shape(), [1, 2, 2, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [-1.0, -2.0, 1.0, -2.0, -1.0, 2.0, 1.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn affine_grid_generator(&self, size: impl Ints, align_corners: bool) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("size", size.to_ints());
        attrs.set("align_corners", align_corners);
        call::one("affine_grid_generator", &[self], attrs)
    }

    /// Returns the numbers of the boxes that no better one covers, the best first.
    ///
    /// - `boxes`, this tensor: \[n,4\]: two corners of each
    /// - `scores`: \[n\]
    /// - `iou_threshold`: the greatest share of the union that a better one covers
    ///
    /// PyTorch: `aten::nms`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let boxes = Tensor::from_slice(
    ///     &[0.0f32, 0.0, 2.0, 2.0, 0.0, 0.0, 2.0, 3.0, 3.0, 0.0, 4.0, 1.0],
    ///     (3, 4),
    ///     &machine,
    /// )?;
    /// let scores = Tensor::from_slice(&[0.5f32, 1.0, 0.0], 3, &machine)?;
    /// assert_eq!(boxes.nms(&scores, 0.5)?.to_vec::<i64>()?, [1, 2]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn nms(&self, scores: &Tensor, iou_threshold: impl Real) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        given.push(scores);
        attrs.set("iou_threshold", iou_threshold.to_real());
        call::one("nms", &given, attrs)
    }

    /// Returns x with its elements reflected around it.
    ///
    /// - `x`, this tensor: the dimensions that change last
    /// - `padding`: elements before and after, for each dimension from the last
    ///
    /// PyTorch: `aten::reflection_pad1d`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], (1, 1, 3), &machine)?;
    /// let y = x.reflection_pad1d([1, 0])?;
    /// assert_eq!(y.shape(), [1, 1, 4]);
    /// assert_eq!(y.to_vec::<f32>()?, [2.0, 1.0, 2.0, 3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn reflection_pad1d(&self, padding: impl Ints) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("padding", padding.to_ints());
        call::one("reflection_pad1d", &[self], attrs)
    }

    /// Returns x with its elements reflected around it.
    ///
    /// - `x`, this tensor: the dimensions that change last
    /// - `padding`: elements before and after, for each dimension from the last
    ///
    /// PyTorch: `aten::reflection_pad2d`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 1, 2, 2), &machine)?;
    /// let y = x.reflection_pad2d([1, 0, 0, 0])?;
    /// assert_eq!(y.shape(), [1, 1, 2, 3]);
    /// assert_eq!(y.to_vec::<f32>()?, [2.0, 1.0, 2.0, 4.0, 3.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn reflection_pad2d(&self, padding: impl Ints) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("padding", padding.to_ints());
        call::one("reflection_pad2d", &[self], attrs)
    }

    /// Returns x with its elements reflected around it.
    ///
    /// - `x`, this tensor: the dimensions that change last
    /// - `padding`: elements before and after, for each dimension from the last
    ///
    /// PyTorch: `aten::reflection_pad3d`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(
    ///     &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
    ///     (1, 1, 2, 2, 2),
    ///     &machine,
    /// )?;
    /// let y = x.reflection_pad3d([1, 0, 0, 0, 0, 0])?;
    /// assert_eq!(y.shape(), [1, 1, 2, 2, 3]);
    /// assert_eq!(
    ///     y.to_vec::<f32>()?,
    ///     [2.0, 1.0, 2.0, 4.0, 3.0, 4.0, 6.0, 5.0, 6.0, 8.0, 7.0, 8.0]
    /// );
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn reflection_pad3d(&self, padding: impl Ints) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("padding", padding.to_ints());
        call::one("reflection_pad3d", &[self], attrs)
    }

    /// Returns x with its outermost elements repeated around it.
    ///
    /// - `x`, this tensor: the dimensions that change last
    /// - `padding`: elements before and after, for each dimension from the last
    ///
    /// PyTorch: `aten::replication_pad1d`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], (1, 1, 3), &machine)?;
    /// let y = x.replication_pad1d([1, 0])?;
    /// assert_eq!(y.shape(), [1, 1, 4]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 1.0, 2.0, 3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn replication_pad1d(&self, padding: impl Ints) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("padding", padding.to_ints());
        call::one("replication_pad1d", &[self], attrs)
    }

    /// Returns x with its outermost elements repeated around it.
    ///
    /// - `x`, this tensor: the dimensions that change last
    /// - `padding`: elements before and after, for each dimension from the last
    ///
    /// PyTorch: `aten::replication_pad2d`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 1, 2, 2), &machine)?;
    /// let y = x.replication_pad2d([1, 0, 0, 0])?;
    /// assert_eq!(y.shape(), [1, 1, 2, 3]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 1.0, 2.0, 3.0, 3.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn replication_pad2d(&self, padding: impl Ints) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("padding", padding.to_ints());
        call::one("replication_pad2d", &[self], attrs)
    }

    /// Returns x with its outermost elements repeated around it.
    ///
    /// - `x`, this tensor: the dimensions that change last
    /// - `padding`: elements before and after, for each dimension from the last
    ///
    /// PyTorch: `aten::replication_pad3d`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(
    ///     &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
    ///     (1, 1, 2, 2, 2),
    ///     &machine,
    /// )?;
    /// let y = x.replication_pad3d([1, 0, 0, 0, 0, 0])?;
    /// assert_eq!(y.shape(), [1, 1, 2, 2, 3]);
    /// assert_eq!(
    ///     y.to_vec::<f32>()?,
    ///     [1.0, 1.0, 2.0, 3.0, 3.0, 4.0, 5.0, 5.0, 6.0, 7.0, 7.0, 8.0]
    /// );
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn replication_pad3d(&self, padding: impl Ints) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("padding", padding.to_ints());
        call::one("replication_pad3d", &[self], attrs)
    }

    /// Returns x resampled to other lengths by the nearest elements.
    ///
    /// - `x`, this tensor: the dimensions that change last
    /// - `output_size`: the new lengths
    ///
    /// PyTorch: `aten::upsample_nearest1d`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], (1, 1, 2), &machine)?;
    /// let y = x.upsample_nearest1d(4)?;
    /// assert_eq!(y.shape(), [1, 1, 4]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 1.0, 2.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn upsample_nearest1d(&self, output_size: impl Ints) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("output_size", output_size.to_ints());
        call::one("upsample_nearest1d", &[self], attrs)
    }

    /// Returns x resampled to other lengths by the nearest elements.
    ///
    /// - `x`, this tensor: the dimensions that change last
    /// - `output_size`: the new lengths
    /// - `options`: [`struct@UpsampleNearest1d`], which has defaults
    ///
    /// PyTorch: `aten::upsample_nearest1d`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], (1, 1, 2), &machine)?;
    /// let y = x.upsample_nearest1d_with(4, options::UpsampleNearest1d::default().scales(2.0))?;
    /// assert_eq!(y.shape(), [1, 1, 4]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 1.0, 2.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn upsample_nearest1d_with(
        &self,
        output_size: impl Ints,
        options: UpsampleNearest1d,
    ) -> Result<Tensor> {
        let mut attrs = options.attrs;
        attrs.set("output_size", output_size.to_ints());
        call::one("upsample_nearest1d", &[self], attrs)
    }

    /// Returns x resampled to other lengths by the nearest elements.
    ///
    /// - `x`, this tensor: the dimensions that change last
    /// - `output_size`: the new lengths
    ///
    /// PyTorch: `aten::upsample_nearest2d`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], (1, 1, 1, 2), &machine)?;
    /// let y = x.upsample_nearest2d([1, 4])?;
    /// assert_eq!(y.shape(), [1, 1, 1, 4]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 1.0, 2.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn upsample_nearest2d(&self, output_size: impl Ints) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("output_size", output_size.to_ints());
        call::one("upsample_nearest2d", &[self], attrs)
    }

    /// Returns x resampled to other lengths by the nearest elements.
    ///
    /// - `x`, this tensor: the dimensions that change last
    /// - `output_size`: the new lengths
    /// - `options`: [`struct@UpsampleNearest2d`], which has defaults
    ///
    /// PyTorch: `aten::upsample_nearest2d`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], (1, 1, 1, 2), &machine)?;
    /// let options = options::UpsampleNearest2d::default().scales_h(1.0);
    /// let y = x.upsample_nearest2d_with([1, 4], options)?;
    /// assert_eq!(y.shape(), [1, 1, 1, 4]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 1.0, 2.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn upsample_nearest2d_with(
        &self,
        output_size: impl Ints,
        options: UpsampleNearest2d,
    ) -> Result<Tensor> {
        let mut attrs = options.attrs;
        attrs.set("output_size", output_size.to_ints());
        call::one("upsample_nearest2d", &[self], attrs)
    }

    /// Returns x resampled to other lengths by the nearest elements.
    ///
    /// - `x`, this tensor: the dimensions that change last
    /// - `output_size`: the new lengths
    ///
    /// PyTorch: `aten::upsample_nearest3d`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], (1, 1, 1, 1, 2), &machine)?;
    /// let y = x.upsample_nearest3d([1, 1, 4])?;
    /// assert_eq!(y.shape(), [1, 1, 1, 1, 4]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 1.0, 2.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn upsample_nearest3d(&self, output_size: impl Ints) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("output_size", output_size.to_ints());
        call::one("upsample_nearest3d", &[self], attrs)
    }

    /// Returns x resampled to other lengths by the nearest elements.
    ///
    /// - `x`, this tensor: the dimensions that change last
    /// - `output_size`: the new lengths
    /// - `options`: [`struct@UpsampleNearest3d`], which has defaults
    ///
    /// PyTorch: `aten::upsample_nearest3d`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], (1, 1, 1, 1, 2), &machine)?;
    /// let options = options::UpsampleNearest3d::default().scales_d(1.0);
    /// let y = x.upsample_nearest3d_with([1, 1, 4], options)?;
    /// assert_eq!(y.shape(), [1, 1, 1, 1, 4]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 1.0, 2.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn upsample_nearest3d_with(
        &self,
        output_size: impl Ints,
        options: UpsampleNearest3d,
    ) -> Result<Tensor> {
        let mut attrs = options.attrs;
        attrs.set("output_size", output_size.to_ints());
        call::one("upsample_nearest3d", &[self], attrs)
    }

    /// Returns x resampled to other lengths by linear interpolation.
    ///
    /// - `x`, this tensor: the dimensions that change last
    /// - `output_size`: the new lengths
    ///
    /// PyTorch: `aten::upsample_linear1d`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], (1, 1, 2), &machine)?;
    /// let y = x.upsample_linear1d(4)?;
    /// assert_eq!(y.shape(), [1, 1, 4]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 1.25, 1.75, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn upsample_linear1d(&self, output_size: impl Ints) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("output_size", output_size.to_ints());
        call::one("upsample_linear1d", &[self], attrs)
    }

    /// Returns x resampled to other lengths by linear interpolation.
    ///
    /// - `x`, this tensor: the dimensions that change last
    /// - `output_size`: the new lengths
    /// - `options`: [`struct@UpsampleLinear1d`], which has defaults
    ///
    /// PyTorch: `aten::upsample_linear1d`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], (1, 1, 2), &machine)?;
    /// let options = options::UpsampleLinear1d::default().align_corners(true);
    /// let y = x.upsample_linear1d_with(4, options)?;
    /// assert_eq!(y.to_string(), "tensor([[[1.0000, 1.3333, 1.6667, 2.0000]]])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn upsample_linear1d_with(
        &self,
        output_size: impl Ints,
        options: UpsampleLinear1d,
    ) -> Result<Tensor> {
        let mut attrs = options.attrs;
        attrs.set("output_size", output_size.to_ints());
        call::one("upsample_linear1d", &[self], attrs)
    }

    /// Returns x resampled to other lengths by linear interpolation.
    ///
    /// - `x`, this tensor: the dimensions that change last
    /// - `output_size`: the new lengths
    ///
    /// PyTorch: `aten::upsample_bilinear2d`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], (1, 1, 1, 2), &machine)?;
    /// let y = x.upsample_bilinear2d([1, 4])?;
    /// assert_eq!(y.shape(), [1, 1, 1, 4]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 1.25, 1.75, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn upsample_bilinear2d(&self, output_size: impl Ints) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("output_size", output_size.to_ints());
        call::one("upsample_bilinear2d", &[self], attrs)
    }

    /// Returns x resampled to other lengths by linear interpolation.
    ///
    /// - `x`, this tensor: the dimensions that change last
    /// - `output_size`: the new lengths
    /// - `options`: [`struct@UpsampleBilinear2d`], which has defaults
    ///
    /// PyTorch: `aten::upsample_bilinear2d`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], (1, 1, 1, 2), &machine)?;
    /// let options = options::UpsampleBilinear2d::default().align_corners(true);
    /// let y = x.upsample_bilinear2d_with([1, 4], options)?;
    /// assert_eq!(y.to_string(), "tensor([[[[1.0000, 1.3333, 1.6667, 2.0000]]]])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn upsample_bilinear2d_with(
        &self,
        output_size: impl Ints,
        options: UpsampleBilinear2d,
    ) -> Result<Tensor> {
        let mut attrs = options.attrs;
        attrs.set("output_size", output_size.to_ints());
        call::one("upsample_bilinear2d", &[self], attrs)
    }

    /// Returns x resampled to other lengths by linear interpolation.
    ///
    /// - `x`, this tensor: the dimensions that change last
    /// - `output_size`: the new lengths
    /// - `options`: [`struct@UpsampleTrilinear3d`], which has defaults
    ///
    /// PyTorch: `aten::upsample_trilinear3d`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], (1, 1, 1, 1, 2), &machine)?;
    /// let y = x.upsample_trilinear3d([1, 1, 4], Default::default())?;
    /// assert_eq!(y.shape(), [1, 1, 1, 1, 4]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 1.25, 1.75, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn upsample_trilinear3d(
        &self,
        output_size: impl Ints,
        options: UpsampleTrilinear3d,
    ) -> Result<Tensor> {
        let mut attrs = options.attrs;
        attrs.set("output_size", output_size.to_ints());
        call::one("upsample_trilinear3d", &[self], attrs)
    }

    /// Returns x resampled to other lengths by cubic interpolation.
    ///
    /// - `x`, this tensor: the dimensions that change last
    /// - `output_size`: the new lengths
    ///
    /// PyTorch: `aten::upsample_bicubic2d`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], (1, 1, 1, 2), &machine)?;
    /// let y = x.upsample_bicubic2d([1, 4])?;
    /// assert_eq!(y.shape(), [1, 1, 1, 4]);
    /// assert_eq!(y.to_vec::<f32>()?, [0.89453125, 1.2265625, 1.7734375, 2.1054688]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn upsample_bicubic2d(&self, output_size: impl Ints) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("output_size", output_size.to_ints());
        call::one("upsample_bicubic2d", &[self], attrs)
    }

    /// Returns x resampled to other lengths by cubic interpolation.
    ///
    /// - `x`, this tensor: the dimensions that change last
    /// - `output_size`: the new lengths
    /// - `options`: [`struct@UpsampleBicubic2d`], which has defaults
    ///
    /// PyTorch: `aten::upsample_bicubic2d`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], (1, 1, 1, 2), &machine)?;
    /// let options = options::UpsampleBicubic2d::default().align_corners(true);
    /// let y = x.upsample_bicubic2d_with([1, 4], options)?;
    /// assert_eq!(y.to_string(), "tensor([[[[1.0000, 1.3148, 1.6852, 2.0000]]]])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn upsample_bicubic2d_with(
        &self,
        output_size: impl Ints,
        options: UpsampleBicubic2d,
    ) -> Result<Tensor> {
        let mut attrs = options.attrs;
        attrs.set("output_size", output_size.to_ints());
        call::one("upsample_bicubic2d", &[self], attrs)
    }
}
