//! Methods of the ops under "Convolution and pooling".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, Result};

use crate::handle::Tensor;
use crate::tensor::{Int, Ints, call};

/// Options of [`Tensor::avg_pool2d`].
#[derive(Clone, Debug, Default)]
pub struct AvgPool2d {
    attrs: Attrs,
}

impl AvgPool2d {
    /// Sets `ceil_mode`: whether windows may end outside of x; default false.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0], (1, 1, 5), &machine)?;
    /// let y = x.avg_pool2d([1, 2], options::AvgPool2d::default().ceil_mode(true))?;
    /// assert_eq!(y.shape(), [1, 1, 3]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.5, 3.5, 5.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn ceil_mode(mut self, ceil_mode: bool) -> AvgPool2d {
        self.attrs.set("ceil_mode", ceil_mode);
        self
    }

    /// Sets `count_include_pad`: whether means count the padding; default true.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0], (1, 1, 5), &machine)?;
    /// let options = options::AvgPool2d::default().padding([0, 1]).count_include_pad(false);
    /// let y = x.avg_pool2d([1, 2], options)?;
    /// assert_eq!(y.shape(), [1, 1, 3]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.5, 4.5]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn count_include_pad(mut self, count_include_pad: bool) -> AvgPool2d {
        self.attrs.set("count_include_pad", count_include_pad);
        self
    }

    /// Sets `divisor_override`: the divisor of the sums; default the number of elements.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0], (1, 1, 5), &machine)?;
    /// let y = x.avg_pool2d([1, 2], options::AvgPool2d::default().divisor_override(1))?;
    /// assert_eq!(y.shape(), [1, 1, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [3.0, 7.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn divisor_override(mut self, divisor_override: impl Int) -> AvgPool2d {
        self.attrs.set("divisor_override", divisor_override.to_int());
        self
    }

    /// Sets `padding`: elements added on both sides; default 0.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0], (1, 1, 5), &machine)?;
    /// let y = x.avg_pool2d([1, 2], options::AvgPool2d::default().padding([0, 1]))?;
    /// assert_eq!(y.shape(), [1, 1, 3]);
    /// assert_eq!(y.to_vec::<f32>()?, [0.5, 2.5, 4.5]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn padding(mut self, padding: impl Ints) -> AvgPool2d {
        self.attrs.set("padding", padding.to_ints());
        self
    }

    /// Sets `stride`: the step between windows; default kernel_size.
    #[must_use]
    pub fn stride(mut self, stride: impl Ints) -> AvgPool2d {
        self.attrs.set("stride", stride.to_ints());
        self
    }
}

/// Options of [`Tensor::avg_pool3d`].
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let x = Tensor::from_slice(
///     &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
///     (1, 1, 2, 2, 2),
///     &machine,
/// )?;
/// let y = x.avg_pool3d(1, options::AvgPool3d::default().stride(2))?;
/// assert_eq!(y.shape(), [1, 1, 1, 1, 1]);
/// assert_eq!(y.to_vec::<f32>()?, [1.0]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct AvgPool3d {
    attrs: Attrs,
}

impl AvgPool3d {
    /// Sets `ceil_mode`: whether a last window may reach out of x; default false.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(
    ///     &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
    ///     (1, 1, 2, 2, 2),
    ///     &machine,
    /// )?;
    /// let y = x.avg_pool3d(2, options::AvgPool3d::default().ceil_mode(true))?;
    /// assert_eq!(y.shape(), [1, 1, 1, 1, 1]);
    /// assert_eq!(y.to_vec::<f32>()?, [4.5]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn ceil_mode(mut self, ceil_mode: bool) -> AvgPool3d {
        self.attrs.set("ceil_mode", ceil_mode);
        self
    }

    /// Sets `count_include_pad`: whether padding counts as elements; default true.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(
    ///     &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
    ///     (1, 1, 2, 2, 2),
    ///     &machine,
    /// )?;
    /// let options = options::AvgPool3d::default().padding([1, 0, 0]).count_include_pad(false);
    /// let y = x.avg_pool3d(2, options)?;
    /// assert_eq!(y.shape(), [1, 1, 2, 1, 1]);
    /// assert_eq!(y.to_vec::<f32>()?, [2.5, 6.5]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn count_include_pad(mut self, count_include_pad: bool) -> AvgPool3d {
        self.attrs.set("count_include_pad", count_include_pad);
        self
    }

    /// Sets `divisor_override`: the divisor of each sum; default the number of elements.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(
    ///     &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
    ///     (1, 1, 2, 2, 2),
    ///     &machine,
    /// )?;
    /// let y = x.avg_pool3d(2, options::AvgPool3d::default().divisor_override(4))?;
    /// assert_eq!(y.shape(), [1, 1, 1, 1, 1]);
    /// assert_eq!(y.to_vec::<f32>()?, [9.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn divisor_override(mut self, divisor_override: impl Int) -> AvgPool3d {
        self.attrs.set("divisor_override", divisor_override.to_int());
        self
    }

    /// Sets `padding`: elements around x; default 0.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(
    ///     &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
    ///     (1, 1, 2, 2, 2),
    ///     &machine,
    /// )?;
    /// let y = x.avg_pool3d(2, options::AvgPool3d::default().padding([1, 0, 0]))?;
    /// assert_eq!(y.shape(), [1, 1, 2, 1, 1]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.25, 3.25]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn padding(mut self, padding: impl Ints) -> AvgPool3d {
        self.attrs.set("padding", padding.to_ints());
        self
    }

    /// Sets `stride`: the distances of windows; default the kernel's size.
    #[must_use]
    pub fn stride(mut self, stride: impl Ints) -> AvgPool3d {
        self.attrs.set("stride", stride.to_ints());
        self
    }
}

