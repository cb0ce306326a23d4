//! The steps of optimizers for one parameter, in place. The numbers that depend on the step are
//! computed in f64, as in PyTorch.

use millstream_types::{Attrs, DType, Result};

use crate::def::arg;
use crate::fused::PROGRAM;
use crate::multi_tensor::{COLUMNS, FOUND, MULTI_TENSOR, SETS};
use crate::schema::ArgDoc;

use super::calls::wide;
use super::{Calls, Composite, Given, Symbol, op, table};

table! {
    op("adam_step_", "weights after a step of Adam, in place", ADAM, ADAM_ATTRS, |calls, given| {
        guarded(calls, given, MOMENTS, |calls| adam(calls, given, false))
    }).optional_from(5);
    op("adamw_step_", "weights after a step of AdamW, in place", ADAM, ADAM_ATTRS, |calls, given| {
        guarded(calls, given, MOMENTS, |calls| adam(calls, given, true))
    }).optional_from(5);
    op("sgd_step_", "weights after a step of gradient descent, in place", SGD, SGD_ATTRS,
        |calls, given| guarded(calls, given, &["buffer"], |calls| sgd(calls, given)))
        .optional_from(2);
    op("adagrad_step_", "weights after a step of Adagrad, in place", ADAGRAD, ADAGRAD_ATTRS,
        |calls, given| guarded(calls, given, &["sum"], |calls| adagrad(calls, given)))
        .optional_from(4);
    op("unscale_", "found_inf, 1 if an element of the tensors is not finite; the tensors are \
        multiplied by a factor, in place", UNSCALE, &[], unscale).of_list(2);
    op("found_inf", "1 if an element of a tensor of floats is not finite, else 0: an f32 without \
        dimensions", &[arg("tensors", "any shapes and dtypes")], &[], found_inf).of_list(1);
    op("_amp_update_scale_", "the scale of losses after a step, in place: reduced if an element \
        was not finite, and increased after some steps without", UPDATE, UPDATE_ATTRS, update_scale);
}

const WEIGHTS: ArgDoc = arg("weights", "the parameter, any shape");
const GRAD: ArgDoc = arg("grad", "its gradient");
const STEP: ArgDoc = arg("step", "the number of the step, without dimensions");
const RATE: ArgDoc = arg("lr", "the rate of learning, without dimensions");
const RATE_NUMBER: ArgDoc = arg("lr", "a number in place of the tensor").number().instead_of("lr");
const GRAD_SCALE: ArgDoc = arg("grad_scale", "divides the gradient, in place; without dimensions");
const SKIP: ArgDoc =
    arg("found_inf", "an f32 without dimensions: all tensors stay as they are if it is not 0");
const DECAY: ArgDoc = arg("weight_decay", "the decay of weights").number().or("0");
const EPS: ArgDoc = arg("eps", "added to the root").number().or("0");
const MAXIMIZE: ArgDoc = arg("maximize", "whether to ascend").flag().or("false");
const ADAM: &[ArgDoc] = &[
    WEIGHTS,
    GRAD,
    arg("mean", "the mean of gradients"),
    arg("square", "the mean of their squares"),
    STEP,
    arg("max_square", "the greatest mean of squares"),
    RATE,
    GRAD_SCALE,
    SKIP,
];
/// What a step of Adam changes besides the weights.
const MOMENTS: &[&str] = &["mean", "square", "max_square"];
const ADAM_ATTRS: &[ArgDoc] = &[
    RATE_NUMBER,
    arg("beta1", "the share of the mean that stays").number(),
    arg("beta2", "the share of the squares that stays").number(),
    DECAY,
    EPS,
    arg("amsgrad", "whether to use the greatest mean of squares").flag().or("false"),
    MAXIMIZE,
];
const SGD: &[ArgDoc] = &[WEIGHTS, GRAD, arg("buffer", "the momentum"), RATE, GRAD_SCALE, SKIP];
const SGD_ATTRS: &[ArgDoc] = &[
    RATE_NUMBER,
    arg("momentum", "the share of the momentum that stays").number().or("0"),
    arg("dampening", "the share of the gradient that is left out").number().or("0"),
    DECAY,
    arg("nesterov", "whether to look ahead").flag().or("false"),
    arg("is_first_step", "whether the momentum is new").flag().or("false"),
    MAXIMIZE,
];
const ADAGRAD: &[ArgDoc] =
    &[WEIGHTS, GRAD, arg("sum", "the sum of squares"), STEP, RATE, GRAD_SCALE, SKIP];
