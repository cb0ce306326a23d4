//! The scale of losses: gradients in 16-bit floats keep small values if the loss is multiplied, and
//! they are divided again.

use std::sync::Arc;

use millstream_runtime::scope::origin;
use millstream_types::{Attrs, DType, Error, Reduction, Result, Sbp, Sharding};

use crate::handle::global::{self, Global, Views};
use crate::handle::{Tensor, stream_of};
use crate::tensor::call_op;

use super::state::number;
use super::step;

/// How a [`GradScaler`] chooses its scale.
///
/// ```
/// # use millstream_vm::*;
/// use optimisers::Scaling;
/// let scaling = Scaling { init_scale: 1024.0, ..Scaling::default() };
/// assert_eq!((scaling.growth_factor, scaling.backoff_factor), (2.0, 0.5));
/// ```
#[derive(Clone, Debug)]
pub struct Scaling {
    /// The scale of the first step.
    pub init_scale: f64,
    /// The factor of an increase.
    pub growth_factor: f64,
    /// The factor of a reduction, after a step whose gradients are not all finite.
    pub backoff_factor: f64,
    /// The number of steps with finite gradients before an increase.
    pub growth_interval: i64,
}

impl Default for Scaling {
    fn default() -> Scaling {
        let (init_scale, growth_interval) = (65536.0, 2000);
        Scaling { init_scale, growth_factor: 2.0, backoff_factor: 0.5, growth_interval }
    }
}

/// The scale of losses, for gradients in 16-bit floats. Steps whose gradients are not all finite
/// are left out, and reduce the scale. The host reads nothing: scale and decision are tensors, so
/// steps with a scaler can be recorded, traced and replayed.
///
/// Its rules are those of PyTorch's `GradScaler`. All parameters lie on one device, or are held by
/// one mesh. Then all of its ranks leave a step out if an element of any part is not finite.
///
/// ```
/// # use millstream_vm::*;
/// # use millstream_types::DType;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
/// use optimisers::{GradScaler, Scaling, Sgd, State, sgd};
/// let w = Tensor::from_slice(&[0.5f32, 0.25], (2, 1), &machine)?.with_grad()?;
/// let scaler = GradScaler::new(&w, Scaling::default())?;
/// let settings = Sgd { unless: Some(scaler.found_inf().clone()), ..Sgd::default() };
/// let mut state = State::default();
/// for _ in 0..2 {
///     let tape = machine.tape();
///     let loss = autocast(DType::F16, || x.matmul(&w)?.mul(1000)?.mean(..))?;
///     tape.backward(&scaler.scale(&loss)?)?;
///     scaler.unscale(&[&w])?;
///     sgd(&[&w], &mut state, &settings)?; // nothing, if a gradient is not finite
///     scaler.update()?;
///     w.zero_grad();
/// }
/// assert_eq!(scaler.current().item::<f32>()?, 16384.0); // too great for f16, twice
/// assert_eq!(w.to_vec::<f32>()?, [0.5, 0.25]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct GradScaler {
    settings: Scaling,
    scale: Tensor,
    tracker: Tensor,
    found: Tensor,
}

/// Divides gradients by the scale, and sets `found` if an element was not finite.
fn unscale(found: &Tensor, scale: &Tensor, gradients: &[Tensor]) -> Result<()> {
    let factor = scale.cast(DType::F64)?.reciprocal()?.cast(DType::F32)?;
    let tensors: Vec<&Tensor> = [found, &factor].into_iter().chain(gradients).collect();
    call_op("unscale_", &tensors, Attrs::new()).map(drop)
}

impl GradScaler {
    /// Makes a scaler on the device of a tensor, or on its mesh.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let w = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?.with_grad()?;
    /// use optimisers::{GradScaler, Scaling};
    /// let scaler = GradScaler::new(&w, Scaling::default())?;
    /// assert_eq!(scaler.current().item::<f32>()?, 65536.0);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// A call is refused.
    #[track_caller]
    pub fn new(beside: &Tensor, settings: Scaling) -> Result<GradScaler> {
        let number = |value, dtype| number(value, dtype, beside);
        let (scale, tracker) = (number(settings.init_scale, DType::F32)?, number(0.0, DType::I32)?);
        Ok(GradScaler { settings, scale, tracker, found: number(0.0, DType::F32)? })
    }

    /// Returns the loss times the scale.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let w = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?.with_grad()?;
    /// use optimisers::{GradScaler, Scaling};
    /// let scaler = GradScaler::new(&w, Scaling { init_scale: 4.0, ..Scaling::default() })?;
    /// assert_eq!(scaler.scale(&w.sum(..)?)?.item::<f32>()?, 20.0);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The call is refused.
    #[track_caller]
    pub fn scale(&self, loss: &Tensor) -> Result<Tensor> {
        loss.mul(&self.scale)
    }

