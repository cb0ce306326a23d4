//! The table of elementwise ops: inputs, dtypes, scalars, and functions in CUDA C. The functions
//! compute the same values as the host's kernels.

/// The rule for the dtype that an op computes in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// The dtype that all inputs promote to.
    Any,
    /// The dtype that all inputs promote to; scalars are rounded to it.
    Rounded,
    /// The dtype that all inputs promote to, or f32 if it is not a float.
    Float,
    /// The dtype that the inputs in this half-open range promote to.
    Of(usize, usize),
    /// The result's dtype.
    Out,
}

/// An elementwise op.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) op: &'static str,
    /// One name per input: the argument whose value may replace the tensor; empty if none may.
    pub(super) inputs: &'static [&'static str],
    pub(super) kind: Kind,
    /// The scalar arguments `a`, `b` and `c`, with their defaults.
    pub(super) scalars: &'static [(&'static str, f64)],
    /// The variants: name, and expression in `x`, `y`, `z`, `a`, `b`, `c`.
    pub(super) variants: &'static [(&'static str, &'static str)],
}

const ONE: &[&str] = &[""];
const TWO: &[&str] = &["", ""];
const PAIR: &[&str] = &["", "other"];
const THREE: &[&str] = &["", "", ""];

/// No scalar arguments.
const NONE: &[(&str, f64)] = &[];

/// Declares a table of ops, one per row: name, inputs, kind, scalars, variants.
macro_rules! functions {
    ($table:ident; $($op:literal $inputs:expr, $kind:expr, $scalars:expr,
     $([$variant:literal])? $text:literal $(, [$more:literal] $other:literal)*;)*) => {
        pub(super) const $table: &[Function] = &[$(Function {
            op: $op,
            inputs: $inputs,
            kind: $kind,
            scalars: $scalars,
            variants: &[(functions!(@ $($variant)?), $text) $(, ($more, $other))*],
        }),*];
    };
    (@) => { "" };
    (@ $variant:literal) => { $variant };
}

use Kind::{Any, Float, Of, Out, Rounded};

