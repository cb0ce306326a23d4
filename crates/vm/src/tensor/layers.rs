//! Methods made of several ops, or of one op with fewer arguments.

use millstream_runtime::scope::origin;
use millstream_types::{Attrs, Error, Result};

use crate::handle::Tensor;

use super::methods::{Conv1d, Conv2d, Conv3d, NllLoss};
use super::{Int, Number, Real, call};

/// Options of [`Tensor::group_norm`].
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
/// let images = x.reshape((1, 4, 1, 1))?;
/// let (ones, zeros) = (x.reshape(4)?.ones_like()?, x.reshape(4)?.zeros_like()?);
/// let options = options::GroupNorm::default().weight(&ones).bias(&zeros).eps(1e-3);
/// assert_eq!(images.group_norm(2, options)?.shape(), [1, 4, 1, 1]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct GroupNorm<'a> {
    weight: Option<&'a Tensor>,
    bias: Option<&'a Tensor>,
    eps: Option<f64>,
}

impl<'a> GroupNorm<'a> {
    /// Sets the scale of each channel; default 1.
    #[must_use]
    pub fn weight(self, weight: &'a Tensor) -> GroupNorm<'a> {
        GroupNorm { weight: Some(weight), ..self }
    }

    /// Sets what is added to each channel; default 0.
    #[must_use]
    pub fn bias(self, bias: &'a Tensor) -> GroupNorm<'a> {
        GroupNorm { bias: Some(bias), ..self }
    }

    /// Sets what is added to the variance; default 1e-5.
    #[must_use]
    pub fn eps(self, eps: impl Real) -> GroupNorm<'a> {
        GroupNorm { eps: Some(eps.to_real()), ..self }
    }
}

impl Tensor {
    /// Refuses a tensor without `dims` dimensions behind those of samples and channels.
    #[track_caller]
    fn check_images(&self, op: &str, dims: usize) -> Result<()> {
        if self.rank() == dims + 2 {
            return Ok(());
        }
        let message = format!("expected {} dimensions, got {}", dims + 2, self.spec().brief());
        Err(Error::Op { op: op.to_owned(), message }.at(&origin::caller()))
    }

    /// Returns the convolution of `[n,c,l]` with a weight `[out,c/groups,k]`. PyTorch's `conv1d`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::DType;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::ones((1, 1, 5), DType::F32, &machine)?;
    /// let w = Tensor::ones((1, 1, 3), DType::F32, &machine)?;
    /// assert_eq!(x.conv1d(&w, Default::default())?.to_vec::<f32>()?, [3.0; 3]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The shapes do not fit, or the memory is used up.
    #[track_caller]
    pub fn conv1d(&self, weight: &Tensor, options: Conv1d<'_>) -> Result<Tensor> {
        self.check_images("conv1d", 1)?;
        self.convolution(weight, options)
    }

    /// Returns the convolution of `[n,c,h,w]` with a weight `[out,c/groups,kh,kw]`. PyTorch's
    /// `conv2d`.
    ///
    /// ```
    /// # fn main() -> millstream_types::Result<()> {
    /// use millstream_types::DType;
    /// use millstream_vm::options::Conv2d;
    /// use millstream_vm::{Machine, MachineConfig, Tensor};
    ///
    /// let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::ones((1, 1, 4, 4), DType::F32, &machine)?;
    /// let w = Tensor::ones((2, 1, 3, 3), DType::F32, &machine)?;
    /// let y = x.conv2d(&w, Conv2d::default().padding(1).stride(2))?;
    /// assert_eq!(y.shape(), [1, 2, 2, 2]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The shapes do not fit, or the memory is used up.
    #[track_caller]
    pub fn conv2d(&self, weight: &Tensor, options: Conv2d<'_>) -> Result<Tensor> {
        self.check_images("conv2d", 2)?;
        self.convolution(weight, options)
    }

    /// Returns the convolution of `[n,c,d,h,w]` with a weight `[out,c/groups,kd,kh,kw]`. PyTorch's
    /// `conv3d`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::DType;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::ones((1, 1, 2, 2, 2), DType::F32, &machine)?;
    /// let w = Tensor::ones((1, 1, 2, 2, 2), DType::F32, &machine)?;
    /// assert_eq!(x.conv3d(&w, Default::default())?.to_vec::<f32>()?, [8.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The shapes do not fit, or the memory is used up.
    #[track_caller]
    pub fn conv3d(&self, weight: &Tensor, options: Conv3d<'_>) -> Result<Tensor> {
        self.check_images("conv3d", 3)?;
        self.convolution(weight, options)
    }

