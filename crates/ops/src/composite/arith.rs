//! Composite ops of elementwise arithmetic. 16-bit floats are computed in f32.

use millstream_types::{Attrs, Result};

use crate::def::arg;
use crate::schema::ArgDoc;

use super::{Calls, Composite, Given, Symbol, op, table};

const XY: &[ArgDoc] = &[arg("x", "any shape"), arg("y", "a shape that broadcasts with x")];

table! {
    op(
        "copysign",
        "the magnitude of x with the sign of y",
        XY,
        COPYSIGN,
        |calls, given| match given.optional("y") {
            Some(y) => in_pair(calls, [given.tensor("x")?, y], copysign),
            None => copysign_of_number(calls, given),
        },
    )
    .optional_from(1);
    op(
        "hypot",
        "the root of x² + y², without an overflow of the squares",
        XY,
        &[],
        |calls, given| pair(calls, given, hypot),
    );
    op("ldexp", "x * 2^y", XY, &[], |calls, given| {
        pair(calls, given, |calls, x, y| {
            let power = calls.apply("exp2", &[y])?;
            calls.apply("mul", &[x, power])
        })
    });
    op("xlogy", "x * log(y); 0 where x is 0 and y is a number", XY, &[], |calls, given| {
        pair(calls, given, |calls, x, y| xlog(calls, x, y, "log"))
    });
    op("special_xlog1py", "x * log(1 + y); 0 where x is 0", XY, &[], |calls, given| {
        pair(calls, given, |calls, x, y| xlog(calls, x, y, "log1p"))
    });
    op("logaddexp", "log(exp(x) + exp(y)), without an overflow", XY, &[], |calls, given| {
        pair(calls, given, |calls, x, y| match calls.dtype(x).is_complex() {
            true => log_of_complex_sum(calls, x, y),
            false => log_of_sum(calls, x, y, ["exp", "log1p"]),
        })
    });
    op("logaddexp2", "log2(2^x + 2^y), without an overflow", XY, &[], |calls, given| {
        pair(calls, given, |calls, x, y| log_of_sum(calls, x, y, ["exp2", "log2"]))
    });
    op(
        "heaviside",
        "0 where x is negative, 1 where it is positive, else the value",
        HEAVISIDE,
        &[],
        |calls, given| {
            let (x, at_zero) = (given.tensor("x")?, given.tensor("values")?);
            let zero = calls.by("eq", x, 0.0)?;
            let above = calls.by("gt", x, 0.0)?;
            let dtype = calls.dtype(x);
            let step = calls.one("cast", &[above], Attrs::new().with("dtype", dtype))?;
            calls.apply("where", &[zero, at_zero, step])
        },
    );
    op(
        "fmax",
        "the greater of x and y; the other one where one is NaN",
        XY,
        &[],
        |calls, given| extremum_of_numbers(calls, given, "maximum"),
    );
    op("fmin", "the lesser of x and y; the other one where one is NaN", XY, &[], |calls, given| {
        extremum_of_numbers(calls, given, "minimum")
    });
}

const COPYSIGN: &[ArgDoc] = &[arg("other", "a number in place of y").number().instead_of("y")];
const HEAVISIDE: &[ArgDoc] = &[
    arg("x", "any shape"),
    arg("values", "the values where x is 0; a shape that broadcasts with x"),
];

