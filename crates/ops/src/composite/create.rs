//! Composites that fill a new tensor by a rule.

use millstream_types::{Attrs, DType, Result};

use crate::def::arg;
use crate::schema::ArgDoc;

use super::{Calls, Composite, Given, Symbol, op, table, wrong};

table! {
    op("linspace", "numbers at equal distances", BOUNDS, LINSPACE, linspace).optional_from(0);
    op("logspace", "powers of a base with exponents at equal distances", BOUNDS, LOGSPACE,
        logspace).optional_from(0);
    op("eye", "a matrix with 1 on the diagonal, else 0", &[], EYE, eye);
    op("tril_indices", "the rows and columns of a lower triangle", &[], INDICES, |calls, given| {
        triangle(calls, given, "tril")
    });
    op("triu_indices", "the rows and columns of an upper triangle", &[], INDICES, |calls, given| {
        triangle(calls, given, "triu")
    });
    op("hann_window", "a window of one raised cosine", &[], WINDOW, |calls, given| {
        window(calls, given, |calls, x| cosines(calls, x, &[0.5, -0.5]))
    });
    op("hamming_window", "a window of one raised cosine that does not reach 0", &[], HAMMING,
        |calls, given| {
            let (alpha, beta) = (given.number("alpha", 0.54)?, given.number("beta", 0.46)?);
            window(calls, given, |calls, x| cosines(calls, x, &[alpha, -beta]))
        });
    op("blackman_window", "a window of two cosines", &[], WINDOW, |calls, given| {
        window(calls, given, |calls, x| cosines(calls, x, &[0.42, -0.5, 0.08]))
    });
    op("bartlett_window", "a window that rises and falls linearly", &[], WINDOW, |calls, given| {
        window(calls, given, |calls, x| {
            let rest = calls.by("sub", x, 2i64)?;
            let rest = calls.apply("neg", &[rest])?;
            calls.apply("minimum", &[x, rest])
        })
    });
    op("kaiser_window", "a window of a Bessel function", &[], KAISER, |calls, given| {
        let beta = given.number("beta", 12.0)?;
        window(calls, given, |calls, x| kaiser(calls, x, beta))
    });
}

const BOUNDS: &[ArgDoc] = &[arg("start", "no dimensions"), arg("end", "no dimensions")];
const START: ArgDoc = arg("start", "a number in place of the tensor").number().instead_of("start");
const END: ArgDoc = arg("end", "a number in place of the tensor").number().instead_of("end");
const STEPS: ArgDoc = arg("steps", "the number of elements").int().or("100");
const DTYPE: ArgDoc = arg("dtype", "the dtype of the result").dtype().or("f32");
const LINSPACE: &[ArgDoc] = &[START, END, STEPS, DTYPE];
const LOGSPACE: &[ArgDoc] =
    &[START, END, STEPS, arg("base", "the base of the powers").number().or("10"), DTYPE];
const EYE: &[ArgDoc] =
    &[arg("n", "the number of rows").int(), arg("m", "the number of columns").int().or("n"), DTYPE];
const INDICES: &[ArgDoc] = &[
    arg("row", "the number of rows").int(),
    arg("col", "the number of columns").int(),
    arg("offset", "the last or first diagonal of the triangle").int().or("0"),
    arg("dtype", "the dtype of the result").dtype().or("i64"),
];
const LENGTH: ArgDoc = arg("window_length", "the number of elements").int();
const PERIODIC: ArgDoc =
    arg("periodic", "whether the window has a period of its length").flag().or("true");
const WINDOW: &[ArgDoc] = &[LENGTH, PERIODIC, DTYPE];
const HAMMING: &[ArgDoc] = &[
    LENGTH,
    PERIODIC,
    arg("alpha", "the mean").number().or("0.54"),
    arg("beta", "the amplitude").number().or("0.46"),
    DTYPE,
];
const KAISER: &[ArgDoc] =
    &[LENGTH, PERIODIC, arg("beta", "the shape of the window").number().or("12"), DTYPE];

