//! Kernels of the elementwise functions of one tensor, and of their gradients.

use std::f64::consts::PI;

use anyhow::Result;
use millstream_ops::promotion::floating;

use super::compute::Compute;
use super::element::{Element, compute, greatest_finite};
use super::elementwise::{Bound, Call, CallArgs, ElementwiseOp};
use super::function::{one, two};
use super::real::reals;
use super::special::Special;

/// Defines a table of kernels, one row each: the name of the op, and the function of an element of
/// the type `T`, with its numeric arguments and their defaults. `any` computes in the type of the
/// dtype, `float` computes integers in f32.
macro_rules! functions {
    ($table:ident, $arity:literal, $bind:ident;
     $($kind:ident $op:literal [$($arg:ident = $default:literal),*] $t:ident => $f:expr;)*
    ) => {
        pub(crate) const $table: &[ElementwiseOp] = &[$(($op, |args| {
            $(let $arg = args.attrs.float(stringify!($arg))?.unwrap_or($default);)*
            functions!(@ $kind, args, $arity, $t => {
                $(let $arg = $arg as $t;)*
                $bind::<$t>($f)
            })
        })),*];
    };
    (@ any, $args:ident, $arity:literal, $t:ident => $function:expr) => {{
        let call = Call::of($args, [""; $arity])?;
        let common = call.common()?;
        compute!(common, $t => call.bind(common, $function))
    }};
    (@ float, $args:ident, $arity:literal, $t:ident => $function:expr) => {{
        let call = Call::of($args, [""; $arity])?;
        let common = floating(call.common()?);
        reals!(common, $t => call.bind(common, $function))
    }};
}

pub(super) use functions;

functions! {
    KERNELS, 1, one;
    any "neg" [] T => T::negative;
    any "abs" [] T => T::magnitude;
    any "sign" [] T => T::sign;
    any "round" [] T => T::nearest_even;
    any "trunc" [] T => T::toward_zero;
    any "floor" [] T => T::downward;
    any "ceil" [] T => T::upward;
    any "relu" [] T => |x| if x < T::ZERO { T::ZERO } else { x };
    any "hardtanh" [min_val = -1.0, max_val = 1.0] T => move |x: T| {
        let x = if x < min_val { min_val } else { x };
        if x > max_val { max_val } else { x }
    };
    float "exp" [] T => T::exponential;
    float "expm1" [] T => T::exp_m1;
    float "log" [] T => T::logarithm;
    float "log2" [] T => T::log2;
    float "log1p" [] T => T::ln_1p;
    float "sqrt" [] T => T::sqrt;
    float "rsqrt" [] T => |x| 1.0 / x.sqrt();
    float "reciprocal" [] T => |x| 1.0 / x;
    float "sin" [] T => T::sin;
    float "cos" [] T => T::cos;
    float "tanh" [] T => T::hyperbolic_tangent;
    float "sigmoid" [] T => T::sigmoid;
    float "erf" [] T => T::error_function;
    float "erfc" [] T => T::error_function_rest;
    float "lgamma" [] T => T::log_gamma;
    float "digamma" [] T => T::digamma;
    float "erfinv" [] T => T::error_function_inverse;
    float "exp2" [] T => T::exp2;
    float "log10" [] T => T::log10;
    float "tan" [] T => T::tan;
    float "asin" [] T => T::asin;
    float "acos" [] T => T::acos;
    float "atan" [] T => T::atan;
    float "sinh" [] T => T::sinh;
    float "cosh" [] T => T::cosh;
    float "asinh" [] T => T::area_sine;
    float "acosh" [] T => T::area_cosine;
    float "atanh" [] T => T::area_tangent;
    float "sinc" [] T => |x| {
        let angle = x * PI as T;
        if x == 0.0 { 1.0 } else { angle.sin() / angle }
    };
    float "deg2rad" [] T => |x| x * (PI / 180.0) as T;
    float "rad2deg" [] T => |x| x * (180.0 / PI) as T;
    float "logit" [eps = -1.0] T => move |x: T| {
        let high = 1.0 - eps;
        let x = if eps < 0.0 { x } else if x < eps { eps } else if x > high { high } else { x };
        (x / (1.0 - x)).ln()
    };
    float "frac" [] T => |x| x - x.trunc();
    float "hardsigmoid" [] T => |x| (x + 3.0).clamped(6.0) / 6.0;
    float "hardswish" [] T => |x| x * (x + 3.0).clamped(6.0) / 6.0;
    float "mish" [] T => |x| x * x.exp().ln_1p().tanh();
    float "silu" [] T => T::silu;
    float "elu" [alpha = 1.0, scale = 1.0, input_scale = 1.0] T => move |x: T| {
        if x > 0.0 { x * scale } else { (x * input_scale).exp_m1() * (alpha * scale) }
    };
    float "leaky_relu" [negative_slope = 0.01] T => move |x| {
        if x > 0.0 { x } else { x * negative_slope }
    };
}