/// Computes a function of both operands in their common float type.
fn pair(
    calls: &mut Calls<'_>,
    given: &Given<'_>,
    f: fn(&mut Calls<'_>, Symbol, Symbol) -> Result<Symbol>,
) -> Result<Symbol> {
    in_pair(calls, [given.tensor("x")?, given.tensor("y")?], f)
}

fn in_pair(
    calls: &mut Calls<'_>,
    operands: [Symbol; 2],
    f: fn(&mut Calls<'_>, Symbol, Symbol) -> Result<Symbol>,
) -> Result<Symbol> {
    calls.in_floats(&operands, |calls, given| f(calls, given[0], given[1]))
}

/// The magnitude of x with the sign of y.
fn copysign(calls: &mut Calls<'_>, x: Symbol, y: Symbol) -> Result<Symbol> {
    let negative = calls.apply("signbit", &[y])?;
    let size = calls.apply("abs", &[x])?;
    let below = calls.apply("neg", &[size])?;
    calls.apply("where", &[negative, below, size])
}

/// As [`copysign`], of a number.
fn copysign_of_number(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let x = given.tensor("x")?;
    let is_negative = given.number("other", 0.0)?.is_sign_negative();
    calls.in_floats(&[x], |calls, given| {
        let size = calls.apply("abs", given)?;
        if is_negative { calls.apply("neg", &[size]) } else { Ok(size) }
    })
}

/// The root of x² + y², without an overflow of the squares.
fn hypot(calls: &mut Calls<'_>, x: Symbol, y: Symbol) -> Result<Symbol> {
    let (x, y) = (calls.apply("abs", &[x])?, calls.apply("abs", &[y])?);
    let (most, least) = (calls.apply("maximum", &[x, y])?, calls.apply("minimum", &[x, y])?);
    let share = calls.apply("div", &[least, most])?;
    let square = calls.apply("mul", &[share, share])?;
    let sum = calls.by("add", square, 1.0)?;
    let root = calls.apply("sqrt", &[sum])?;
    let scaled = calls.apply("mul", &[root, most])?;
    let zero = calls.by("eq", most, 0.0)?;
    let finite = calls.apply("where", &[zero, most, scaled])?;
    let infinite = [calls.apply("isinf", &[x])?, calls.apply("isinf", &[y])?];
    let infinite = calls.apply("logical_or", &infinite)?;
    calls.filled(finite, infinite, f64::INFINITY)
}

/// x times a logarithm of y; 0 where x is 0 and y a number.
fn xlog(calls: &mut Calls<'_>, x: Symbol, y: Symbol, logarithm: &str) -> Result<Symbol> {
    let log = calls.apply(logarithm, &[y])?;
    let product = calls.apply("mul", &[x, log])?;
    let zero = calls.by("eq", x, 0.0)?;
    let product = calls.filled(product, zero, 0.0)?;
    let none = calls.apply("isnan", &[y])?;
    calls.filled(product, none, f64::NAN)
}

/// The logarithm of the sum of two powers.
fn log_of_sum(
    calls: &mut Calls<'_>,
    x: Symbol,
    y: Symbol,
    [power, logarithm]: [&str; 2],
) -> Result<Symbol> {
    let most = calls.apply("maximum", &[x, y])?;
    let between = calls.apply("sub", &[x, y])?;
    let between = calls.apply("abs", &[between])?;
    let between = calls.apply("neg", &[between])?;
    let mut rest = calls.apply(power, &[between])?;
    if logarithm == "log2" {
        // log2(1 + rest), exact for a small rest.
        rest = calls.apply("log1p", &[rest])?;
        rest = calls.by("mul", rest, std::f64::consts::LOG2_E)?;
    } else {
        rest = calls.apply(logarithm, &[rest])?;
    }
    let sum = calls.apply("add", &[most, rest])?;
    // Equal infinities have no difference.
    let same = calls.apply("eq", &[x, y])?;
    let infinite = calls.apply("isinf", &[x])?;
    let both = calls.apply("logical_and", &[same, infinite])?;
    calls.apply("where", &[both, x, sum])
}

/// Returns the extremum, or the operand that is a number.
fn extremum_of_numbers(calls: &mut Calls<'_>, given: &Given<'_>, op: &str) -> Result<Symbol> {
    let (x, y) = (given.tensor("x")?, given.tensor("y")?);
    let extremum = calls.one(op, &[x, y], Attrs::new())?;
    let no_x = calls.one("isnan", &[x], Attrs::new())?;
    let no_y = calls.one("isnan", &[y], Attrs::new())?;
    let without_y = calls.one("where", &[no_y, x, extremum], Attrs::new())?;
    calls.one("where", &[no_x, y, without_y], Attrs::new())
}

/// The logarithm of the sum of the exponentials of two complex numbers. The greater real part is
/// subtracted before. As in PyTorch, one of two numbers with the real part -inf is the result.
fn log_of_complex_sum(calls: &mut Calls<'_>, x: Symbol, y: Symbol) -> Result<Symbol> {
    let ([of_x, _], [of_y, _]) = (calls.parts(x)?, calls.parts(y)?);
    let less = calls.apply("lt", &[of_x, of_y])?;
    let (least, most) =
        (calls.apply("where", &[less, x, y])?, calls.apply("where", &[less, y, x])?);
    let between = calls.apply("sub", &[least, most])?;
    let power = calls.apply("exp", &[between])?;
    let rest = calls.apply("log1p", &[power])?;
    let sum = calls.apply("add", &[rest, most])?;
    // Equal infinities have no difference.
    let powers = [calls.apply("exp", &[least])?, calls.apply("exp", &[most])?];
    let infinite = calls.apply("add", &powers)?;
    let infinite = calls.apply("log", &[infinite])?;
    let [of_least, of_most] = [calls.parts(least)?[0], calls.parts(most)?[0]];
    let mut made = sum;
    for (infinity, limit) in [(f64::INFINITY, infinite), (f64::NEG_INFINITY, least)] {
        let both = [calls.by("eq", of_least, infinity)?, calls.by("eq", of_most, infinity)?];
        let both = calls.apply("logical_and", &both)?;
        made = calls.apply("where", &[both, limit, made])?;
    }
    let part = calls.dtype(of_x);
    let none = calls.number(f64::NAN, part)?;
    let none = calls.apply("complex", &[none, none])?;
    let nan = [calls.apply("isnan", &[x])?, calls.apply("isnan", &[y])?];
    let nan = calls.apply("logical_or", &nan)?;
    let dtype = calls.dtype(x);
    let none = calls.cast(none, dtype)?;
    calls.apply("where", &[nan, none, made])
}