// Ops that are registered in place as well, under the name with a `_`.
functions! {
    WITH_IN_PLACE;
    "add" PAIR, Any, &[("alpha", 1.0)], "plus(x, times(a, y))";
    "sub" PAIR, Any, &[("alpha", 1.0)], "plus(x, times(negative(a), y))";
    "mul" PAIR, Any, NONE, "times(x, y)";
    "div" PAIR, Any, NONE, "x / y", ["floor"] "floor_quotient(x, y)", ["trunc"] "quotient(x, y)";
    "remainder" PAIR, Rounded, NONE, "remainder_of(x, y)";
    "fmod" PAIR, Rounded, NONE, "fmod_of(x, y)";
    "pow" &["", "exponent"], Any, NONE, "power(x, y)", ["two"] "times(x, x)", ["three"] "x * x * x",
        ["root"] "sqrt(x)", ["by_root"] "1 / sqrt(x)", ["by"] "1 / x";
    "atan2" TWO, Float, NONE, "atan2(x, y)";
    "neg" ONE, Any, NONE, "negative(x)";
    "abs" ONE, Any, NONE, "abs_of(x)";
    "sign" ONE, Any, NONE, "sign_of(x)";
    "round" ONE, Any, NONE, "round_of(x)";
    "trunc" ONE, Any, NONE, "trunc_of(x)";
    "floor" ONE, Any, NONE, "floor_of(x)";
    "ceil" ONE, Any, NONE, "ceil_of(x)";
    "relu" ONE, Any, NONE, "x < 0 ? (T)0 : x";
    "hardtanh" ONE, Any, &[("min_val", -1.0), ("max_val", 1.0)],
        "(x < a ? a : x) > b ? b : (x < a ? a : x)";
    "exp" ONE, Float, NONE, "exp(x)";
    "expm1" ONE, Float, NONE, "expm1(x)";
    "log" ONE, Float, NONE, "log(x)";
    "log2" ONE, Float, NONE, "log2(x)";
    "log1p" ONE, Float, NONE, "log1p(x)";
    "sqrt" ONE, Float, NONE, "sqrt(x)";
    "rsqrt" ONE, Float, NONE, "1 / sqrt(x)";
    "reciprocal" ONE, Float, NONE, "1 / x";
    "sin" ONE, Float, NONE, "sin(x)";
    "cos" ONE, Float, NONE, "cos(x)";
    "tanh" ONE, Float, NONE, "tanh(x)";
    "sigmoid" ONE, Float, NONE, "sigmoid_of(x)";
    "erf" ONE, Float, NONE, "erf(x)";
    "erfc" ONE, Float, NONE, "erfc(x)";
    "lgamma" ONE, Float, NONE, "lgamma(x)";
    "digamma" ONE, Float, NONE, "digamma_of(x)";
    "erfinv" ONE, Float, NONE, "erfinv_of(x)";
    "exp2" ONE, Float, NONE, "exp2(x)";
    "log10" ONE, Float, NONE, "log10(x)";
    "tan" ONE, Float, NONE, "tan(x)";
    "asin" ONE, Float, NONE, "asin(x)";
    "acos" ONE, Float, NONE, "acos(x)";
    "atan" ONE, Float, NONE, "atan(x)";
    "sinh" ONE, Float, NONE, "sinh(x)";
    "cosh" ONE, Float, NONE, "cosh(x)";
    "asinh" ONE, Float, NONE, "asinh(x)";
    "acosh" ONE, Float, NONE, "acosh(x)";
    "atanh" ONE, Float, NONE, "atanh(x)";
    "sinc" ONE, Float, NONE, "x == 0 ? (T)1 \
        : sin(x * (T)3.14159265358979323846) / (x * (T)3.14159265358979323846)";
    "deg2rad" ONE, Float, NONE, "x * (T)0.017453292519943295769";
    "rad2deg" ONE, Float, NONE, "x * (T)57.295779513082320877";
    "logit" ONE, Float, &[("eps", -1.0)], "logit_of(x, a)";
    "frac" ONE, Float, NONE, "x - trunc(x)";
    "hardsigmoid" ONE, Float, NONE, "clamped(x + 3, (T)6) / 6";
    "hardswish" ONE, Float, NONE, "x * clamped(x + 3, (T)6) / 6";
    "mish" ONE, Float, NONE, "x * tanh(log1p(exp(x)))";
    "silu" ONE, Float, NONE, "x * sigmoid_of(x)";
    "elu" ONE, Float, &[("alpha", 1.0), ("scale", 1.0), ("input_scale", 1.0)],
        "x > 0 ? x * b : expm1(x * c) * (a * b)";
    "leaky_relu" ONE, Float, &[("negative_slope", 0.01)], "x > 0 ? x : x * a";
    "gelu" ONE, Float, NONE,
        ["none"] "(T)0.5 * x * (1 + erf(x * (T)0.70710678118654752440))",
        // 0.044715 is from Hendrycks and Gimpel; the host's kernel cites the source.
        ["tanh"] "(T)0.5 * x \
            * (1 + tanh((T)0.79788456080286535588 * (x + (T)0.044715 * x * x * x)))";
    "nan_to_num" ONE, Any, &[("nan", 0.0), ("posinf", 0.0), ("neginf", 0.0)],
        "isnan(x) ? a : isinf(x) ? (x > 0 ? b : c) : x", ["whole"] "x";
    "logical_and" TWO, Rounded, NONE, "x != 0 && y != 0";
    "logical_or" TWO, Rounded, NONE, "x != 0 || y != 0";
    "logical_not" ONE, Any, NONE, "x == 0";
    "bitwise_and" PAIR, Any, NONE, "x & y";
    "bitwise_or" PAIR, Any, NONE, "x | y";
    "bitwise_xor" PAIR, Any, NONE, "x ^ y";
    "bitwise_not" ONE, Any, NONE, "~x", ["truth"] "x == 0";
    "masked_fill" &["", "", "value"], Out, NONE, "y != 0 ? z : x";
    "clamp" ONE, Any, &[("min", 0.0), ("max", 0.0)], "lesser(greater(x, a), b)";
    "lerp" &["", "", "weight"], Of(0, 2), NONE,
        "fabs(z) < (T)0.5 ? x + z * (y - x) : y - (y - x) * (1 - z)";
    "addcmul" THREE, Any, &[("value", 1.0)], "plus(x, times(times(a, y), z))";
    "addcdiv" THREE, Any, &[("value", 1.0)], "x + a * y / z";
}

