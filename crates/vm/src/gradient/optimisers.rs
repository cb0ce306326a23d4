//! Optimisers, as functions of parameters and their gradients.
//!
//! Each updates the parameters in place, from [`Tensor::grad`]; parameters without a gradient stay.
//! The state of an optimiser is a value that the program keeps. The formulas are PyTorch's, of
//! <https://docs.pytorch.org/docs/stable/optim.html>.

use millstream_types::Result;

use crate::api::handle::Tensor;
use crate::tensor::options;

use super::tape::no_grad;

/// The settings of [`sgd`].
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let w = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?.with_grad()?;
/// use optimisers::{Sgd, State, sgd};
/// w.set_grad(&w.ones_like()?)?;
/// sgd(&[&w], &mut State::default(), &Sgd { lr: 0.5, ..Sgd::default() })?;
/// assert_eq!(w.to_vec::<f32>()?, [1.5, 2.5]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Sgd {
    /// The step size.
    pub lr: f64,
    /// The factor of the last step's direction.
    pub momentum: f64,
    /// The factor of the gradient in its first use as direction is 1 minus this.
    pub dampening: f64,
    /// The factor of the parameters that is added to the gradients.
    pub weight_decay: f64,
    /// Whether the step looks ahead along the direction (Nesterov).
    pub nesterov: bool,
}

impl Default for Sgd {
    fn default() -> Sgd {
        Sgd { lr: 1e-3, momentum: 0.0, dampening: 0.0, weight_decay: 0.0, nesterov: false }
    }
}

/// The settings of [`adam`] and [`adamw`].
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let w = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?.with_grad()?;
/// use optimisers::{Adam, State, adam};
/// w.set_grad(&w.ones_like()?)?;
/// adam(&[&w], &mut State::default(), &Adam { lr: 0.5, ..Adam::default() })?;
/// assert!(w.to_vec::<f32>()?[0] < 1.6);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Adam {
    /// The step size.
    pub lr: f64,
    /// The factors of the running means of gradients and of their squares.
    pub betas: (f64, f64),
    /// Added to the denominator.
    pub eps: f64,
    /// The decay of the parameters.
    pub weight_decay: f64,
}

impl Default for Adam {
    fn default() -> Adam {
        Adam { lr: 1e-3, betas: (0.9, 0.999), eps: 1e-8, weight_decay: 0.0 }
    }
}

/// What an optimiser keeps between steps: two tensors of each parameter, and the number of steps.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let w = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?.with_grad()?;
/// use optimisers::{Adam, State, adam};
/// let mut state = State::default(); // kept between the steps
/// for _ in 0..2 {
///     w.set_grad(&w.ones_like()?)?;
///     adam(&[&w], &mut state, &Adam::default())?;
/// }
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct State {
    first: Vec<Option<Tensor>>,
    second: Vec<Option<Tensor>>,
    steps: u32,
}

impl State {
    /// Returns the tensors of the state.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let w = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?.with_grad()?;
    /// use optimisers::{Adam, State, adam};
    /// let mut state = State::default();
    /// w.set_grad(&w.ones_like()?)?;
    /// adam(&[&w], &mut state, &Adam::default())?;
    /// assert_eq!(state.tensors().count(), 2); // two moments
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        self.first.iter().chain(&self.second).flatten()
    }

    fn begin(&mut self, parameters: usize) {
        self.first.resize(parameters, None);
        self.second.resize(parameters, None);
        self.steps += 1;
    }
}

fn scaled(alpha: f64) -> options::Add {
    options::Add::default().alpha(alpha)
}

