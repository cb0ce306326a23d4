//! Methods of the ops under "Convolution and pooling".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, Result};

use crate::api::handle::Tensor;
use crate::tensor::{Int, Ints, call};

/// Options of [`Tensor::avg_pool2d`].
#[derive(Clone, Debug, Default)]
pub struct AvgPool2d {
    attrs: Attrs,
}

impl AvgPool2d {
    /// Sets `ceil_mode`: whether windows may end outside of x; default false.
    #[must_use]
    pub fn ceil_mode(mut self, ceil_mode: bool) -> AvgPool2d {
        self.attrs.set("ceil_mode", ceil_mode);
        self
    }

    /// Sets `count_include_pad`: whether means count the padding; default true.
    #[must_use]
    pub fn count_include_pad(mut self, count_include_pad: bool) -> AvgPool2d {
        self.attrs.set("count_include_pad", count_include_pad);
        self
    }

    /// Sets `divisor_override`: the divisor of the sums; default the number of elements.
    #[must_use]
    pub fn divisor_override(mut self, divisor_override: impl Int) -> AvgPool2d {
        self.attrs.set("divisor_override", divisor_override.to_int());
        self
    }

    /// Sets `padding`: elements added on both sides; default 0.
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

/// Options of [`Tensor::convolution`].
#[derive(Clone, Debug, Default)]
pub struct Convolution<'a> {
    bias: Option<&'a Tensor>,
    attrs: Attrs,
}

impl<'a> Convolution<'a> {
    /// Gives the tensor `bias`: \[out\]: added to each channel; default 0.
    #[must_use]
    pub fn bias(mut self, bias: &'a Tensor) -> Convolution<'a> {
        self.bias = Some(bias);
        self
    }

    /// Sets `dilation`: step between elements of a window; default 1.
    #[must_use]
    pub fn dilation(mut self, dilation: impl Ints) -> Convolution<'a> {
        self.attrs.set("dilation", dilation.to_ints());
        self
    }

    /// Sets `groups`: number of groups of channels; default 1.
    #[must_use]
    pub fn groups(mut self, groups: impl Int) -> Convolution<'a> {
        self.attrs.set("groups", groups.to_int());
        self
    }

    /// Sets `output_padding`: extra elements at the end of a transposed convolution's result;
    /// default 0.
    #[must_use]
    pub fn output_padding(mut self, output_padding: impl Ints) -> Convolution<'a> {
        self.attrs.set("output_padding", output_padding.to_ints());
        self
    }

    /// Sets `padding`: zeros added on both sides; default 0.
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
    #[must_use]
    pub fn transposed(mut self, transposed: bool) -> Convolution<'a> {
        self.attrs.set("transposed", transposed);
        self
    }
}

/// Options of [`Tensor::conv1d`].
pub type Conv1d<'a> = Convolution<'a>;

/// Options of [`Tensor::conv2d`].
pub type Conv2d<'a> = Convolution<'a>;

/// Options of [`Tensor::conv3d`].
pub type Conv3d<'a> = Convolution<'a>;

/// Options of [`Tensor::max_pool2d`] and [`Tensor::max_pool2d_with_indices`].
#[derive(Clone, Debug, Default)]
pub struct MaxPool2d {
    attrs: Attrs,
}

impl MaxPool2d {
    /// Sets `ceil_mode`: whether windows may end outside of x; default false.
    #[must_use]
    pub fn ceil_mode(mut self, ceil_mode: bool) -> MaxPool2d {
        self.attrs.set("ceil_mode", ceil_mode);
        self
    }

    /// Sets `dilation`: the step between elements of a window; default 1.
    #[must_use]
    pub fn dilation(mut self, dilation: impl Ints) -> MaxPool2d {
        self.attrs.set("dilation", dilation.to_ints());
        self
    }

    /// Sets `padding`: elements added on both sides; default 0.
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

impl Tensor {
    /// Returns the convolution of x with a weight.
    ///
    /// - `x`, this tensor: \[n,c,..\]
    /// - `weight`: \[out,c/groups,..\], transposed \[c,out/groups,..\]
    /// - `options`: [`struct@Convolution`], which has defaults
    ///
    /// PyTorch: `aten::convolution`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn adaptive_avg_pool2d(&self, output_size: impl Ints) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("output_size", output_size.to_ints());
        call::one("_adaptive_avg_pool2d", &[self], attrs)
    }
}