/// Options of [`Tensor::col2im_with`].
#[derive(Clone, Debug, Default)]
pub struct Col2im {
    attrs: Attrs,
}

impl Col2im {
    /// Sets `dilation`: the distances of a window's elements; default 1.
    #[must_use]
    pub fn dilation(mut self, dilation: impl Ints) -> Col2im {
        self.attrs.set("dilation", dilation.to_ints());
        self
    }

    /// Sets `padding`: zeros around the images; default 0.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 2, 2), &machine)?;
    /// let y = x.col2im_with([1, 1], [1, 2], options::Col2im::default().padding([0, 1]))?;
    /// assert_eq!(y.shape(), [1, 1, 1, 1]);
    /// assert_eq!(y.to_vec::<f32>()?, [5.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn padding(mut self, padding: impl Ints) -> Col2im {
        self.attrs.set("padding", padding.to_ints());
        self
    }

    /// Sets `stride`: the distances of windows; default 1.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 2, 2), &machine)?;
    /// let y = x.col2im_with([2, 3], [2, 1], options::Col2im::default().stride([1, 2]))?;
    /// assert_eq!(y.shape(), [1, 1, 2, 3]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 0.0, 2.0, 3.0, 0.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn stride(mut self, stride: impl Ints) -> Col2im {
        self.attrs.set("stride", stride.to_ints());
        self
    }
}

/// Options of [`Tensor::convolution`].
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 1, 4), &machine)?;
/// let weight = Tensor::from_slice(&[1.0f32, 1.0], (1, 1, 2), &machine)?;
/// let y = x.convolution(&weight, options::Convolution::default().stride(2))?;
/// assert_eq!(y.shape(), [1, 1, 2]);
/// assert_eq!(y.to_vec::<f32>()?, [3.0, 7.0]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Convolution<'a> {
    bias: Option<&'a Tensor>,
    attrs: Attrs,
}