const ADAGRAD_ATTRS: &[ArgDoc] =
    &[RATE_NUMBER, arg("lr_decay", "the decay of the rate").number().or("0"), DECAY, EPS, MAXIMIZE];

const FOUND_INF: ArgDoc = arg("found_inf", "an f32 without dimensions");
const UNSCALE: &[ArgDoc] =
    &[FOUND_INF, arg("inv_scale", "the factor, without dimensions"), arg("tensors", "gradients")];
const UPDATE: &[ArgDoc] = &[
    arg("scale", "an f32 without dimensions"),
    arg("growth_tracker", "an i32 without dimensions: the number of steps since the last change"),
    FOUND_INF,
];
const UPDATE_ATTRS: &[ArgDoc] = &[
    arg("scale_growth_factor", "the factor of an increase").float().or("2.0"),
    arg("scale_backoff_factor", "the factor of a reduction").float().or("0.5"),
    arg("growth_interval", "the number of steps before an increase").int().or("2000"),
];

/// Makes a step that changes the weights and these operands, with the gradient divided by its
/// scale, unless an element was found that is not finite.
fn guarded(
    calls: &mut Calls<'_>,
    given: &Given<'_>,
    state: &[&str],
    step: impl FnOnce(&mut Calls<'_>) -> Result<Symbol>,
) -> Result<Symbol> {
    let (found, scale) = (given.optional("found_inf"), given.optional("grad_scale"));
    let mut kept = Vec::new();
    if found.is_some() {
        // A new momentum has no elements to keep.
        if given.flag("is_first_step", false)?
            && let Some(buffer) = given.optional("buffer")
        {
            calls.call("fill", &[buffer], Attrs::new().with("value", 0i64))?;
        }
        let gradient = scale.and(given.optional("grad"));
        let changed = ["weights"].iter().chain(state).filter_map(|name| given.optional(name));
        for x in changed.chain(gradient) {
            let dtype = calls.dtype(x);
            kept.push((x, calls.one("cast", &[x], Attrs::new().with("dtype", dtype))?));
        }
    }
    if let Some(scale) = scale {
        let gradient = given.tensor("grad")?;
        let exact = calls.cast(gradient, wide(calls.dtype(gradient)))?;
        let divided = calls.apply("div", &[exact, scale])?;
        calls.call("copy_", &[gradient, divided], Attrs::new())?;
    }
    let made = step(calls)?;
    if let Some(found) = found {
        let is_found = calls.by("ne", found, 0)?;
        for (x, before) in kept {
            let now = calls.apply("where", &[is_found, before, x])?;
            calls.call("copy_", &[x, now], Attrs::new())?;
        }
    }
    Ok(made)
}

/// Returns the rate of learning, a tensor of f64 without dimensions.
fn rate(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    match given.optional("lr") {
        Some(rate) => calls.cast(rate, DType::F64),
        None => calls.number(given.number("lr", 0.0)?, DType::F64),
    }
}

/// Returns the gradient, negated to maximise.
fn gradient(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let gradient = given.tensor("grad")?;
    match given.flag("maximize", false)? {
        true => calls.apply("neg", &[gradient]),
        false => Ok(gradient),
    }
}

/// Adds the weights times their decay to the gradient.
fn with_decay(
    calls: &mut Calls<'_>,
    given: &Given<'_>,
    gradient: Symbol,
    weights: Symbol,
) -> Result<Symbol> {
    match given.number("weight_decay", 0.0)? {
        0.0 => Ok(gradient),
        decay => calls.one("add", &[gradient, weights], Attrs::new().with("alpha", decay)),
    }
}

/// Returns 1 - base^step, in f64.
fn correction(calls: &mut Calls<'_>, base: f64, step: Symbol) -> Result<Symbol> {
    let base = calls.number(base, DType::F64)?;
    let power = calls.apply("pow", &[base, step])?;
    let rest = calls.apply("neg", &[power])?;
    calls.by("add", rest, 1.0)
}

fn adam(calls: &mut Calls<'_>, given: &Given<'_>, decoupled: bool) -> Result<Symbol> {
    let weights = given.tensor("weights")?;
    let mean = given.tensor("mean")?;
    let square = given.tensor("square")?;
    let count = given.tensor("step")?;
    let count = calls.cast(count, DType::F64)?;
    let (first, second) = (given.number("beta1", 0.0)?, given.number("beta2", 0.0)?);
    let rate = rate(calls, given)?;
    let mut gradient = gradient(calls, given)?;
    let decay = given.number("weight_decay", 0.0)?;
    if decoupled && decay != 0.0 {
        let kept = calls.by("mul", rate, -decay)?;
        let kept = calls.by("add", kept, 1.0)?;
        calls.call("mul_", &[weights, kept], Attrs::new())?;
    } else if !decoupled {
        gradient = with_decay(calls, given, gradient, weights)?;
    }
    let weight = Attrs::new().with("weight", 1.0 - first);
    calls.call("lerp_", &[mean, gradient], weight)?;
    calls.call("mul_", &[square], Attrs::new().with("other", second))?;
    let value = Attrs::new().with("value", 1.0 - second);
    calls.call("addcmul_", &[square, gradient, gradient], value)?;
    let of_mean = correction(calls, first, count)?;
    let of_square = correction(calls, second, count)?;
    let of_square = calls.apply("sqrt", &[of_square])?;
    let mut root = square;
    if given.flag("amsgrad", false)? {
        let most = given.tensor("max_square")?;
        let greater = calls.apply("maximum", &[most, square])?;
        calls.call("copy_", &[most, greater], Attrs::new())?;
        root = most;
    }
    let root = calls.apply("sqrt", &[root])?;
    let root = calls.apply("div", &[root, of_square])?;
    let root = calls.by("add", root, given.number("eps", 0.0)?)?;
    let share = calls.apply("div", &[mean, root])?;
    let size = calls.apply("div", &[rate, of_mean])?;
    let change = calls.apply("mul", &[share, size])?;
    calls.apply("sub_", &[weights, change])
}

fn sgd(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let weights = given.tensor("weights")?;
    let gradient = gradient(calls, given)?;
    let mut gradient = with_decay(calls, given, gradient, weights)?;
    let momentum = given.number("momentum", 0.0)?;
    if momentum != 0.0 {
        let buffer = given.tensor("buffer")?;
        if given.flag("is_first_step", false)? {
            calls.call("copy_", &[buffer, gradient], Attrs::new())?;
        } else {
            calls.call("mul_", &[buffer], Attrs::new().with("other", momentum))?;
            let share = Attrs::new().with("alpha", 1.0 - given.number("dampening", 0.0)?);
            calls.call("add_", &[buffer, gradient], share)?;
        }
        gradient = match given.flag("nesterov", false)? {
            true => {
                let alpha = Attrs::new().with("alpha", momentum);
                calls.one("add", &[gradient, buffer], alpha)?
            }
            false => buffer,
        };
    }
    let rate = rate(calls, given)?;
    let change = calls.apply("mul", &[gradient, rate])?;
    calls.apply("sub_", &[weights, change])
}

fn adagrad(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let weights = given.tensor("weights")?;
    let sum = given.tensor("sum")?;
    let count = given.tensor("step")?;
    let count = calls.cast(count, DType::F64)?;
    let gradient = gradient(calls, given)?;
    let gradient = with_decay(calls, given, gradient, weights)?;
    let rate = rate(calls, given)?;
    let before = calls.by("sub", count, 1.0)?;
    let slower = calls.by("mul", before, given.number("lr_decay", 0.0)?)?;
    let slower = calls.by("add", slower, 1.0)?;
    let rate = calls.apply("div", &[rate, slower])?;
    calls.call("addcmul_", &[sum, gradient, gradient], Attrs::new())?;
    let root = calls.apply("sqrt", &[sum])?;
    let root = calls.by("add", root, given.number("eps", 0.0)?)?;
    let share = calls.apply("div", &[gradient, root])?;
    let change = calls.apply("mul", &[share, rate])?;
    calls.apply("sub_", &[weights, change])
}

/// One call for each dtype. 16-bit floats are multiplied in f32, whose factor they may not hold.
fn unscale(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let (found, factor) = (given.tensor("found_inf")?, given.tensor("inv_scale")?);
    let tensors = &given.tensors()[2..];
    let mut dtypes: Vec<DType> = Vec::new();
    for &tensor in tensors {
        if !dtypes.contains(&calls.dtype(tensor)) {
            dtypes.push(calls.dtype(tensor));
        }
    }
    for dtype in dtypes {
        let program = match dtype {
            DType::F16 | DType::BF16 => "cast(%0|dtype=f32);mul(#0,%1);copy_(%0,#1)",
            _ => "mul_(%0,%1)",
        };
        let of_dtype = tensors.iter().copied().filter(|&x| calls.dtype(x) == dtype);
        let mut operands: Vec<Symbol> = of_dtype.collect();
        let attrs = Attrs::new().with(PROGRAM, program).with(COLUMNS, 1);
        let attrs = attrs.with(SETS, operands.len() as i64).with(FOUND, 2);
        operands.extend([factor, found]);
        calls.call(MULTI_TENSOR, &operands, attrs)?;
    }
    Ok(found)
}

/// By the greatest magnitude of each tensor, which NaN and infinities pass on.
fn found_inf(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let mut greatest = Vec::new();
    for &x in given.tensors() {
        if calls.dtype(x).is_float() && calls.spec(x).numel() > 0 {
            let norm =
                calls.one("linalg_vector_norm", &[x], Attrs::new().with("ord", f64::INFINITY))?;
            greatest.push(calls.cast(norm, DType::F64)?);
        }
    }
    if greatest.is_empty() {
        return calls.number(0.0, DType::F32);
    }
    let all = calls.one("stack", &greatest, Attrs::new().with("dim", 0))?;
    let difference = calls.apply("sub", &[all, all])?;
    let is_wrong = calls.by("ne", difference, 0)?;
    let any = calls.apply("any", &[is_wrong])?;
    calls.cast(any, DType::F32)
}

/// One call, whose set is the scale and the number of steps.
fn update_scale(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let (growth, backoff) =
        (given.number("scale_growth_factor", 2.0)?, given.number("scale_backoff_factor", 0.5)?);
    let interval = given.int("growth_interval")?.unwrap_or(2000);
    // Factors are f64. A scale that is not finite stays as it was.
    let program = format!(
        "ne(%2|other=0);cast(%0|dtype=f64);mul(#1|other={backoff:?});add(%1|other=1);\
         eq(#3|other={interval});mul(#1|other={growth:?});cast(#5|dtype=f32);sub(#6,#6);\
         eq(#7|other=0);logical_and(#4,#8);where(#9,#5,#1);where(#0,#2,#10);logical_or(#0,#4);\
         masked_fill(#3,#12|value=0);copy_(%0,#11);copy_(%1,#13)"
    );
    let operands =
        [given.tensor("scale")?, given.tensor("growth_tracker")?, given.tensor("found_inf")?];
    let attrs = Attrs::new().with(PROGRAM, program.as_str()).with(COLUMNS, 2);
    calls.one(MULTI_TENSOR, &operands, attrs)
}