/// A bound of `linspace`: a number, or a tensor without dimensions.
#[derive(Clone, Copy)]
enum Bound {
    Number(f64),
    Tensor(Symbol),
}

/// Returns both bounds. A number takes the place of either tensor.
fn bounds(calls: &mut Calls<'_>, given: &Given<'_>, dtype: DType) -> Result<[Bound; 2]> {
    let mut tensors = given.tensors().iter().copied();
    let mut bound = |name: &str| {
        if given.has(name) {
            let number = given.number(name, 0.0)?;
            let is_narrow = dtype == DType::F32;
            return Ok(Bound::Number(if is_narrow { f64::from(number as f32) } else { number }));
        }
        let message = format!("{name}: expected a number or a tensor");
        let tensor = tensors.next().ok_or_else(|| wrong(message))?;
        Ok(Bound::Tensor(calls.cast(tensor, dtype)?))
    };
    Ok([bound("start")?, bound("end")?])
}

fn length(given: &Given<'_>, name: &str) -> Result<Option<i64>> {
    match given.int(name)? {
        Some(v) if v < 0 => Err(wrong(format!("{name}: expected 0 or more, got {v}"))),
        other => Ok(other),
    }
}

/// Returns the numbers of `linspace`. As in PyTorch, the first half counts from the start and the
/// second from the end, integers in f64.
fn linspace(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let dtype = given.dtype("dtype")?.unwrap_or(DType::F32);
    let made = spaced(calls, given, computed(dtype))?;
    calls.cast(made, dtype)
}

fn logspace(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let dtype = given.dtype("dtype")?.unwrap_or(DType::F32);
    let exponents = spaced(calls, given, computed(dtype))?;
    let base = calls.number(given.number("base", 10.0)?, computed(dtype))?;
    let made = calls.apply("pow", &[base, exponents])?;
    calls.cast(made, dtype)
}

fn eye(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let rows = length(given, "n")?.unwrap_or(0);
    let columns = length(given, "m")?.unwrap_or(rows);
    let dtype = given.dtype("dtype")?.unwrap_or(DType::F32);
    let zeros = calls.full(vec![rows, columns], 0i64, dtype)?;
    let diagonal = calls.apply("diagonal", &[zeros])?;
    calls.call("fill", &[diagonal], Attrs::new().with("value", 1i64))?;
    Ok(zeros)
}

/// Returns the indices of the elements that are not 0 in a triangle of ones.
fn triangle(calls: &mut Calls<'_>, given: &Given<'_>, op: &str) -> Result<Symbol> {
    let (rows, columns) = (length(given, "row")?.unwrap_or(0), length(given, "col")?.unwrap_or(0));
    let ones = calls.full(vec![rows, columns], true, DType::Bool)?;
    let offset = Attrs::new().with("diagonal", given.int("offset")?.unwrap_or(0));
    let triangle = calls.one(op, &[ones], offset)?;
    let at = calls.apply("nonzero", &[triangle])?;
    let at = calls.apply("t", &[at])?;
    let attrs = Attrs::new().with("memory_format", "contiguous");
    match given.dtype("dtype")?.unwrap_or(DType::I64) {
        DType::I64 => calls.one("clone", &[at], attrs),
        dtype => calls.one("cast", &[at], attrs.with("dtype", dtype)),
    }
}

/// Calls an op whose second operand is a bound.
fn with_bound(calls: &mut Calls<'_>, op: &str, x: Symbol, bound: Bound) -> Result<Symbol> {
    match bound {
        Bound::Number(v) => calls.one(op, &[x], Attrs::new().with("other", v)),
        Bound::Tensor(val) => calls.one(op, &[x, val], Attrs::new()),
    }
}

/// Returns the dtype in which numbers of a dtype are spaced.
fn computed(dtype: DType) -> DType {
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 => DType::F32,
        _ => DType::F64,
    }
}