    /// Returns the product with the transposed weight `[out,in]`, plus a bias `[out]`. PyTorch's
    /// `linear`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::DType;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let w = Tensor::ones((3, 2), DType::F32, &machine)?;
    /// assert_eq!(x.linear(&w, None)?.to_vec::<f32>()?, [3.0, 3.0, 3.0, 7.0, 7.0, 7.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The shapes do not fit, or the memory is used up.
    #[track_caller]
    pub fn linear(&self, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        let inputs: call::Inputs<'_> = [self, weight].into_iter().chain(bias).collect();
        call::function("linear", &inputs, |inputs| {
            let (x, weight) = (inputs[0], inputs[1].t()?);
            match inputs.get(2) {
                Some(bias) if x.rank() == 2 => bias.addmm(x, &weight),
                Some(bias) => x.matmul(&weight)?.add(*bias),
                None => x.matmul(&weight),
            }
        })
    }

    /// Returns the cross entropy of scores `[n,c,..]` and class numbers `[n,..]`: the negative
    /// log-likelihood of the log-softmax. PyTorch's `cross_entropy`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let target = Tensor::from_slice(&[1i64, 0], 2, &machine)?;
    /// let loss = x.cross_entropy(&target, Default::default())?;
    /// assert!((loss.item::<f32>()? - 0.8133).abs() < 1e-3);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The shapes do not fit, or the memory is used up.
    #[track_caller]
    pub fn cross_entropy(&self, target: &Tensor, options: NllLoss<'_>) -> Result<Tensor> {
        let classes = if self.rank() > 1 { 1 } else { 0 };
        let scores = self.log_softmax(classes)?;
        match self.rank() {
            4 => scores.nll_loss2d(target, options),
            _ => scores.nll_loss(target, options),
        }
    }

    /// Returns x with groups of channels normalised to mean 0 and variance 1. PyTorch's
    /// `group_norm`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let y = x.reshape((1, 4, 1))?.group_norm(2, Default::default())?;
    /// assert_eq!(y.shape(), [1, 4, 1]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The shapes do not fit, or the memory is used up.
    #[track_caller]
    pub fn group_norm(&self, groups: impl Int, options: GroupNorm<'_>) -> Result<Tensor> {
        let [n, c, rest @ ..] = self.shape() else {
            let message = format!("expected [n,c,..], got {}", self.spec().brief());
            return Err(Error::Op { op: "group_norm".to_owned(), message }.at(&origin::caller()));
        };
        let mut attrs = Attrs::new().with("N", (*n).to_int()).with("C", (*c).to_int());
        attrs.set("HxW", rest.iter().product::<usize>().to_int());
        attrs.set("group", groups.to_int());
        if let Some(eps) = options.eps {
            attrs.set("eps", eps);
        }
        let mut inputs = call::given(self);
        call::optional(&[options.weight, options.bias], &mut inputs, &mut attrs);
        call::one("native_group_norm", &inputs, attrs)
    }

    /// Returns the same elements with the dimensions from `first` to `last` as one. PyTorch's
    /// `flatten`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// assert_eq!(x.flatten(0, -1)?.shape(), [4]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// A dimension is out of range.
    #[track_caller]
    pub fn flatten(&self, first: impl Int, last: impl Int) -> Result<Tensor> {
        let dimension = |dim: i64| millstream_ops::args::dimension(dim, self.rank());
        let ends = dimension(first.to_int()).and_then(|a| Ok((a, dimension(last.to_int())?)));
        let (first, last) = ends.map_err(|e| e.at(&origin::caller()))?;
        if first >= last {
            return Ok(self.clone());
        }
        let shape = self.shape();
        let one: usize = shape[first..=last].iter().product();
        let lengths = [&shape[..first], &[one], &shape[last + 1..]].concat();
        self.reshape(lengths)
    }

    /// Returns x, at least `min` and then at most `max`. PyTorch's `clamp`; `clamp_min` and
    /// `clamp_max` have one bound.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// assert_eq!(x.clamp(2, 3)?.to_vec::<f32>()?, [2.0, 2.0, 3.0, 3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The dtype has no order, or the memory is used up.
    #[track_caller]
    pub fn clamp(&self, min: impl Into<Number>, max: impl Into<Number>) -> Result<Tensor> {
        let attrs = Attrs::new().with("min", call::number(min)).with("max", call::number(max));
        call::one("clamp", &[self], attrs)
    }

    /// Sets this tensor to x, at least `min` and then at most `max`. PyTorch's `clamp_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// x.clamp_(2, 3)?;
    /// assert_eq!(x.to_vec::<f32>()?, [2.0, 2.0, 3.0, 3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The dtype has no order, or elements overlap.
    #[track_caller]
    pub fn clamp_(&self, min: impl Into<Number>, max: impl Into<Number>) -> Result<&Tensor> {
        let attrs = Attrs::new().with("min", call::number(min)).with("max", call::number(max));
        call::changed("clamp_", &[self], attrs)?;
        Ok(self)
    }
}