functions! {
    OUT_OF_PLACE;
    "maximum" TWO, Any, NONE, "greater(x, y)";
    "minimum" TWO, Any, NONE, "lesser(x, y)";
    "softplus" ONE, Float, &[("beta", 1.0), ("threshold", 20.0)],
        "x * a > b ? x : log1p(exp(x * a)) / a";
    "isnan" ONE, Float, NONE, "isnan(x)";
    "isinf" ONE, Float, NONE, "isinf(x)";
    "isposinf" ONE, Float, NONE, "isinf(x) && x > 0";
    "isneginf" ONE, Float, NONE, "isinf(x) && x < 0";
    "signbit" ONE, Float, NONE, "copysign((T)1, x) < 0";
    "log_sigmoid" ONE, Float, NONE, "(x < 0 ? x : (T)0) - log1p(exp(-fabs(x)))";
    "softshrink" ONE, Float, &[("lambd", 0.5)], "x > a ? x - a : x < -a ? x + a : x * 0";
    "hardshrink" ONE, Float, &[("lambd", 0.5)], "x >= -a && x <= a ? (T)0 : x";
    "log_sigmoid_backward" TWO, Float, NONE, "x * sigmoid_of(-y)";
    "hardsigmoid_backward" TWO, Float, NONE, "y > -3 && y < 3 ? x * (T)(1.0f / 6.0f) : (T)0";
    "hardswish_backward" TWO, Float, NONE, "y <= -3 ? (T)0 : y < 3 ? x * (y / 3 + (T)0.5) : x";
    "mish_backward" TWO, Float, NONE, "mish_slope(x, y, tanh(log1p(exp(y))))";
    "softshrink_backward" TWO, Float, &[("lambd", 0.5)], "y >= -a && y <= a ? (T)0 : x";
    "hardshrink_backward" TWO, Float, &[("lambd", 0.5)], "y >= -a && y <= a ? (T)0 : x";
    "logit_backward" TWO, Float, &[("eps", -1.0)], "logit_slope(x, y, a)";
    "threshold_backward" TWO, Any, &[("threshold", 0.0)], "y <= a ? (T)0 : x";
    "tanh_backward" TWO, Float, NONE, "x * (1 - y * y)";
    "sigmoid_backward" TWO, Float, NONE, "x * (1 - y) * y";
    "silu_backward" TWO, Float, NONE, "x * sigmoid_of(y) * (1 + y * (1 - sigmoid_of(y)))";
    "softplus_backward" TWO, Float, &[("beta", 1.0), ("threshold", 20.0)],
        "y * a > b ? x : x * sigmoid_of(y * a)";
    "gelu_backward" TWO, Float, NONE,
        ["none"] "x * ((T)0.5 * (1 + erf(y * (T)0.70710678118654752440)) \
            + y * (T)0.39894228040143267794 * exp((T)-0.5 * y * y))",
        ["tanh"] "gelu_slope(x, y, \
            tanh((T)0.79788456080286535588 * (y + (T)0.044715 * y * y * y)))";
    "elu_backward" TWO, Float, &[("alpha", 1.0), ("scale", 1.0), ("input_scale", 1.0)],
        ["of_input"] "y > 0 ? x * b : x * c * (a * b) * exp(y * c)",
        ["of_result"] "y > 0 ? x * b : x * c * (y + a * b)";
    "leaky_relu_backward" TWO, Float, &[("negative_slope", 0.01)], "y > 0 ? x : x * a";
    "eq" PAIR, Rounded, NONE, "x == y";
    "ne" PAIR, Rounded, NONE, "x != y";
    "lt" PAIR, Rounded, NONE, "x < y";
    "le" PAIR, Rounded, NONE, "x <= y";
    "gt" PAIR, Rounded, NONE, "x > y";
    "ge" PAIR, Rounded, NONE, "x >= y";
    "__lshift__" PAIR, Any, NONE, "shifted_up(x, y, width)";
    "__rshift__" PAIR, Any, NONE, "shifted_down(x, y)";
    "where" &["", "self", "other"], Of(1, 3), NONE, "x != 0 ? y : z";
    "native_dropout_backward" TWO, Out, &[("scale", 1.0)], "x * y * a";
    "full" &["value"], Out, NONE, "x";
    "arange" &[], Out, &[("start", 0.0), ("step", 1.0)], "plus(a, times((T)index, b))";
    "cast" ONE, Out, NONE, "x";
}
