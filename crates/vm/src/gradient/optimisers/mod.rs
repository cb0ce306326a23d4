//! Optimisers, as functions of parameters and their gradients.
//!
//! Each updates the parameters in place, from [`Tensor::grad`]; parameters without a gradient stay.
//! The state of an optimiser is a value that the program keeps. The formulas are PyTorch's, of
//! <https://docs.pytorch.org/docs/stable/optim.html>.
//!
//! All that changes between steps is a tensor: directions and moments, step counts, rates. Each is
//! made outside of captures and recordings and changed in place, so a replay reads and writes what
//! a call would, as with PyTorch's `capturable`. The first step makes the same calls as each later
//! one: its state is zeros.
//!
//! | module | holds |
//! |---|---|
//! | `rate` | learning rates |
//! | `state` | what an optimiser keeps between steps |

mod rate;
mod state;

use millstream_runtime::scope::origin::{self, with_origin};
use millstream_types::Result;

use crate::handle::Tensor;
use crate::tensor::options;

use super::tape::no_grad;

pub use rate::Rate;
pub use state::State;

use state::number;

/// The settings of [`sgd`].
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let w = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?.with_grad()?;
/// use optimisers::{Sgd, State, sgd};
/// w.set_grad(&w.ones_like()?)?;
/// sgd(&[&w], &mut State::default(), &Sgd { lr: 0.5.into(), ..Sgd::default() })?;
/// assert_eq!(w.to_vec::<f32>()?, [1.5, 2.5]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sgd {
    /// The step size.
    pub lr: Rate,
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
        Sgd {
            lr: Rate::from(1e-3),
            momentum: 0.0,
            dampening: 0.0,
            weight_decay: 0.0,
            nesterov: false,
        }
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
/// adam(&[&w], &mut State::default(), &Adam { lr: 0.5.into(), ..Adam::default() })?;
/// assert!(w.to_vec::<f32>()?[0] < 1.6);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Adam {
    /// The step size.
    pub lr: Rate,
    /// The factors of the running means of gradients and of their squares.
    pub betas: (f64, f64),
    /// Added to the denominator.
    pub eps: f64,
    /// The decay of the parameters.
    pub weight_decay: f64,
}

impl Default for Adam {
    fn default() -> Adam {
        Adam { lr: Rate::from(1e-3), betas: (0.9, 0.999), eps: 1e-8, weight_decay: 0.0 }
    }
}

fn scaled(alpha: f64) -> options::Add {
    options::Add::default().alpha(alpha)
}

/// Makes a step without a gradient, whose calls come from the place of the caller.
#[track_caller]
fn step(work: impl FnOnce() -> Result<()>) -> Result<()> {
    with_origin(&origin::caller(), || no_grad(work))
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
/// sgd(&[&w], &mut State::default(), &Sgd { lr: 0.5.into(), ..Sgd::default() })?;
/// assert_eq!(w.to_vec::<f32>()?, [1.5, 2.5]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
///
/// # Errors
/// A call is refused.
#[track_caller]
pub fn sgd(parameters: &[&Tensor], state: &mut State, settings: &Sgd) -> Result<()> {
    state.reserve(parameters.len());
    step(|| {
        for (k, &parameter) in parameters.iter().enumerate() {
            let Some(mut step) = parameter.grad() else { continue };
            if settings.weight_decay != 0.0 {
                step = step.add_with(parameter, scaled(settings.weight_decay))?;
            }
            if settings.momentum != 0.0 {
                let direction = state.first(k, || parameter.zeros_like())?;
                direction.mul_(settings.momentum)?;
                if settings.dampening == 0.0 {
                    direction.add_(&step)?;
                } else {
                    // The first use of a gradient is not dampened.
                    let factor = state.second(k, || number(1.0, parameter))?;
                    direction.addcmul_(&step, &factor)?;
                    factor.fill_(1.0 - settings.dampening)?;
                }
                step = match settings.nesterov {
                    true => step.add_with(&direction, scaled(settings.momentum))?,
                    false => direction,
                };
            }
            let backwards = options::Addcmul::default().value(-1);
            parameter.addcmul_with_(&step, &settings.lr.tensor(parameter)?, backwards)?;
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
/// adam(&[&w], &mut state, &Adam { lr: 0.5.into(), ..Adam::default() })?;
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
    state.reserve(parameters.len());
    let Adam { lr, betas: (beta1, beta2), eps, weight_decay } = settings;
    step(|| {
        state.count_step(parameters)?;
        let mut of_devices: Vec<Factors> = Vec::new();
        for (k, &parameter) in parameters.iter().enumerate() {
            let Some(mut gradient) = parameter.grad() else { continue };
            let known = of_devices.iter().position(|f| f.step.device() == parameter.device());
            let known = match known {
                Some(known) => known,
                None => {
                    of_devices.push(Factors::new(state.steps(parameter)?, settings, parameter)?);
                    of_devices.len() - 1
                }
            };
            let factors = &of_devices[known];
            if *weight_decay != 0.0 && is_decoupled {
                parameter.mul_(&lr.tensor(parameter)?.mul(-weight_decay)?.add(1)?)?;
            } else if *weight_decay != 0.0 {
                gradient = gradient.add_with(parameter, scaled(*weight_decay))?;
            }
            let mean = state.first(k, || parameter.zeros_like())?;
            let square = state.second(k, || parameter.zeros_like())?;
            mean.lerp_(&gradient, 1.0 - beta1)?;
            let squares = options::Addcmul::default().value(1.0 - beta2);
            square.mul_(*beta2)?.addcmul_with_(&gradient, &gradient, squares)?;
            let denominator = square.sqrt()?;
            denominator.div_(&factors.root)?.add_(*eps)?;
            parameter.addcdiv_(&mean.mul(&factors.step)?, &denominator)?;
        }
        Ok(())
    })
}

/// The factors of a step of Adam, as tensors of one element, from the number of steps t.
struct Factors {
    /// -lr / (1 - β₁ᵗ).
    step: Tensor,
    /// The square root of 1 - β₂ᵗ.
    root: Tensor,
}

impl Factors {
    fn new(steps: &Tensor, settings: &Adam, parameter: &Tensor) -> Result<Factors> {
        let (beta1, beta2) = settings.betas;
        // βᵗ - 1, without the cancellation of a difference.
        let less_one = |beta: f64| {
            let power = steps.mul(beta.ln())?;
            power.expm1_().cloned()
        };
        let step = settings.lr.tensor(parameter)?.div(&less_one(beta1)?)?;
        Ok(Factors { step, root: less_one(beta2)?.neg()?.sqrt()? })
    }
}
