//! Composite ops of elementwise arithmetic. 16-bit floats are computed in f32.

use millstream_types::{Attrs, Result};

use crate::def::arg;
use crate::schema::ArgDoc;

use super::{Args, Composite, op, table};
use crate::formula::{Expr, in_floats};

const XY: &[ArgDoc] = &[arg("x", "any shape"), arg("y", "a shape that broadcasts with x")];

table! {
    op("copysign", "the magnitude of x with the sign of y", XY, COPYSIGN,
        |args| match args.optional("y") {
            Some(_) => pair(args, copysign),
            None => copysign_of_number(args),
        })
        .optional_from(1);
    op("hypot", "the root of x² + y², without an overflow of the squares", XY, &[],
        |args| pair(args, hypot));
    op("ldexp", "x * 2^y", XY, &[], |args| pair(args, |[x, y]| x * y.exp2()));
    op("xlogy", "x * log(y); 0 where x is 0 and y is a number", XY, &[],
        |args| pair(args, |[x, y]| xlog([x, y, y.log()])));
    op("special_xlog1py", "x * log(1 + y); 0 where x is 0", XY, &[],
        |args| pair(args, |[x, y]| xlog([x, y, y.log1p()])));
    op("logaddexp", "log(exp(x) + exp(y)), without an overflow", XY, &[],
        |args| pair(args, |[x, y]| match x.dtype().is_complex() {
            true => log_of_complex_sum([x, y]),
            false => log_of_sum([x, y], |rest| rest.exp().log1p()),
        }));
    // log2(1 + rest), exact for a small rest.
    op("logaddexp2", "log2(2^x + 2^y), without an overflow", XY, &[],
        |args| pair(args, |operands| {
            log_of_sum(operands, |rest| rest.exp2().log1p() * std::f64::consts::LOG2_E)
        }));
    op("heaviside", "0 where x is negative, 1 where it is positive, else the value",
        HEAVISIDE, &[], |args| {
        let [x, at_zero] = args.tensors(["x", "values"]);
        let zero = x.eq(0.0);
        Ok(zero.choose(at_zero, x.gt(0.0).op("cast", Attrs::new().with("dtype", x.dtype()))))
    });
    op("fmax", "the greater of x and y; the other one where one is NaN", XY, &[],
        |args| number_of(args, "maximum"));
    op("fmin", "the lesser of x and y; the other one where one is NaN", XY, &[],
        |args| number_of(args, "minimum"));
}

const COPYSIGN: &[ArgDoc] = &[arg("other", "a number in place of y").number().instead_of("y")];
const HEAVISIDE: &[ArgDoc] = &[
    arg("x", "any shape"),
    arg("values", "the values where x is 0; a shape that broadcasts with x"),
];

/// Computes a function of both operands in their common float type.
fn pair<'a>(args: Args<'a>, f: fn([Expr<'a>; 2]) -> Expr<'a>) -> Result<Expr<'a>> {
    in_floats(args.tensors(["x", "y"]), f)
}

fn copysign([x, y]: [Expr<'_>; 2]) -> Expr<'_> {
    let (negative, size) = (y.signbit(), x.abs());
    negative.choose(-size, size)
}

fn copysign_of_number(args: Args<'_>) -> Result<Expr<'_>> {
    let is_negative = args.number("other", 0.0)?.is_sign_negative();
    in_floats(args.tensors(["x"]), |[x]| if is_negative { -x.abs() } else { x.abs() })
}

fn hypot([x, y]: [Expr<'_>; 2]) -> Expr<'_> {
    let (x, y) = (x.abs(), y.abs());
    let (most, least) = (x.maximum(y), x.minimum(y));
    let share = least / most;
    let scaled = (share * share + 1.0).sqrt() * most;
    let finite = most.eq(0.0).choose(most, scaled);
    finite.filled(x.isinf().logical_or(y.isinf()), f64::INFINITY)
}

/// x times a logarithm of y; 0 where x is 0 and y a number.
fn xlog([x, y, log]: [Expr<'_>; 3]) -> Expr<'_> {
    let product = x * log;
    product.filled(x.eq(0.0), 0.0).filled(y.isnan(), f64::NAN)
}

/// The logarithm of the sum of two powers, of which `rest` adds the lesser one to 1.
fn log_of_sum<'a>([x, y]: [Expr<'a>; 2], rest: fn(Expr<'a>) -> Expr<'a>) -> Expr<'a> {
    let most = x.maximum(y);
    let sum = most + rest(-(x - y).abs());
    // Equal infinities have no difference.
    x.eq(y).logical_and(x.isinf()).choose(x, sum)
}

/// Returns the extremum, or the operand that is a number.
fn number_of<'a>(args: Args<'a>, op: &str) -> Result<Expr<'a>> {
    let [x, y] = args.tensors(["x", "y"]);
    let extremum = x.apply(op, [y]);
    let (no_x, no_y) = (x.isnan(), y.isnan());
    Ok(no_x.choose(y, no_y.choose(x, extremum)))
}

/// The logarithm of the sum of the exponentials of two complex numbers. The greater real part is
/// subtracted before. As in PyTorch, one of two numbers with the real part -inf is the result.
fn log_of_complex_sum([x, y]: [Expr<'_>; 2]) -> Expr<'_> {
    let ([of_x, _], [of_y, _]) = (x.parts(), y.parts());
    let less = of_x.lt(of_y);
    let (least, most) = (less.choose(x, y), less.choose(y, x));
    let sum = (least - most).exp().log1p() + most;
    // Equal infinities have no difference.
    let infinite = (least.exp() + most.exp()).log();
    let [of_least, of_most] = [least.parts()[0], most.parts()[0]];
    let mut made = sum;
    for (infinity, limit) in [(f64::INFINITY, infinite), (f64::NEG_INFINITY, least)] {
        made = of_least.eq(infinity).logical_and(of_most.eq(infinity)).choose(limit, made);
    }
    let none = x.calls.number(f64::NAN, of_x.dtype());
    let none = none.apply("complex", [none]);
    let nan = x.isnan().logical_or(y.isnan());
    nan.choose(none.cast(x.dtype()), made)
}