    /// Divides the gradients of these parameters by the scale, once in a step, and notes whether an
    /// element of them was not finite.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let w = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?.with_grad()?;
    /// use optimisers::{GradScaler, Scaling};
    /// let scaler = GradScaler::new(&w, Scaling { init_scale: 4.0, ..Scaling::default() })?;
    /// w.set_grad(&Tensor::from_slice(&[8.0f32, f32::NAN], 2, &machine)?)?;
    /// scaler.unscale(&[&w])?;
    /// assert_eq!(w.grad().unwrap().to_vec::<f32>()?[0], 2.0);
    /// assert_eq!(scaler.found_inf().item::<f32>()?, 1.0);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// A call is refused: a parameter lies on another device or mesh, or its gradient is partial.
    #[track_caller]
    pub fn unscale(&self, parameters: &[&Tensor]) -> Result<()> {
        step(|| {
            let gradients: Vec<Tensor> = parameters.iter().filter_map(|p| p.grad()).collect();
            match self.found.global() {
                None => unscale(&self.found, &self.scale, &gradients),
                Some(found) => self.unscale_parts(found, &gradients),
            }
        })
    }

    /// Divides this rank's parts of global gradients. What each rank finds is a part of a maximum.
    fn unscale_parts(&self, found: &Global, gradients: &[Tensor]) -> Result<()> {
        let mesh = found.sharding.mesh();
        let mut parts = Vec::new();
        for gradient in gradients {
            let of_mesh = gradient.global().filter(|g| g.sharding.mesh() == mesh);
            let Some(own) = of_mesh.filter(|own| !own.sharding.is_partial()) else {
                let held = match gradient.sharding() {
                    Some(sharding) => format!("as {sharding} by mesh {}", sharding.mesh()),
                    None => "by this rank".to_owned(),
                };
                let message = format!(
                    "{} is held {held}, and the scaler by mesh {mesh}; expected a gradient of \
                     that mesh, none of whose axes is partial: redistribute it first",
                    gradient.spec().brief()
                );
                return Err(Error::Invalid { what: "gradient", message });
            };
            parts.extend(own.local.clone());
        }
        let scale = self.scale.global().and_then(|scale| scale.local.as_ref());
        if let (Some(found), Some(scale)) = (&found.local, scale) {
            unscale(found, scale, &parts)?;
        }
        let sbp = vec![Sbp::Partial(Reduction::Max); mesh.rank()];
        let partial = Arc::new(Sharding::new(mesh, sbp)?);
        let (stream, origin) = (stream_of(&self.found)?, origin::caller());
        let (local, spec) = (found.local.clone(), self.found.shared_spec().clone());
        let part = global::wrap(local, spec, partial, Views::default(), &stream, &origin);
        match global::reduce_together(&[part], &found.sharding)?.first() {
            Some(all) => self.found.copy_(all).map(drop),
            None => Ok(()),
        }
    }

    /// Returns a number, of f32 without dimensions: 1 if a gradient since the last
    /// [`GradScaler::update`] was not finite, else 0. Optimisers take it as `unless`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let w = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?.with_grad()?;
    /// use optimisers::{GradScaler, Scaling};
    /// let scaler = GradScaler::new(&w, Scaling::default())?;
    /// assert_eq!(scaler.found_inf().item::<f32>()?, 0.0);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn found_inf(&self) -> &Tensor {
        &self.found
    }

    /// Returns the scale, an f32 without dimensions, and the number of steps since it changed, an
    /// i32: a program saves them, and copies saved ones into them.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let w = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?.with_grad()?;
    /// use optimisers::{GradScaler, Scaling};
    /// let scaler = GradScaler::new(&w, Scaling::default())?;
    /// scaler.update()?;
    /// let [(_, scale), (_, steps)] = scaler.tensors();
    /// assert_eq!((scale.item::<f32>()?, steps.item::<i32>()?), (65536.0, 1));
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn tensors(&self) -> [(&'static str, &Tensor); 2] {
        [("scale", &self.scale), ("growth_tracker", &self.tracker)]
    }

    /// Returns the scale, an f32 without dimensions.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let w = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?.with_grad()?;
    /// use optimisers::{GradScaler, Scaling};
    /// let scaler = GradScaler::new(&w, Scaling { init_scale: 4.0, ..Scaling::default() })?;
    /// assert_eq!(scaler.current().item::<f32>()?, 4.0);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn current(&self) -> &Tensor {
        &self.scale
    }

    /// Ends a step: reduces the scale if a gradient was not finite, and increases it after some
    /// steps without.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let w = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?.with_grad()?;
    /// use optimisers::{GradScaler, Scaling};
    /// let scaler = GradScaler::new(&w, Scaling { growth_interval: 1, ..Scaling::default() })?;
    /// scaler.update()?;
    /// assert_eq!(scaler.current().item::<f32>()?, 131072.0);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// A call is refused.
    #[track_caller]
    pub fn update(&self) -> Result<()> {
        let Scaling { growth_factor, backoff_factor, growth_interval, .. } = self.settings;
        step(|| {
            let attrs = Attrs::new()
                .with("scale_growth_factor", growth_factor)
                .with("scale_backoff_factor", backoff_factor)
                .with("growth_interval", growth_interval);
            call_op("_amp_update_scale_", &[&self.scale, &self.tracker, &self.found], attrs)?;
            self.found.fill_(0.0).map(drop)
        })
    }
}