/// Makes a step of stochastic gradient descent, with momentum if set.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let w = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?.with_grad()?;
/// use millstream_vm::optimisers::{Sgd, State, sgd};
///
/// let tape = machine.tape();
/// tape.backward(&w.sum(..)?)?;
/// sgd(&[&w], &mut State::default(), &Sgd { lr: 0.5, ..Sgd::default() })?;
/// assert_eq!(w.to_vec::<f32>()?, [1.5, 2.5]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
///
/// # Errors
/// A call is refused.
#[track_caller]
pub fn sgd(parameters: &[&Tensor], state: &mut State, settings: &Sgd) -> Result<()> {
    state.begin(parameters.len());
    no_grad(|| {
        for (k, &parameter) in parameters.iter().enumerate() {
            let Some(mut step) = parameter.grad() else { continue };
            if settings.weight_decay != 0.0 {
                step = step.add_with(parameter, scaled(settings.weight_decay))?;
            }
            if settings.momentum != 0.0 {
                let direction = match &state.first[k] {
                    None => step.copy()?,
                    Some(direction) => {
                        let dampened = scaled(1.0 - settings.dampening);
                        direction.mul_(settings.momentum)?.add_with_(&step, dampened)?;
                        direction.clone()
                    }
                };
                step = match settings.nesterov {
                    true => step.add_with(&direction, scaled(settings.momentum))?,
                    false => direction.clone(),
                };
                state.first[k] = Some(direction);
            }
            parameter.add_with_(&step, scaled(-settings.lr))?;
        }
        Ok(())
    })
}

/// Makes a step of Adam, with weight decay added to the gradients.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let w = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?.with_grad()?;
/// use millstream_vm::optimisers::{Adam, State, adam};
///
/// let (tape, mut state) = (machine.tape(), State::default());
/// tape.backward(&w.sum(..)?)?;
/// adam(&[&w], &mut state, &Adam { lr: 0.5, ..Adam::default() })?;
/// assert_eq!(w.to_vec::<f32>()?, [1.5, 2.5]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
///
/// # Errors
/// A call is refused.
#[track_caller]
pub fn adam(parameters: &[&Tensor], state: &mut State, settings: &Adam) -> Result<()> {
    adaptive(parameters, state, settings, false)
}

/// Makes a step of AdamW: Adam with weight decay of the parameters themselves.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let w = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?.with_grad()?;
/// use optimisers::{Adam, State, adamw};
/// w.set_grad(&w.ones_like()?)?;
/// adamw(&[&w], &mut State::default(), &Adam::default())?;
/// assert!(w.to_vec::<f32>()?[0] < 2.0);
/// # Ok::<(), millstream_types::Error>(())
/// ```
///
/// # Errors
/// A call is refused.
#[track_caller]
pub fn adamw(parameters: &[&Tensor], state: &mut State, settings: &Adam) -> Result<()> {
    adaptive(parameters, state, settings, true)
}

#[track_caller]
fn adaptive(
    parameters: &[&Tensor],
    state: &mut State,
    settings: &Adam,
    is_decoupled: bool,
) -> Result<()> {
    state.begin(parameters.len());
    let Adam { lr, betas: (beta1, beta2), eps, weight_decay } = *settings;
    let steps = state.steps as i32;
    let (bias1, bias2) = (1.0 - beta1.powi(steps), 1.0 - beta2.powi(steps));
    no_grad(|| {
        for (k, &parameter) in parameters.iter().enumerate() {
            let Some(mut gradient) = parameter.grad() else { continue };
            if weight_decay != 0.0 && is_decoupled {
                parameter.mul_(1.0 - lr * weight_decay)?;
            } else if weight_decay != 0.0 {
                gradient = gradient.add_with(parameter, scaled(weight_decay))?;
            }
            let zeros = |slot: &mut Option<Tensor>| match slot {
                Some(tensor) => Ok(tensor.clone()),
                None => parameter.zeros_like().inspect(|made| *slot = Some(made.clone())),
            };
            let (mean, square) = (zeros(&mut state.first[k])?, zeros(&mut state.second[k])?);
            mean.lerp_(&gradient, 1.0 - beta1)?;
            let squares = options::Addcmul::default().value(1.0 - beta2);
            square.mul_(beta2)?.addcmul_with_(&gradient, &gradient, squares)?;
            let denominator = square.sqrt()?;
            denominator.div_(bias2.sqrt())?.add_(eps)?;
            let step = options::Addcdiv::default().value(-lr / bias1);
            parameter.addcdiv_with_(&mean, &denominator, step)?;
        }
        Ok(())
    })
}
