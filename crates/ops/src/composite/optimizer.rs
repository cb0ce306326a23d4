//! The steps of optimizers for one parameter, in place. The numbers that depend on the step are
//! computed in f64, as in PyTorch.

use millstream_types::{Attrs, DType, Result};

use crate::def::arg;
use crate::fused::PROGRAM;
use crate::multi_tensor::{COLUMNS, FOUND, MULTI_TENSOR, SETS};
use crate::schema::ArgDoc;

use super::{Args, Composite, op, table};
use crate::formula::{Expr, along, wide};

table! {
    op("adam_step_", "weights after a step of Adam, in place", ADAM, ADAM_ATTRS,
        |args| guarded(args, MOMENTS, |args| adam(args, false)))
        .optional_from(5);
    op("adamw_step_", "weights after a step of AdamW, in place", ADAM, ADAM_ATTRS,
        |args| guarded(args, MOMENTS, |args| adam(args, true)))
        .optional_from(5);
    op("sgd_step_", "weights after a step of gradient descent, in place", SGD, SGD_ATTRS,
        |args| guarded(args, &["buffer"], sgd))
        .optional_from(2);
    op("adagrad_step_", "weights after a step of Adagrad, in place", ADAGRAD, ADAGRAD_ATTRS,
        |args| guarded(args, &["sum"], adagrad))
        .optional_from(4);
    op("unscale_", "found_inf, 1 if an element of the tensors is not finite; the tensors are \
        multiplied by a factor, in place", UNSCALE, &[], unscale).of_list(2);
    op("found_inf", "1 if an element of a tensor of floats is not finite, else 0: an f32 \
        without dimensions", &[arg("tensors", "any shapes and dtypes")], &[], found_inf).of_list(1);
    op("_amp_update_scale_", "the scale of losses after a step, in place: reduced if an \
        element was not finite, and increased after some steps without", UPDATE, UPDATE_ATTRS,
        update_scale);
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
fn guarded<'a>(
    args: Args<'a>,
    state: &[&str],
    step: fn(Args<'a>) -> Result<Expr<'a>>,
) -> Result<Expr<'a>> {
    let (found, scale) = (args.optional("found_inf"), args.optional("grad_scale"));
    let mut kept = Vec::new();
    if found.is_some() {
        // A new momentum has no elements to keep.
        if args.flag("is_first_step", false)?
            && let Some(buffer) = args.optional("buffer")
        {
            buffer.op("fill", Attrs::new().with("value", 0));
        }
        let gradient = scale.and(args.optional("grad"));
        let changed = ["weights"].iter().chain(state).filter_map(|name| args.optional(name));
        for x in changed.chain(gradient) {
            kept.push((x, x.op("cast", Attrs::new().with("dtype", x.dtype()))));
        }
    }
    if let Some(scale) = scale {
        let gradient = args.tensor("grad");
        gradient.copy_(gradient.cast(wide(gradient.dtype())) / scale);
    }
    let made = step(args)?;
    if let Some(found) = found {
        let is_found = found.ne(0);
        for (x, before) in kept {
            x.copy_(is_found.choose(before, x));
        }
    }
    Ok(made)
}