functions! {
    NEW, 1, one;
    float "softplus" [beta = 1.0, threshold = 20.0] T => move |x: T| {
        if x * beta > threshold { x } else { (x * beta).exp().ln_1p() / beta }
    };
    float "isnan" [] T => |x| T::from_bool(x.is_nan());
    float "isinf" [] T => |x| T::from_bool(x.is_infinite());
    float "isposinf" [] T => |x| T::from_bool(x == T::INFINITY);
    float "isneginf" [] T => |x| T::from_bool(x == T::NEG_INFINITY);
    float "signbit" [] T => |x| T::from_bool(x.is_sign_negative());
    float "log_sigmoid" [] T => |x| {
        let least = if x < 0.0 { x } else { 0.0 };
        least - (-x.abs()).exp().ln_1p()
    };
    float "softshrink" [lambd = 0.5] T => move |x| {
        if x > lambd { x - lambd } else if x < -lambd { x + lambd } else { x * 0.0 }
    };
    float "hardshrink" [lambd = 0.5] T => move |x| {
        if x >= -lambd && x <= lambd { 0.0 } else { x }
    };
}

functions! {
    GRADIENTS, 2, two;
    any "threshold_backward" [threshold = 0.0] T => move |grad, x| {
        if x <= threshold { T::ZERO } else { grad }
    };
    float "tanh_backward" [] T => |grad, out| grad * (1.0 - out * out);
    float "sigmoid_backward" [] T => |grad, out| grad * (1.0 - out) * out;
    float "silu_backward" [] T => T::silu_backward;
    float "log_sigmoid_backward" [] T => |grad, x| grad * (-x).sigmoid();
    float "hardsigmoid_backward" [] T => |grad, x| {
        // PyTorch's factor is an f32 in all dtypes.
        if x > -3.0 && x < 3.0 { grad * (1.0f32 / 6.0) as T } else { 0.0 }
    };
    float "hardswish_backward" [] T => |grad, x| {
        if x <= -3.0 { 0.0 } else if x < 3.0 { grad * (x / 3.0 + 0.5) } else { grad }
    };
    float "mish_backward" [] T => |grad, x| {
        let tanh = x.exp().ln_1p().tanh();
        grad * (tanh + x * x.sigmoid() * (1.0 - tanh * tanh))
    };
    float "softshrink_backward" [lambd = 0.5] T => move |grad, x| {
        if x >= -lambd && x <= lambd { 0.0 } else { grad }
    };
    float "hardshrink_backward" [lambd = 0.5] T => move |grad, x| {
        if x >= -lambd && x <= lambd { 0.0 } else { grad }
    };
    float "logit_backward" [eps = -1.0] T => move |grad, x: T| {
        let slope = grad / (x * (1.0 - x));
        if eps < 0.0 {
            if (0.0..=1.0).contains(&x) { slope } else { T::NAN }
        } else if x < eps || x > 1.0 - eps {
            0.0
        } else {
            slope
        }
    };
    float "softplus_backward" [beta = 1.0, threshold = 20.0] T => move |grad, x: T| {
        if x * beta > threshold { grad } else { grad * (x * beta).sigmoid() }
    };
    // The input has the sign of the result, so either may be passed.
    float "leaky_relu_backward" [negative_slope = 0.01] T => move |grad, x| {
        if x > 0.0 { grad } else { grad * negative_slope }
    };
    float "native_dropout_backward" [scale = 1.0] T => move |grad, mask| grad * mask * scale;
}

