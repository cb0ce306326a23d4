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
//! The parameters of a device are stepped by one call of `multi_tensor`, whose program is the
//! formula.
//!
//! | module | holds |
//! |---|---|
//! | `rate` | learning rates |
//! | `scaler` | the scale of losses in 16-bit floats |
//! | `sets` | the calls of a step |
//! | `state` | what an optimiser keeps between steps |

mod rate;
mod scaler;
mod sets;
mod state;

use std::fmt::Write as _;

use millstream_runtime::scope::origin::{self, with_origin};
use millstream_types::{DType, Result};

use crate::handle::Tensor;

use super::tape::no_grad;

pub use rate::Rate;
pub use scaler::{GradScaler, Scaling};
pub use state::State;

use sets::Owned;
use state::{kept, number};

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
    /// A number beside the parameters: if it is not 0, the step changes nothing.
    pub unless: Option<Tensor>,
}

impl Default for Sgd {
    fn default() -> Sgd {
        Sgd {
            lr: Rate::from(1e-3),
            momentum: 0.0,
            dampening: 0.0,
            weight_decay: 0.0,
            nesterov: false,
            unless: None,
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
    /// The decay of the parameters; by default PyTorch's, 0 in [`adam`] and 0.01 in [`adamw`].
    pub weight_decay: Option<f64>,
    /// A number beside the parameters: if it is not 0, the step changes nothing.
    pub unless: Option<Tensor>,
}

impl Default for Adam {
    fn default() -> Adam {
        let (betas, eps) = ((0.9, 0.999), 1e-8);
        Adam { lr: Rate::from(1e-3), betas, eps, weight_decay: None, unless: None }
    }
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
    let Sgd { lr, momentum, dampening, weight_decay, nesterov, unless } = settings;
    let (has_direction, is_dampened) = (*momentum != 0.0, *momentum != 0.0 && *dampening != 0.0);
    // A set is a parameter, its gradient, direction, and the factor of the gradient's next use.
    let mut program = Steps::default();
    let mut gradient = "%1".to_owned();
    if *weight_decay != 0.0 {
        gradient = program.value(format_args!("add({gradient},%0|alpha={weight_decay:?})"));
    }
    let rate = 2 + usize::from(has_direction) + usize::from(is_dampened);
    if has_direction {
        program.step(format_args!("mul_(%2|other={momentum:?})"));
        match is_dampened {
            true => program.step(format_args!("addcmul_(%2,{gradient},%3)")),
            false => program.step(format_args!("add_(%2,{gradient})")),
        }
        gradient = match nesterov {
            true => program.value(format_args!("add({gradient},%2|alpha={momentum:?})")),
            false => "%2".to_owned(),
        };
    }
    program.step(format_args!("addcmul_(%0,{gradient},%{rate}|value=-1)"));
    step(|| {
        let unless = sets::own_unless(unless.as_ref())?;
        let (mut sets, mut factors) = (Vec::new(), Vec::new());
        for Owned { position, parameter, gradient } in sets::owned(parameters)? {
            let mut set = vec![parameter.clone(), gradient];
            if has_direction {
                set.push(kept(&mut state.first[position], || parameter.zeros_like())?);
            }
            if is_dampened {
                // The first use of a gradient is not dampened.
                let factor =
                    kept(&mut state.second[position], || number(1.0, DType::F64, &parameter))?;
                factors.push(vec![factor.clone()]);
                set.push(factor);
            }
            sets.push(set);
        }
        let rate = |parameter: &Tensor| Ok(vec![lr.tensor(parameter)?]);
        sets::run(&program.text, &[0, 2], &sets, rate, unless.as_ref())?;
        let later = format!("mul_(%0|other=0.0);add_(%0|other={:?})", 1.0 - dampening);
        sets::run(&later, &[0], &factors, |_| Ok(Vec::new()), unless.as_ref())
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
    let Adam { lr, betas: (beta1, beta2), eps, weight_decay, unless } = settings;
    let weight_decay = weight_decay.unwrap_or(if is_decoupled { 0.01 } else { 0.0 });
    // A set is a parameter, its gradient, and the means of gradients and of their squares. All
    // share the number of steps t and the rate.
    let mut program = Steps::default();
    let mut gradient = "%1".to_owned();
    if weight_decay != 0.0 && is_decoupled {
        let decay = program.value(format_args!("mul(%5|other={:?})", -weight_decay));
        let kept = program.value(format_args!("add({decay}|other=1)"));
        program.step(format_args!("mul_(%0,{kept})"));
    } else if weight_decay != 0.0 {
        gradient = program.value(format_args!("add({gradient},%0|alpha={weight_decay:?})"));
    }
    // βᵗ - 1, without the cancellation of a difference.
    let mut less_one = |beta: &f64| {
        let power = program.value(format_args!("mul(%4|other={:?})", beta.ln()));
        program.value(format_args!("expm1({power})"))
    };
    let (first, second) = (less_one(beta1), less_one(beta2));
    let step_size = program.value(format_args!("div(%5,{first})"));
    let root = program.value(format_args!("neg({second})"));
    let root = program.value(format_args!("sqrt({root})"));
    program.step(format_args!("lerp_(%2,{gradient}|weight={:?})", 1.0 - beta1));
    program.step(format_args!("mul_(%3|other={beta2:?})"));
    program.step(format_args!("addcmul_(%3,{gradient},{gradient}|value={:?})", 1.0 - beta2));
    let denominator = program.value(format_args!("sqrt(%3)"));
    program.step(format_args!("div_({denominator},{root})"));
    program.step(format_args!("add_({denominator}|other={eps:?})"));
    let change = program.value(format_args!("mul(%2,{step_size})"));
    program.step(format_args!("addcdiv_(%0,{change},{denominator})"));
    step(|| {
        let unless = sets::own_unless(unless.as_ref())?;
        let owned = sets::owned(parameters)?;
        let own: Vec<&Tensor> = owned.iter().map(|owned| &owned.parameter).collect();
        state.count_step(&own, unless.as_ref())?;
        let mut sets = Vec::new();
        for Owned { position, parameter, gradient } in owned {
            let mean = kept(&mut state.first[position], || parameter.zeros_like())?;
            let square = kept(&mut state.second[position], || parameter.zeros_like())?;
            sets.push(vec![parameter, gradient, mean, square]);
        }
        let shared =
            |parameter: &Tensor| Ok(vec![state.steps(parameter)?.clone(), lr.tensor(parameter)?]);
        sets::run(&program.text, &[0, 2, 3], &sets, shared, unless.as_ref())
    })
}

/// The text of a program, as it grows.
#[derive(Default)]
struct Steps {
    text: String,
    count: usize,
}

impl Steps {
    /// Adds a step in place.
    fn step(&mut self, text: std::fmt::Arguments<'_>) {
        let separator = if self.count == 0 { "" } else { ";" };
        self.count += 1;
        // Writing to a text does not fail.
        let _ = write!(self.text, "{separator}{text}");
    }

    /// Adds a step, and returns the name of its result.
    fn value(&mut self, text: std::fmt::Arguments<'_>) -> String {
        self.step(text);
        format!("#{}", self.count - 1)
    }
}