/// Returns the rate of learning, a tensor of f64 without dimensions.
fn rate(args: Args<'_>) -> Result<Expr<'_>> {
    Ok(match args.optional("lr") {
        Some(rate) => rate.cast(DType::F64),
        None => args.calls.number(args.number("lr", 0.0)?, DType::F64),
    })
}

/// Returns the gradient, negated to maximise.
fn gradient(args: Args<'_>) -> Result<Expr<'_>> {
    let gradient = args.tensor("grad");
    Ok(if args.flag("maximize", false)? { -gradient } else { gradient })
}

/// Returns the gradient plus the weights times their decay.
fn decayed_gradient(args: Args<'_>) -> Result<Expr<'_>> {
    let gradient = gradient(args)?;
    Ok(match args.number("weight_decay", 0.0)? {
        0.0 => gradient,
        decay => gradient.with("add", args.tensor("weights"), Attrs::new().with("alpha", decay)),
    })
}

/// Returns 1 - base^step, in f64.
fn correction(base: f64, step: Expr<'_>) -> Expr<'_> {
    -step.calls.number(base, DType::F64).pow(step) + 1.0
}

fn adam(args: Args<'_>, decoupled: bool) -> Result<Expr<'_>> {
    let [weights, mean, square, step] = args.tensors(["weights", "mean", "square", "step"]);
    let step = step.cast(DType::F64);
    let (first, second) = (args.number("beta1", 0.0)?, args.number("beta2", 0.0)?);
    let rate = rate(args)?;
    let gradient = if decoupled { gradient(args)? } else { decayed_gradient(args)? };
    let decay = args.number("weight_decay", 0.0)?;
    if decoupled && decay != 0.0 {
        weights.mul_(rate * -decay + 1.0);
    }
    mean.with("lerp_", gradient, Attrs::new().with("weight", 1.0 - first));
    square.mul_(second);
    let value = Attrs::new().with("value", 1.0 - second);
    args.calls.one("addcmul_", &[square, gradient, gradient], value);
    let of_mean = correction(first, step);
    let of_square = correction(second, step).sqrt();
    let mut most = square;
    if args.flag("amsgrad", false)? {
        most = args.tensor("max_square");
        most.copy_(most.maximum(square));
    }
    let root = most.sqrt() / of_square + args.number("eps", 0.0)?;
    Ok(weights.sub_(mean / root * (rate / of_mean)))
}

fn sgd(args: Args<'_>) -> Result<Expr<'_>> {
    let mut gradient = decayed_gradient(args)?;
    let momentum = args.number("momentum", 0.0)?;
    if momentum != 0.0 {
        let buffer = args.tensor("buffer");
        if args.flag("is_first_step", false)? {
            buffer.copy_(gradient);
        } else {
            buffer.mul_(momentum);
            let share = 1.0 - args.number("dampening", 0.0)?;
            buffer.with("add_", gradient, Attrs::new().with("alpha", share));
        }
        gradient = match args.flag("nesterov", false)? {
            true => gradient.with("add", buffer, Attrs::new().with("alpha", momentum)),
            false => buffer,
        };
    }
    Ok(args.tensor("weights").sub_(gradient * rate(args)?))
}

fn adagrad(args: Args<'_>) -> Result<Expr<'_>> {
    let [weights, sum, step] = args.tensors(["weights", "sum", "step"]);
    let step = step.cast(DType::F64);
    let gradient = decayed_gradient(args)?;
    let rate = rate(args)?;
    let rate = rate / ((step - 1.0) * args.number("lr_decay", 0.0)? + 1.0);
    sum.apply("addcmul_", [gradient, gradient]);
    let root = sum.sqrt() + args.number("eps", 0.0)?;
    Ok(weights.sub_(gradient / root * rate))
}

/// One call for each dtype. 16-bit floats are multiplied in f32, whose factor they may not hold.
fn unscale(args: Args<'_>) -> Result<Expr<'_>> {
    let [found, factor] = args.tensors(["found_inf", "inv_scale"]);
    let tensors = &args.all()[2..];
    let mut dtypes: Vec<DType> = Vec::new();
    for x in tensors {
        if !dtypes.contains(&x.dtype()) {
            dtypes.push(x.dtype());
        }
    }
    for dtype in dtypes {
        let program = match dtype {
            DType::F16 | DType::BF16 => "cast(%0|dtype=f32);mul(#0,%1);copy_(%0,#1)",
            _ => "mul_(%0,%1)",
        };
        let of_dtype = tensors.iter().copied().filter(|x| x.dtype() == dtype);
        let mut operands: Vec<Expr<'_>> = of_dtype.collect();
        let attrs = Attrs::new().with(PROGRAM, program).with(COLUMNS, 1);
        let attrs = attrs.with(SETS, operands.len() as i64).with(FOUND, 2);
        operands.extend([factor, found]);
        args.calls.call(MULTI_TENSOR, &operands, attrs);
    }
    Ok(found)
}

/// By the greatest magnitude of each tensor, which NaN and infinities pass on.
fn found_inf(args: Args<'_>) -> Result<Expr<'_>> {
    let mut greatest = Vec::new();
    for x in args.all() {
        if x.dtype().is_float() && x.numel()? > 0 {
            let norm = x.op("linalg_vector_norm", Attrs::new().with("ord", f64::INFINITY));
            greatest.push(norm.cast(DType::F64));
        }
    }
    if greatest.is_empty() {
        return Ok(args.calls.number(0.0, DType::F32));
    }
    let all = args.calls.one("stack", &greatest, along(0));
    // Only a finite number minus itself is 0.
    Ok(all.apply("sub", [all]).ne(0).any().cast(DType::F32))
}

/// One call, whose set is the scale and the number of steps.
fn update_scale(args: Args<'_>) -> Result<Expr<'_>> {
    let growth = args.number("scale_growth_factor", 2.0)?;
    let backoff = args.number("scale_backoff_factor", 0.5)?;
    let interval = args.int("growth_interval")?.unwrap_or(2000);
    // Factors are f64. A scale that is not finite stays as it was.
    let program = format!(
        "ne(%2|other=0);cast(%0|dtype=f64);mul(#1|other={backoff:?});add(%1|other=1);\
         eq(#3|other={interval});mul(#1|other={growth:?});cast(#5|dtype=f32);sub(#6,#6);\
         eq(#7|other=0);logical_and(#4,#8);where(#9,#5,#1);where(#0,#2,#10);logical_or(#0,#4);\
         masked_fill(#3,#12|value=0);copy_(%0,#11);copy_(%1,#13)"
    );
    let operands = args.tensors(["scale", "growth_tracker", "found_inf"]);
    let attrs = Attrs::new().with(PROGRAM, program.as_str()).with(COLUMNS, 2);
    Ok(args.calls.one(MULTI_TENSOR, &operands, attrs))
}