impl<'a> Convolution<'a> {
    /// Gives the tensor `bias`: \[out\]: added to each channel; default 0.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 1, 4), &machine)?;
    /// let weight = Tensor::from_slice(&[1.0f32, 1.0], (1, 1, 2), &machine)?;
    /// let bias = Tensor::from_slice(&[10.0f32], 1, &machine)?;
    /// let y = x.convolution(&weight, options::Convolution::default().bias(&bias))?;
    /// assert_eq!(y.shape(), [1, 1, 3]);
    /// assert_eq!(y.to_vec::<f32>()?, [13.0, 15.0, 17.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn bias(mut self, bias: &'a Tensor) -> Convolution<'a> {
        self.bias = Some(bias);
        self
    }

    /// Sets `dilation`: step between elements of a window; default 1.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 1, 4), &machine)?;
    /// let weight = Tensor::from_slice(&[1.0f32, 1.0], (1, 1, 2), &machine)?;
    /// let y = x.convolution(&weight, options::Convolution::default().dilation(2))?;
    /// assert_eq!(y.shape(), [1, 1, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [4.0, 6.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn dilation(mut self, dilation: impl Ints) -> Convolution<'a> {
        self.attrs.set("dilation", dilation.to_ints());
        self
    }

    /// Sets `groups`: number of groups of channels; default 1.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 2, 2), &machine)?;
    /// let weight = Tensor::from_slice(&[1.0f32, 1.0, 1.0, -1.0], (2, 1, 2), &machine)?;
    /// let y = x.convolution(&weight, options::Convolution::default().groups(2))?;
    /// assert_eq!(y.shape(), [1, 2, 1]);
    /// assert_eq!(y.to_vec::<f32>()?, [3.0, -1.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn groups(mut self, groups: impl Int) -> Convolution<'a> {
        self.attrs.set("groups", groups.to_int());
        self
    }

    /// Sets `output_padding`: extra elements at the end of a transposed convolution's result;
    /// default 0.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 1, 4), &machine)?;
    /// let weight = Tensor::from_slice(&[1.0f32, 1.0], (1, 1, 2), &machine)?;
    /// let options = options::Convolution::default().stride(2).transposed(true).output_padding(1);
    /// let y = x.convolution(&weight, options)?;
    /// assert_eq!(y.shape(), [1, 1, 9]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 0.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn output_padding(mut self, output_padding: impl Ints) -> Convolution<'a> {
        self.attrs.set("output_padding", output_padding.to_ints());
        self
    }

    /// Sets `padding`: zeros added on both sides; default 0.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 1, 4), &machine)?;
    /// let weight = Tensor::from_slice(&[1.0f32, 1.0], (1, 1, 2), &machine)?;
    /// let y = x.convolution(&weight, options::Convolution::default().padding(1))?;
    /// assert_eq!(y.shape(), [1, 1, 5]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 3.0, 5.0, 7.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn padding(mut self, padding: impl Ints) -> Convolution<'a> {
        self.attrs.set("padding", padding.to_ints());
        self
    }

    /// Sets `stride`: step between windows; default 1.
    #[must_use]
    pub fn stride(mut self, stride: impl Ints) -> Convolution<'a> {
        self.attrs.set("stride", stride.to_ints());
        self
    }

    /// Sets `transposed`: compute the transposed convolution; default false.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 1, 4), &machine)?;
    /// let weight = Tensor::from_slice(&[1.0f32, 1.0], (1, 1, 2), &machine)?;
    /// let y = x.convolution(&weight, options::Convolution::default().transposed(true))?;
    /// assert_eq!(y.shape(), [1, 1, 5]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 3.0, 5.0, 7.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn transposed(mut self, transposed: bool) -> Convolution<'a> {
        self.attrs.set("transposed", transposed);
        self
    }
}

/// Options of [`Tensor::conv1d`].
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 1, 4), &machine)?;
/// let weight = Tensor::from_slice(&[1.0f32, 1.0], (1, 1, 2), &machine)?;
/// let y = x.conv1d(&weight, options::Conv1d::default().stride(2))?;
/// assert_eq!(y.to_vec::<f32>()?, [3.0, 7.0]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
pub type Conv1d<'a> = Convolution<'a>;

/// Options of [`Tensor::conv2d`].
///
/// ```
/// # use millstream_types::DType;
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 1, 2, 2), &machine)?;
/// let weight = Tensor::ones((1, 1, 2, 2), DType::F32, &machine)?;
/// let y = x.conv2d(&weight, options::Conv2d::default().padding((0, 1)))?;
/// assert_eq!(y.to_vec::<f32>()?, [4.0, 10.0, 6.0]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
pub type Conv2d<'a> = Convolution<'a>;

/// Options of [`Tensor::conv3d`].
///
/// ```
/// # use millstream_types::DType;
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 1, 1, 2, 2), &machine)?;
/// let weight = Tensor::ones((1, 1, 1, 1, 2), DType::F32, &machine)?;
/// let y = x.conv3d(&weight, options::Conv3d::default().stride((1, 2, 1)))?;
/// assert_eq!(y.to_vec::<f32>()?, [3.0]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
pub type Conv3d<'a> = Convolution<'a>;

/// Options of [`Tensor::im2col_with`].
#[derive(Clone, Debug, Default)]
pub struct Im2col {
    attrs: Attrs,
}

impl Im2col {
    /// Sets `dilation`: the distances of a window's elements; default 1.
    #[must_use]
    pub fn dilation(mut self, dilation: impl Ints) -> Im2col {
        self.attrs.set("dilation", dilation.to_ints());
        self
    }