/// Returns numbers at equal distances. Those of f32 are rounded once, as a fused product and sum.
fn spaced(calls: &mut Calls<'_>, given: &Given<'_>, dtype: DType) -> Result<Symbol> {
    let [start, end] = bounds(calls, given, dtype)?;
    let steps = length(given, "steps")?.unwrap_or(100);
    let step = match (start, end) {
        _ if steps < 2 => Bound::Number(0.0),
        (Bound::Number(start), Bound::Number(end)) if dtype == DType::F32 => {
            Bound::Number(f64::from((end as f32 - start as f32) / (steps - 1) as f32))
        }
        (Bound::Number(start), Bound::Number(end)) => {
            Bound::Number((end - start) / (steps - 1) as f64)
        }
        (start, end) => {
            let end = match end {
                Bound::Number(v) => calls.number(v, dtype)?,
                Bound::Tensor(val) => val,
            };
            let whole = with_bound(calls, "sub", end, start)?;
            Bound::Tensor(calls.by("div", whole, (steps - 1) as f64)?)
        }
    };
    let index = calls.range(steps, DType::F64)?;
    let up = with_bound(calls, "mul", index, step)?;
    let up = with_bound(calls, "add", up, start)?;
    let rest = calls.by("sub", index, (steps - 1) as f64)?;
    let down = with_bound(calls, "mul", rest, step)?;
    let down = with_bound(calls, "add", down, end)?;
    let first = calls.by("lt", index, (steps / 2).max(1) as f64)?;
    let made = calls.apply("where", &[first, up, down])?;
    calls.cast(made, dtype)
}

/// Returns a function of positions from 0 to 2 at equal distances, as many as the window has.
///
/// Source: `TensorFactories.cpp` of PyTorch.
fn window(
    calls: &mut Calls<'_>,
    given: &Given<'_>,
    function: impl FnOnce(&mut Calls<'_>, Symbol) -> Result<Symbol>,
) -> Result<Symbol> {
    let dtype = given.dtype("dtype")?.unwrap_or(DType::F32);
    if !dtype.is_float() {
        return Err(wrong(format!("dtype: expected floats, got {dtype}")));
    }
    let length = length(given, "window_length")?.unwrap_or(0);
    if length < 2 {
        return calls.full(vec![length], 1i64, dtype);
    }
    let periods = length - i64::from(!given.flag("periodic", true)?);
    let index = calls.range(length, computed(dtype))?;
    let x = calls.by("mul", index, 2.0 / periods as f64)?;
    let made = function(calls, x)?;
    calls.cast(made, dtype)
}

/// Returns a sum of cosines of 0, 1, … periods over the positions.
fn cosines(calls: &mut Calls<'_>, x: Symbol, amplitudes: &[f64]) -> Result<Symbol> {
    let dtype = calls.dtype(x);
    let mut sum = calls.number(amplitudes[0], dtype)?;
    for (periods, &amplitude) in amplitudes.iter().enumerate().skip(1) {
        let angle = calls.by("mul", x, std::f64::consts::PI * periods as f64)?;
        let part = calls.apply("cos", &[angle])?;
        let part = calls.by("mul", part, amplitude)?;
        sum = calls.apply("add", &[part, sum])?;
    }
    Ok(sum)
}

/// Returns `i0(beta √(1 - (x - 1)²)) / i0(beta)`.
fn kaiser(calls: &mut Calls<'_>, x: Symbol, beta: f64) -> Result<Symbol> {
    let centred = calls.by("sub", x, 1i64)?;
    let square = calls.apply("mul", &[centred, centred])?;
    let rest = calls.by("sub", square, 1i64)?;
    let rest = calls.apply("neg", &[rest])?;
    let rest = calls.one("clamp_min", &[rest], Attrs::new().with("min", 0i64))?;
    let root = calls.apply("sqrt", &[rest])?;
    let scaled = calls.by("mul", root, beta)?;
    let greatest = calls.number(beta, calls.dtype(x))?;
    let of = [calls.apply("i0", &[scaled])?, calls.apply("i0", &[greatest])?];
    calls.apply("div", &of)
}
