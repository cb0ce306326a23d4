//! Lowers the optimizers' steps over lists of tensors, `_fused_adamw_` and its like, to elementwise
//! ops for each tensor. The numbers that depend on the step are computed in f64, as in PyTorch.

use millstream_types::{AttrValue, Attrs, DType};

use super::functions::{apply, by, cast, number};
use super::{Made, one_call};
use crate::et::args::NodeArgs;
use crate::et::import::{Import, Lowered, Refusal, Val, unsupported};
use crate::et::value::Arg;
use crate::number::Number;

/// Lowers an op; `None` if it is none of these.
pub(super) fn optimizer(
    import: &mut Import<'_>,
    name: &str,
    given: &NodeArgs<'_>,
) -> Lowered<Option<Made>> {
    let step: fn(&mut Import<'_>, &Step<'_, '_>) -> Lowered<()> = match name {
        "_fused_adam_" | "_fused_adamw_" => adam,
        "_fused_sgd_" => sgd,
        "_fused_adagrad_" => adagrad,
        _ => return Ok(None),
    };
    for absent in ["grad_scale", "found_inf"] {
        if given.get(absent).is_some() {
            return Err(unsupported(format!("its argument '{absent}' is not supported")));
        }
    }
    let count = list(given, "self")?.len();
    for number in 0..count {
        let decoupled = name == "_fused_adamw_";
        step(import, &Step { given, number, decoupled })?;
    }
    Ok(Some(Vec::new()))
}

/// The step of one parameter.
struct Step<'a, 'b> {
    given: &'a NodeArgs<'b>,
    number: usize,
    /// Whether weights decay apart from the gradient.
    decoupled: bool,
}

fn list<'a>(given: &'a NodeArgs<'_>, name: &str) -> Lowered<&'a [Arg]> {
    match given.get(name) {
        Some((_, Arg::List(list))) => Ok(list),
        _ => Ok(&[]),
    }
}

impl Step<'_, '_> {
    /// Returns this parameter's tensor of a list; `None` if the list is empty.
    fn tensor(&self, import: &mut Import<'_>, name: &str) -> Lowered<Option<Val>> {
        let at = self.given.get(name).map_or(0, |(at, _)| at);
        match list(self.given, name)?.get(self.number) {
            None => Ok(None),
            Some(Arg::Tensor(tensor)) => import.resolve(tensor, at).map(Some),
            Some(_) => Err(Refusal::Wrong(format!("'{name}': expected tensors"))),
        }
    }

    fn required(&self, import: &mut Import<'_>, name: &str) -> Lowered<Val> {
        let found = self.tensor(import, name)?;
        found.ok_or_else(|| Refusal::Wrong(format!("'{name}': no tensor {}", self.number)))
    }

    fn number(&self, name: &str) -> Lowered<f64> {
        number(self.given, name, 0.0)
    }

    fn is(&self, name: &str) -> Lowered<bool> {
        Ok(self.given.scalar(name)? == Some(AttrValue::Bool(true)))
    }

    /// Returns the rate of learning, a tensor of f64 without dimensions.
    fn rate(&self, import: &mut Import<'_>) -> Lowered<Val> {
        match self.given.get("lr") {
            Some((at, Arg::Tensor(tensor))) => {
                let rate = import.resolve(tensor, at)?;
                cast(import, rate, DType::F64)
            }
            _ => import.number(Number::Float(self.number("lr")?), DType::F64),
        }
    }

    /// Returns the gradient, negated to maximise.
    fn gradient(&self, import: &mut Import<'_>) -> Lowered<Val> {
        let gradient = self.required(import, "grads")?;
        match self.is("maximize")? {
            true => apply(import, "neg", &[gradient]),
            false => Ok(gradient),
        }
    }

    /// Adds the weights times their decay to the gradient.
    fn with_decay(&self, import: &mut Import<'_>, gradient: Val, weights: Val) -> Lowered<Val> {
        match self.number("weight_decay")? {
            0.0 => Ok(gradient),
            decay => {
                let alpha = Attrs::new().with("alpha", decay);
                one_call(import, "add", &[gradient, weights], alpha)
            }
        }
    }
}

/// Returns 1 - base^step, in f64.
fn correction(import: &mut Import<'_>, base: f64, step: Val) -> Lowered<Val> {
    let base = import.number(Number::Float(base), DType::F64)?;
    let power = apply(import, "pow", &[base, step])?;
    let rest = apply(import, "neg", &[power])?;
    by(import, "add", rest, 1.0)
}