    /// Sets `padding`: zeros around the images; default 0.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 1, 2, 2), &machine)?;
    /// let y = x.im2col_with([2, 2], options::Im2col::default().padding([0, 1]))?;
    /// assert_eq!(y.shape(), [1, 4, 3]);
    /// assert_eq!(
    ///     y.to_vec::<f32>()?,
    ///     [0.0, 1.0, 2.0, 1.0, 2.0, 0.0, 0.0, 3.0, 4.0, 3.0, 4.0, 0.0]
    /// );
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn padding(mut self, padding: impl Ints) -> Im2col {
        self.attrs.set("padding", padding.to_ints());
        self
    }

    /// Sets `stride`: the distances of windows; default 1.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 1, 2, 2), &machine)?;
    /// let y = x.im2col_with([1, 1], options::Im2col::default().stride([2, 2]))?;
    /// assert_eq!(y.shape(), [1, 1, 1]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn stride(mut self, stride: impl Ints) -> Im2col {
        self.attrs.set("stride", stride.to_ints());
        self
    }
}

/// Options of [`Tensor::max_pool2d`] and [`Tensor::max_pool2d_with_indices`].
#[derive(Clone, Debug, Default)]
pub struct MaxPool2d {
    attrs: Attrs,
}

impl MaxPool2d {
    /// Sets `ceil_mode`: whether windows may end outside of x; default false.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0], (1, 1, 5), &machine)?;
    /// let y = x.max_pool2d([1, 2], options::MaxPool2d::default().ceil_mode(true))?;
    /// assert_eq!(y.shape(), [1, 1, 3]);
    /// assert_eq!(y.to_vec::<f32>()?, [2.0, 4.0, 5.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn ceil_mode(mut self, ceil_mode: bool) -> MaxPool2d {
        self.attrs.set("ceil_mode", ceil_mode);
        self
    }

    /// Sets `dilation`: the step between elements of a window; default 1.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0], (1, 1, 5), &machine)?;
    /// let y = x.max_pool2d([1, 2], options::MaxPool2d::default().dilation([1, 2]))?;
    /// assert_eq!(y.shape(), [1, 1, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [3.0, 5.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn dilation(mut self, dilation: impl Ints) -> MaxPool2d {
        self.attrs.set("dilation", dilation.to_ints());
        self
    }

    /// Sets `padding`: elements added on both sides; default 0.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], (1, 2, 3), &machine)?;
    /// let y = x.max_pool2d([2, 2], options::MaxPool2d::default().padding([1, 1]))?;
    /// assert_eq!(y.shape(), [1, 2, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 3.0, 4.0, 6.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn padding(mut self, padding: impl Ints) -> MaxPool2d {
        self.attrs.set("padding", padding.to_ints());
        self
    }

    /// Sets `stride`: the step between windows; default kernel_size.
    #[must_use]
    pub fn stride(mut self, stride: impl Ints) -> MaxPool2d {
        self.attrs.set("stride", stride.to_ints());
        self
    }
}

/// Options of [`Tensor::max_pool3d_with_indices`].
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let x = Tensor::from_slice(
///     &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
///     (1, 1, 2, 2, 2),
///     &machine,
/// )?;
/// let (values, indices) =
///     x.max_pool3d_with_indices(1, options::MaxPool3dWithIndices::default().stride(2))?;
/// assert_eq!(values.shape(), [1, 1, 1, 1, 1]);
/// assert_eq!(values.to_vec::<f32>()?, [1.0]);
/// assert_eq!(indices.shape(), [1, 1, 1, 1, 1]);
/// assert_eq!(indices.to_vec::<i64>()?, [0]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct MaxPool3dWithIndices {
    attrs: Attrs,
}

