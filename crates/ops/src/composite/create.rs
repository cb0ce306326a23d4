//! Composites that fill a new tensor by a rule.

use millstream_types::{Attrs, DType, Result};

use crate::def::arg;
use crate::schema::ArgDoc;

use super::{Args, Composite, op, table};
use crate::formula::{Calls, Expr, Second, wrong};

table! {
    op("linspace", "numbers at equal distances", BOUNDS, LINSPACE, |args| {
        let dtype = dtype(args)?;
        Ok(spaced(args, computed(dtype))?.cast(dtype))
    }).optional_from(0);
    op("logspace", "powers of a base with exponents at equal distances", BOUNDS, LOGSPACE,
        logspace).optional_from(0);
    op("eye", "a matrix with 1 on the diagonal, else 0", &[], EYE, |args| {
        let rows = length(args, "n")?.unwrap_or(0);
        Ok(identity(args.calls, [rows, length(args, "m")?.unwrap_or(rows)], dtype(args)?))
    });
    op("tril_indices", "the rows and columns of a lower triangle", &[], INDICES,
        |args| triangle(args, "tril"));
    op("triu_indices", "the rows and columns of an upper triangle", &[], INDICES,
        |args| triangle(args, "triu"));
    op("hann_window", "a window of one raised cosine", &[], WINDOW,
        |args| window(args, |x| cosines(x, &[0.5, -0.5])));
    op("hamming_window", "a window of one raised cosine that does not reach 0", &[], HAMMING,
        |args| {
            let (alpha, beta) = (args.number("alpha", 0.54)?, args.number("beta", 0.46)?);
            window(args, |x| cosines(x, &[alpha, -beta]))
        });
    op("blackman_window", "a window of two cosines", &[], WINDOW,
        |args| window(args, |x| cosines(x, &[0.42, -0.5, 0.08])));
    op("bartlett_window", "a window that rises and falls linearly", &[], WINDOW,
        |args| window(args, |x| x.minimum(-(x - 2))));
    op("kaiser_window", "a window of a Bessel function", &[], KAISER, |args| {
        let beta = args.number("beta", 12.0)?;
        window(args, |x| kaiser(x, beta))
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
enum Bound<'a> {
    Number(f64),
    Tensor(Expr<'a>),
}

impl<'a> From<Bound<'a>> for Second<'a> {
    fn from(bound: Bound<'a>) -> Second<'a> {
        match bound {
            Bound::Number(number) => number.into(),
            Bound::Tensor(x) => x.into(),
        }
    }
}

/// Returns both bounds. A number takes the place of either tensor.
fn bounds(args: Args<'_>, dtype: DType) -> Result<[Bound<'_>; 2]> {
    let mut tensors = args.all().into_iter();
    let mut bound = |name: &str| {
        if args.has(name) {
            let number = args.number(name, 0.0)?;
            let is_narrow = dtype == DType::F32;
            return Ok(Bound::Number(if is_narrow { f64::from(number as f32) } else { number }));
        }
        let missing = || wrong(format!("{name}: expected a number or a tensor"));
        Ok(Bound::Tensor(tensors.next().ok_or_else(missing)?.cast(dtype)))
    };
    Ok([bound("start")?, bound("end")?])
}

fn length(args: Args<'_>, name: &str) -> Result<Option<i64>> {
    match args.int(name)? {
        Some(v) if v < 0 => Err(wrong(format!("{name}: expected 0 or more, got {v}"))),
        other => Ok(other),
    }
}

fn dtype(args: Args<'_>) -> Result<DType> {
    Ok(args.dtype("dtype")?.unwrap_or(DType::F32))
}

fn logspace(args: Args<'_>) -> Result<Expr<'_>> {
    let dtype = dtype(args)?;
    let exponents = spaced(args, computed(dtype))?;
    let base = args.calls.number(args.number("base", 10.0)?, computed(dtype));
    Ok(base.pow(exponents).cast(dtype))
}

/// Returns a matrix with 1 on the diagonal, else 0.
pub(super) fn identity(calls: Calls<'_>, shape: [i64; 2], dtype: DType) -> Expr<'_> {
    let matrix = calls.full(shape.to_vec(), 0, dtype);
    matrix.op("diagonal", Attrs::new()).op("fill", Attrs::new().with("value", 1));
    matrix
}

/// Returns the indices of the elements that are not 0 in a triangle of ones.
fn triangle<'a>(args: Args<'a>, op: &str) -> Result<Expr<'a>> {
    let (rows, columns) = (length(args, "row")?.unwrap_or(0), length(args, "col")?.unwrap_or(0));
    let ones = args.calls.full(vec![rows, columns], true, DType::Bool);
    let triangle = ones.op(op, Attrs::new().with("diagonal", args.int("offset")?.unwrap_or(0)));
    let at = triangle.op("nonzero", Attrs::new()).op("t", Attrs::new());
    Ok(match args.dtype("dtype")?.unwrap_or(DType::I64) {
        DType::I64 => at.contiguous(),
        dtype => {
            let attrs = Attrs::new().with("dtype", dtype).with("memory_format", "contiguous");
            at.op("cast", attrs)
        }
    })
}

/// Returns the dtype in which numbers of a dtype are spaced: integers in f64, as in PyTorch.
fn computed(dtype: DType) -> DType {
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 => DType::F32,
        _ => DType::F64,
    }
}

/// Returns numbers at equal distances. As in PyTorch, the first half counts from the start and the
/// second from the end. Numbers of f32 are rounded once, as a fused product and sum.
fn spaced(args: Args<'_>, dtype: DType) -> Result<Expr<'_>> {
    let [start, end] = bounds(args, dtype)?;
    let steps = length(args, "steps")?.unwrap_or(100);
    let last = (steps - 1) as f64;
    let step = match (start, end) {
        _ if steps < 2 => Bound::Number(0.0),
        (Bound::Number(start), Bound::Number(end)) if dtype == DType::F32 => {
            Bound::Number(f64::from((end as f32 - start as f32) / (steps - 1) as f32))
        }
        (Bound::Number(start), Bound::Number(end)) => Bound::Number((end - start) / last),
        (start, Bound::Number(end)) => {
            Bound::Tensor((args.calls.number(end, dtype) - start) / last)
        }
        (start, Bound::Tensor(end)) => Bound::Tensor((end - start) / last),
    };
    let index = args.calls.range(steps, DType::F64);
    let up = index * step + start;
    let down = (index - last) * step + end;
    Ok(index.lt((steps / 2).max(1) as f64).choose(up, down).cast(dtype))
}

/// Returns a function of positions from 0 to 2 at equal distances, as many as the window has.
///
/// Source: `TensorFactories.cpp` of PyTorch.
fn window<'a>(args: Args<'a>, function: impl FnOnce(Expr<'a>) -> Expr<'a>) -> Result<Expr<'a>> {
    let dtype = dtype(args)?;
    if !dtype.is_float() {
        return Err(wrong(format!("dtype: expected floats, got {dtype}")));
    }
    let length = length(args, "window_length")?.unwrap_or(0);
    if length < 2 {
        return Ok(args.calls.full(vec![length], 1, dtype));
    }
    let periods = length - i64::from(!args.flag("periodic", true)?);
    let index = args.calls.range(length, computed(dtype));
    Ok(function(index * (2.0 / periods as f64)).cast(dtype))
}

/// Returns a sum of cosines of 0, 1, … periods over the positions.
fn cosines<'a>(x: Expr<'a>, amplitudes: &[f64]) -> Expr<'a> {
    let mut sum = x.calls.number(amplitudes[0], x.dtype());
    for (periods, &amplitude) in amplitudes.iter().enumerate().skip(1) {
        let angle = x * (std::f64::consts::PI * periods as f64);
        sum = angle.op("cos", Attrs::new()) * amplitude + sum;
    }
    sum
}

/// Returns `i0(beta √(1 - (x - 1)²)) / i0(beta)`.
fn kaiser(x: Expr<'_>, beta: f64) -> Expr<'_> {
    let centred = x - 1;
    let scaled = (-(centred * centred - 1)).clamp_min(0).sqrt() * beta;
    let greatest = x.calls.number(beta, x.dtype());
    scaled.i0() / greatest.i0()
}