fn adam(import: &mut Import<'_>, step: &Step<'_, '_>) -> Lowered<()> {
    let weights = step.required(import, "self")?;
    let mean = step.required(import, "exp_avgs")?;
    let square = step.required(import, "exp_avg_sqs")?;
    let count = step.required(import, "state_steps")?;
    let count = cast(import, count, DType::F64)?;
    let (first, second) = (step.number("beta1")?, step.number("beta2")?);
    let rate = step.rate(import)?;
    let mut gradient = step.gradient(import)?;
    let decay = step.number("weight_decay")?;
    if step.decoupled && decay != 0.0 {
        let kept = by(import, "mul", rate, -decay)?;
        let kept = by(import, "add", kept, 1.0)?;
        import.call("mul_", &[weights, kept], Attrs::new())?;
    } else if !step.decoupled {
        gradient = step.with_decay(import, gradient, weights)?;
    }
    let weight = Attrs::new().with("weight", 1.0 - first);
    import.call("lerp_", &[mean, gradient], weight)?;
    import.call("mul_", &[square], Attrs::new().with("other", second))?;
    let value = Attrs::new().with("value", 1.0 - second);
    import.call("addcmul_", &[square, gradient, gradient], value)?;
    let of_mean = correction(import, first, count)?;
    let of_square = correction(import, second, count)?;
    let of_square = apply(import, "sqrt", &[of_square])?;
    let mut root = square;
    if step.is("amsgrad")? {
        let most = step.required(import, "max_exp_avg_sqs")?;
        let greater = apply(import, "maximum", &[most, square])?;
        import.call("copy_", &[most, greater], Attrs::new())?;
        root = most;
    }
    let root = apply(import, "sqrt", &[root])?;
    let root = apply(import, "div", &[root, of_square])?;
    let root = by(import, "add", root, step.number("eps")?)?;
    let share = apply(import, "div", &[mean, root])?;
    let size = apply(import, "div", &[rate, of_mean])?;
    let change = apply(import, "mul", &[share, size])?;
    import.call("sub_", &[weights, change], Attrs::new()).map(drop)
}

fn sgd(import: &mut Import<'_>, step: &Step<'_, '_>) -> Lowered<()> {
    let weights = step.required(import, "self")?;
    let gradient = step.gradient(import)?;
    let mut gradient = step.with_decay(import, gradient, weights)?;
    let momentum = step.number("momentum")?;
    if momentum != 0.0 {
        let buffer = step.required(import, "momentum_buffer_list")?;
        if step.is("is_first_step")? {
            import.call("copy_", &[buffer, gradient], Attrs::new())?;
        } else {
            import.call("mul_", &[buffer], Attrs::new().with("other", momentum))?;
            let share = Attrs::new().with("alpha", 1.0 - step.number("dampening")?);
            import.call("add_", &[buffer, gradient], share)?;
        }
        gradient = match step.is("nesterov")? {
            true => {
                let alpha = Attrs::new().with("alpha", momentum);
                one_call(import, "add", &[gradient, buffer], alpha)?
            }
            false => buffer,
        };
    }
    let rate = step.rate(import)?;
    let change = apply(import, "mul", &[gradient, rate])?;
    import.call("sub_", &[weights, change], Attrs::new()).map(drop)
}

fn adagrad(import: &mut Import<'_>, step: &Step<'_, '_>) -> Lowered<()> {
    let weights = step.required(import, "self")?;
    let sum = step.required(import, "state_sums")?;
    let count = step.required(import, "state_steps")?;
    let count = cast(import, count, DType::F64)?;
    let gradient = step.gradient(import)?;
    let gradient = step.with_decay(import, gradient, weights)?;
    let rate = step.rate(import)?;
    let before = by(import, "sub", count, 1.0)?;
    let slower = by(import, "mul", before, step.number("lr_decay")?)?;
    let slower = by(import, "add", slower, 1.0)?;
    let rate = apply(import, "div", &[rate, slower])?;
    import.call("addcmul_", &[sum, gradient, gradient], Attrs::new())?;
    let root = apply(import, "sqrt", &[sum])?;
    let root = by(import, "add", root, step.number("eps")?)?;
    let share = apply(import, "div", &[gradient, root])?;
    let change = apply(import, "mul", &[share, rate])?;
    import.call("sub_", &[weights, change], Attrs::new()).map(drop)
}