impl MaxPool3dWithIndices {
    /// Sets `ceil_mode`: whether a last window may reach out of x; default false.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(
    ///     &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
    ///     (1, 1, 2, 2, 2),
    ///     &machine,
    /// )?;
    /// let options = options::MaxPool3dWithIndices::default().ceil_mode(true);
    /// let (values, indices) = x.max_pool3d_with_indices(2, options)?;
    /// assert_eq!(values.shape(), [1, 1, 1, 1, 1]);
    /// assert_eq!(values.to_vec::<f32>()?, [8.0]);
    /// assert_eq!(indices.shape(), [1, 1, 1, 1, 1]);
    /// assert_eq!(indices.to_vec::<i64>()?, [7]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn ceil_mode(mut self, ceil_mode: bool) -> MaxPool3dWithIndices {
        self.attrs.set("ceil_mode", ceil_mode);
        self
    }

    /// Sets `dilation`: the distances of a window's elements; default 1.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(
    ///     &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
    ///     (1, 1, 2, 2, 2),
    ///     &machine,
    /// )?;
    /// let options = options::MaxPool3dWithIndices::default().dilation([1, 2, 1]);
    /// let (values, indices) = x.max_pool3d_with_indices([2, 1, 1], options)?;
    /// assert_eq!(values.shape(), [1, 1, 1, 2, 2]);
    /// assert_eq!(values.to_vec::<f32>()?, [5.0, 6.0, 7.0, 8.0]);
    /// assert_eq!(indices.shape(), [1, 1, 1, 2, 2]);
    /// assert_eq!(indices.to_vec::<i64>()?, [4, 5, 6, 7]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn dilation(mut self, dilation: impl Ints) -> MaxPool3dWithIndices {
        self.attrs.set("dilation", dilation.to_ints());
        self
    }

    /// Sets `padding`: elements around x; default 0.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(
    ///     &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
    ///     (1, 1, 2, 2, 2),
    ///     &machine,
    /// )?;
    /// let options = options::MaxPool3dWithIndices::default().padding([1, 0, 0]);
    /// let (values, indices) = x.max_pool3d_with_indices(2, options)?;
    /// assert_eq!(values.shape(), [1, 1, 2, 1, 1]);
    /// assert_eq!(values.to_vec::<f32>()?, [4.0, 8.0]);
    /// assert_eq!(indices.shape(), [1, 1, 2, 1, 1]);
    /// assert_eq!(indices.to_vec::<i64>()?, [3, 7]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn padding(mut self, padding: impl Ints) -> MaxPool3dWithIndices {
        self.attrs.set("padding", padding.to_ints());
        self
    }

    /// Sets `stride`: the distances of windows; default the kernel's size.
    #[must_use]
    pub fn stride(mut self, stride: impl Ints) -> MaxPool3dWithIndices {
        self.attrs.set("stride", stride.to_ints());
        self
    }
}