/// As [`KERNELS`], for functions that depend on other arguments than numbers, or on the dtype.
pub(crate) const GELU: &[ElementwiseOp] = &[("gelu", gelu), ("nan_to_num", nan_to_num)];

/// As [`GRADIENTS`], for functions that depend on other arguments than numbers.
pub(crate) const CHOICES: &[ElementwiseOp] =
    &[("gelu_backward", gelu_backward), ("elu_backward", elu_backward)];

/// Rounding. Integers are unchanged.
trait Rounding: Sized {
    fn nearest_even(self) -> Self;
    fn toward_zero(self) -> Self;
    fn downward(self) -> Self;
    fn upward(self) -> Self;
}

macro_rules! rounding {
    ($($t:ident: $x:ident => $nearest:expr, $toward_zero:expr, $down:expr, $up:expr;)*) => {$(
        impl Rounding for $t {
            #[inline(always)]
            fn nearest_even(self) -> $t {
                let $x = self;
                $nearest
            }
            #[inline(always)]
            fn toward_zero(self) -> $t {
                let $x = self;
                $toward_zero
            }
            #[inline(always)]
            fn downward(self) -> $t {
                let $x = self;
                $down
            }
            #[inline(always)]
            fn upward(self) -> $t {
                let $x = self;
                $up
            }
        }
    )*};
}

rounding! {
    f32: x => x.round_ties_even(), x.trunc(), x.floor(), x.ceil();
    f64: x => x.round_ties_even(), x.trunc(), x.floor(), x.ceil();
    i64: x => x, x, x, x;
}

fn is_tanh(args: &CallArgs<'_>) -> Result<bool> {
    let choices = millstream_ops::pointwise::APPROXIMATIONS;
    Ok(millstream_ops::args::choice(args.attrs, "approximate", choices)? == Some("tanh"))
}

fn gelu(args: &CallArgs<'_>) -> Result<Bound> {
    let call = Call::of(args, [""])?;
    let (common, tanh) = (call.common()?, is_tanh(args)?);
    reals!(common, T => match tanh {
        true => call.bind(common, one(T::gelu_by_tanh)),
        false => call.bind(common, one(T::gelu)),
    })
}

fn nan_to_num(args: &CallArgs<'_>) -> Result<Bound> {
    let call = Call::of(args, [""])?;
    let common = call.common()?;
    // The limit of the dtype itself, not of the type of computations.
    let most = greatest_finite(common);
    let number = |name, default: f64| anyhow::Ok(args.attrs.float(name)?.unwrap_or(default));
    let (nan, high, low) = (number("nan", 0.0)?, number("posinf", most)?, number("neginf", -most)?);
    if !common.is_float() {
        return compute!(common, T => call.bind(common, one(|x: T| x)));
    }
    reals!(common, T => {
        let (nan, high, low) = (nan as T, high as T, low as T);
        call.bind(common, one(move |x: T| {
            if x.is_nan() {
                nan
            } else if x == T::INFINITY {
                high
            } else if x == T::NEG_INFINITY {
                low
            } else {
                x
            }
        }))
    })
}

fn gelu_backward(args: &CallArgs<'_>) -> Result<Bound> {
    let call = Call::of(args, [""; 2])?;
    let (common, tanh) = (call.common()?, is_tanh(args)?);
    reals!(common, T => match tanh {
        true => call.bind(common, two(T::gelu_by_tanh_backward)),
        false => call.bind(common, two(T::gelu_backward)),
    })
}

fn elu_backward(args: &CallArgs<'_>) -> Result<Bound> {
    let call = Call::of(args, [""; 2])?;
    let number = |name| anyhow::Ok(args.attrs.float(name)?.unwrap_or(1.0));
    let (alpha, scale, input_scale) = (number("alpha")?, number("scale")?, number("input_scale")?);
    let is_result = args.attrs.bool("is_result")?.unwrap_or(false);
    let common = call.common()?;
    reals!(common, T => {
        let (below, scale, input_scale) =
            ((alpha * scale) as T, scale as T, input_scale as T);
        call.bind(common, two(move |grad: T, x: T| {
            if x > 0.0 {
                grad * scale
            } else if is_result {
                grad * input_scale * (x + below)
            } else {
                grad * input_scale * below * (x * input_scale).exp()
            }
        }))
    })
}