impl Tensor {
    /// Returns the convolution of x with a weight.
    ///
    /// - `x`, this tensor: \[n,c,..\]
    /// - `weight`: \[out,c/groups,..\], transposed \[c,out/groups,..\]
    /// - `options`: [`struct@Convolution`], which has defaults
    ///
    /// PyTorch: `aten::convolution`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 1, 4), &machine)?;
    /// let weight = Tensor::from_slice(&[1.0f32, 1.0], (1, 1, 2), &machine)?;
    /// let y = x.convolution(&weight, Default::default())?;
    /// assert_eq!(y.shape(), [1, 1, 3]);
    /// assert_eq!(y.to_vec::<f32>()?, [3.0, 5.0, 7.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn convolution(&self, weight: &Tensor, options: Convolution<'_>) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = options.attrs;
        given.push(weight);
        call::optional(&[options.bias], &mut given, &mut attrs);
        call::one("convolution", &given, attrs)
    }

    /// Returns the maximum of each window, and its index.
    ///
    /// - `x`, this tensor: \[n,c,h,w\] or \[c,h,w\]
    /// - `kernel_size`: the size of a window: one number or two
    /// - `options`: [`struct@MaxPool2d`], which has defaults
    ///
    /// PyTorch: `aten::max_pool2d_with_indices`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], (1, 2, 3), &machine)?;
    /// let y = x.max_pool2d([2, 2], options::MaxPool2d::default().stride([1, 1]))?;
    /// assert_eq!(y.shape(), [1, 1, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [5.0, 6.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn max_pool2d(&self, kernel_size: impl Ints, options: MaxPool2d) -> Result<Tensor> {
        let mut attrs = options.attrs;
        attrs.set("kernel_size", kernel_size.to_ints());
        call::one("max_pool2d_with_indices", &[self], attrs)
    }

    /// Returns the maximum of each window, and its index.
    ///
    /// - `x`, this tensor: \[n,c,h,w\] or \[c,h,w\]
    /// - `kernel_size`: the size of a window: one number or two
    /// - `options`: [`struct@MaxPool2d`], which has defaults
    ///
    /// PyTorch: `aten::max_pool2d_with_indices`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], (1, 2, 3), &machine)?;
    /// let (values, indices) =
    ///     x.max_pool2d_with_indices([2, 2], options::MaxPool2d::default().stride([1, 1]))?;
    /// assert_eq!(values.shape(), [1, 1, 2]);
    /// assert_eq!(values.to_vec::<f32>()?, [5.0, 6.0]);
    /// assert_eq!(indices.shape(), [1, 1, 2]);
    /// assert_eq!(indices.to_vec::<i64>()?, [4, 5]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn max_pool2d_with_indices(
        &self,
        kernel_size: impl Ints,
        options: MaxPool2d,
    ) -> Result<(Tensor, Tensor)> {
        let mut attrs = options.attrs;
        attrs.set("kernel_size", kernel_size.to_ints());
        let [a, b] = call::first_of("max_pool2d_with_indices", &[self], attrs)?;
        Ok((a, b))
    }

    /// Returns the mean of each window.
    ///
    /// - `x`, this tensor: \[n,c,h,w\] or \[c,h,w\]
    /// - `kernel_size`: the size of a window: one number or two
    /// - `options`: [`struct@AvgPool2d`], which has defaults
    ///
    /// PyTorch: `aten::avg_pool2d`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], (1, 2, 3), &machine)?;
    /// let y = x.avg_pool2d([2, 2], options::AvgPool2d::default().stride([1, 1]))?;
    /// assert_eq!(y.shape(), [1, 1, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [3.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn avg_pool2d(&self, kernel_size: impl Ints, options: AvgPool2d) -> Result<Tensor> {
        let mut attrs = options.attrs;
        attrs.set("kernel_size", kernel_size.to_ints());
        call::one("avg_pool2d", &[self], attrs)
    }

    /// Returns the means of output_size windows that cover x.
    ///
    /// - `x`, this tensor: \[n,c,h,w\] or \[c,h,w\]
    /// - `output_size`: the number of windows: one number or two
    ///
    /// PyTorch: `aten::_adaptive_avg_pool2d`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 1, 4), &machine)?;
    /// let y = x.adaptive_avg_pool2d([1, 2])?;
    /// assert_eq!(y.shape(), [1, 1, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.5, 3.5]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn adaptive_avg_pool2d(&self, output_size: impl Ints) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("output_size", output_size.to_ints());
        call::one("_adaptive_avg_pool2d", &[self], attrs)
    }

    /// Returns the windows of images as columns.
    ///
    /// - `x`, this tensor: \[n,c,h,w\] or \[c,h,w\]
    /// - `kernel_size`: the lengths of a window
    ///
    /// PyTorch: `aten::im2col`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 1, 2, 2), &machine)?;
    /// let y = x.im2col([2, 1])?;
    /// assert_eq!(y.shape(), [1, 2, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn im2col(&self, kernel_size: impl Ints) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("kernel_size", kernel_size.to_ints());
        call::one("im2col", &[self], attrs)
    }

    /// Returns the windows of images as columns.
    ///
    /// - `x`, this tensor: \[n,c,h,w\] or \[c,h,w\]
    /// - `kernel_size`: the lengths of a window
    /// - `options`: [`struct@Im2col`], which has defaults
    ///
    /// PyTorch: `aten::im2col`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 1, 2, 2), &machine)?;
    /// let y = x.im2col_with([2, 1], options::Im2col::default().dilation([1, 2]))?;
    /// assert_eq!(y.shape(), [1, 2, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn im2col_with(&self, kernel_size: impl Ints, options: Im2col) -> Result<Tensor> {
        let mut attrs = options.attrs;
        attrs.set("kernel_size", kernel_size.to_ints());
        call::one("im2col", &[self], attrs)
    }

    /// Returns images of which each element is the sum of its elements in columns.
    ///
    /// - `x`, this tensor: \[n,k,windows\] or \[k,windows\]
    /// - `output_size`: the height and width of the images
    /// - `kernel_size`: the lengths of a window
    ///
    /// PyTorch: `aten::col2im`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 2, 2), &machine)?;
    /// let y = x.col2im([2, 2], [2, 1])?;
    /// assert_eq!(y.shape(), [1, 1, 2, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn col2im(&self, output_size: impl Ints, kernel_size: impl Ints) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("output_size", output_size.to_ints());
        attrs.set("kernel_size", kernel_size.to_ints());
        call::one("col2im", &[self], attrs)
    }

    /// Returns images of which each element is the sum of its elements in columns.
    ///
    /// - `x`, this tensor: \[n,k,windows\] or \[k,windows\]
    /// - `output_size`: the height and width of the images
    /// - `kernel_size`: the lengths of a window
    /// - `options`: [`struct@Col2im`], which has defaults
    ///
    /// PyTorch: `aten::col2im`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 2, 2), &machine)?;
    /// let y = x.col2im_with([2, 2], [2, 1], options::Col2im::default().dilation([1, 2]))?;
    /// assert_eq!(y.shape(), [1, 1, 2, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn col2im_with(
        &self,
        output_size: impl Ints,
        kernel_size: impl Ints,
        options: Col2im,
    ) -> Result<Tensor> {
        let mut attrs = options.attrs;
        attrs.set("output_size", output_size.to_ints());
        attrs.set("kernel_size", kernel_size.to_ints());
        call::one("col2im", &[self], attrs)
    }

    /// Returns the means of windows over three dimensions.
    ///
    /// - `x`, this tensor: \[...,d,h,w\]
    /// - `kernel_size`: the lengths of a window
    /// - `options`: [`struct@AvgPool3d`], which has defaults
    ///
    /// PyTorch: `aten::avg_pool3d`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(
    ///     &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
    ///     (1, 1, 2, 2, 2),
    ///     &machine,
    /// )?;
    /// let y = x.avg_pool3d(2, Default::default())?;
    /// assert_eq!(y.shape(), [1, 1, 1, 1, 1]);
    /// assert_eq!(y.to_vec::<f32>()?, [4.5]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn avg_pool3d(&self, kernel_size: impl Ints, options: AvgPool3d) -> Result<Tensor> {
        let mut attrs = options.attrs;
        attrs.set("kernel_size", kernel_size.to_ints());
        call::one("avg_pool3d", &[self], attrs)
    }

    /// Returns the maxima of windows over three dimensions, and their indices.
    ///
    /// - `x`, this tensor: \[...,d,h,w\]
    /// - `kernel_size`: the lengths of a window
    /// - `options`: [`struct@MaxPool3dWithIndices`], which has defaults
    ///
    /// PyTorch: `aten::max_pool3d_with_indices`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(
    ///     &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
    ///     (1, 1, 2, 2, 2),
    ///     &machine,
    /// )?;
    /// let (values, indices) = x.max_pool3d_with_indices(2, Default::default())?;
    /// assert_eq!(values.shape(), [1, 1, 1, 1, 1]);
    /// assert_eq!(values.to_vec::<f32>()?, [8.0]);
    /// assert_eq!(indices.shape(), [1, 1, 1, 1, 1]);
    /// assert_eq!(indices.to_vec::<i64>()?, [7]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn max_pool3d_with_indices(
        &self,
        kernel_size: impl Ints,
        options: MaxPool3dWithIndices,
    ) -> Result<(Tensor, Tensor)> {
        let mut attrs = options.attrs;
        attrs.set("kernel_size", kernel_size.to_ints());
        let [a, b] = call::first_of("max_pool3d_with_indices", &[self], attrs)?;
        Ok((a, b))
    }

    /// Returns the maxima of windows that cover two dimensions, and their indices.
    ///
    /// - `x`, this tensor: the dimensions of the windows last
    /// - `output_size`: the lengths of the result
    ///
    /// PyTorch: `aten::adaptive_max_pool2d`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 1, 2, 2), &machine)?;
    /// let (values, indices) = x.adaptive_max_pool2d([1, 1])?;
    /// assert_eq!(values.shape(), [1, 1, 1, 1]);
    /// assert_eq!(values.to_vec::<f32>()?, [4.0]);
    /// assert_eq!(indices.shape(), [1, 1, 1, 1]);
    /// assert_eq!(indices.to_vec::<i64>()?, [3]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn adaptive_max_pool2d(&self, output_size: impl Ints) -> Result<(Tensor, Tensor)> {
        let mut attrs = Attrs::new();
        attrs.set("output_size", output_size.to_ints());
        let [a, b] = call::first_of("adaptive_max_pool2d", &[self], attrs)?;
        Ok((a, b))
    }

    /// Returns the maxima of windows that cover three dimensions, and their indices.
    ///
    /// - `x`, this tensor: the dimensions of the windows last
    /// - `output_size`: the lengths of the result
    ///
    /// PyTorch: `aten::adaptive_max_pool3d`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(
    ///     &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
    ///     (1, 1, 2, 2, 2),
    ///     &machine,
    /// )?;
    /// let (values, indices) = x.adaptive_max_pool3d([1, 1, 1])?;
    /// assert_eq!(values.shape(), [1, 1, 1, 1, 1]);
    /// assert_eq!(values.to_vec::<f32>()?, [8.0]);
    /// assert_eq!(indices.shape(), [1, 1, 1, 1, 1]);
    /// assert_eq!(indices.to_vec::<i64>()?, [7]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn adaptive_max_pool3d(&self, output_size: impl Ints) -> Result<(Tensor, Tensor)> {
        let mut attrs = Attrs::new();
        attrs.set("output_size", output_size.to_ints());
        let [a, b] = call::first_of("adaptive_max_pool3d", &[self], attrs)?;
        Ok((a, b))
    }

    /// Returns zeros, and the elements of x at their indices in two dimensions.
    ///
    /// - `x`, this tensor: the maxima
    /// - `indices`: their indices
    /// - `output_size`: the lengths of the result
    ///
    /// PyTorch: `aten::max_unpool2d`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[4.0f32], (1, 1, 1, 1), &machine)?;
    /// let indices = Tensor::from_slice(&[3i64], (1, 1, 1, 1), &machine)?;
    /// let y = x.max_unpool2d(&indices, [2, 2])?;
    /// assert_eq!(y.shape(), [1, 1, 2, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [0.0, 0.0, 0.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn max_unpool2d(&self, indices: &Tensor, output_size: impl Ints) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        given.push(indices);
        attrs.set("output_size", output_size.to_ints());
        call::one("max_unpool2d", &given, attrs)
    }

    /// Returns zeros, and the elements of x at their indices in three dimensions.
    ///
    /// - `x`, this tensor: the maxima
    /// - `indices`: their indices
    /// - `output_size`: the lengths of the result
    ///
    /// PyTorch: `aten::max_unpool3d`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[4.0f32], (1, 1, 1, 1, 1), &machine)?;
    /// let indices = Tensor::from_slice(&[1i64], (1, 1, 1, 1, 1), &machine)?;
    /// let y = x.max_unpool3d(&indices, [1, 1, 2])?;
    /// assert_eq!(y.shape(), [1, 1, 1, 1, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [0.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn max_unpool3d(&self, indices: &Tensor, output_size: impl Ints) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        given.push(indices);
        attrs.set("output_size", output_size.to_ints());
        call::one("max_unpool3d", &given, attrs)
    }

    /// Returns the maxima of windows at random distances over two dimensions, and their indices.
    ///
    /// - `x`, this tensor: \[...,h,w\] or \[...,d,h,w\]
    /// - `samples`: \[n,c,dimensions\], from 0 to 1
    /// - `kernel_size`: the lengths of a window
    /// - `output_size`: the lengths of the result
    ///
    /// PyTorch: `aten::fractional_max_pool2d`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 1, 2, 2), &machine)?;
    /// let samples = Tensor::from_slice(&[0.5f32, 0.5], (1, 1, 2), &machine)?;
    /// let (values, indices) = x.fractional_max_pool2d(&samples, [1, 1], [1, 1])?;
    /// assert_eq!(values.shape(), [1, 1, 1, 1]);
    /// assert_eq!(values.to_vec::<f32>()?, [4.0]);
    /// assert_eq!(indices.shape(), [1, 1, 1, 1]);
    /// assert_eq!(indices.to_vec::<i64>()?, [3]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn fractional_max_pool2d(
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
        let [a, b] = call::first_of("fractional_max_pool2d", &given, attrs)?;
        Ok((a, b))
    }

    /// Returns the maxima of windows at random distances over three dimensions, and their indices.
    ///
    /// - `x`, this tensor: \[...,h,w\] or \[...,d,h,w\]
    /// - `samples`: \[n,c,dimensions\], from 0 to 1
    /// - `kernel_size`: the lengths of a window
    /// - `output_size`: the lengths of the result
    ///
    /// PyTorch: `aten::fractional_max_pool3d`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(
    ///     &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
    ///     (1, 1, 2, 2, 2),
    ///     &machine,
    /// )?;
    /// let samples = Tensor::from_slice(&[0.5f32, 0.5, 0.5], (1, 1, 3), &machine)?;
    /// let (values, indices) = x.fractional_max_pool3d(&samples, [1, 1, 1], [1, 1, 1])?;
    /// assert_eq!(values.shape(), [1, 1, 1, 1, 1]);
    /// assert_eq!(values.to_vec::<f32>()?, [8.0]);
    /// assert_eq!(indices.shape(), [1, 1, 1, 1, 1]);
    /// assert_eq!(indices.to_vec::<i64>()?, [7]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn fractional_max_pool3d(
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
        let [a, b] = call::first_of("fractional_max_pool3d", &given, attrs)?;
        Ok((a, b))
    }
}
