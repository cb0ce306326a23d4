//! Reductions: each result from the elements of some dimensions, joined in an order that the shape alone
//! decides. Long rows are cut into parts, whose results lie in the workspace.

use std::ffi::CString;
use std::sync::Arc;

use anyhow::{Result, ensure};

use millstream_ops::reduce::{SUM_PART, reduced};
use millstream_types::DType;

use super::rows::{self, Dim, Rows, Taking};
use super::source::{computed, element};
use super::{KIND, native};
use crate::context::{KernelCtx, RawTensor};
use crate::registry::{Kernel, KernelRegistry};

/// What an op makes of elements, in CUDA C.
struct Reduction {
    op: &'static str,
    /// The members of a partial result; of type `T` unless said.
    members: &'static str,
    /// Of nothing.
    nothing: &'static str,
    /// With an element `v` of a place `at`, to be put into `p`.
    take: &'static str,
    /// Of `a` and `b`.
    join: &'static str,
    /// The result of `p`, whose row has `length` elements.
    finish: &'static str,
    to: To,
}

/// What elements are converted to first, and computed in.
#[derive(Clone, Copy, PartialEq)]
enum To {
    /// The result's dtype, in what that is computed in.
    Out,
    /// Their own.
    Own,
    /// Truth values, counted.
    Truth,
    /// The result's dtype, in f64, in which no square of an f32 overflows.
    Double,
}

const SUM: [&str; 4] = ["T v;", "{0}", "p.v = plus(p.v, v)", "{plus(a.v, b.v)}"];
const COUNT: [&str; 4] = ["T v;", "{0}", "p.v += v", "{a.v + b.v}"];
/// Number, mean, and sum of squared differences, joined as the host's kernel says; one by one as B. P.
/// Welford, "Note on a method for calculating corrected sums of squares and products", Technometrics 4
/// (1962).
const SPREAD: [&str; 4] = [
    "T count, mean, squares;",
    "{0, 0, 0}",
    "T apart = v - p.mean; p.count += 1; p.mean += apart / p.count; p.squares += apart * (v - p.mean)",
    "a.count == 0 ? b : b.count == 0 ? a : P{a.count + b.count, \
     a.mean + (b.mean - a.mean) * b.count / (a.count + b.count), \
     a.squares + b.squares + (b.mean - a.mean) * (b.mean - a.mean) * a.count * b.count / (a.count + b.count)}",
];
const MOST: [&str; 4] =
    ["T v;", "{Ends<T>::least()}", "p.v = greater(p.v, v)", "{greater(a.v, b.v)}"];
const LEAST: [&str; 4] =
    ["T v;", "{Ends<T>::most()}", "p.v = lesser(p.v, v)", "{lesser(a.v, b.v)}"];
/// A greatest element with its place: the first of equal ones, and what is no number before all others.
const MOST_AT: [&str; 4] =
    ["T v; i64 at;", "{0, -1}", "p = first_of(p, P{v, at}, v > p.v)", "first_of(a, b, b.v > a.v)"];
const LEAST_AT: [&str; 4] =
    ["T v; i64 at;", "{0, -1}", "p = first_of(p, P{v, at}, v < p.v)", "first_of(a, b, b.v < a.v)"];

const fn row(
    op: &'static str,
    [members, nothing, take, join]: [&'static str; 4],
    finish: &'static str,
    to: To,
) -> Reduction {
    Reduction { op, members, nothing, take, join, finish, to }
}

/// The reductions; several of an op are told apart by what follows a point.
const REDUCTIONS: &[Reduction] = &[
    row("sum", SUM, "p.v", To::Out),
    row("mean", SUM, "p.v / length", To::Out),
    row("prod", ["T v;", "{1}", "p.v = times(p.v, v)", "{times(a.v, b.v)}"], "p.v", To::Out),
    row("any", COUNT, "(i64)(p.v > 0)", To::Truth),
    row("all", COUNT, "(i64)(p.v == length)", To::Truth),
    row("count_nonzero", COUNT, "p.v", To::Truth),
    row("var", SPREAD, "p.squares / greater(p.count - a, (T)0)", To::Double),
    row("std", SPREAD, "sqrt(p.squares / greater(p.count - a, (T)0))", To::Double),
    row("norm.2", ["T v;", "{0}", "p.v += v * v", "{a.v + b.v}"], "sqrt(p.v)", To::Double),
    row("norm.1", ["T v;", "{0}", "p.v += fabs(v)", "{a.v + b.v}"], "p.v", To::Double),
    row("norm.0", ["T v;", "{0}", "p.v += v != 0", "{a.v + b.v}"], "p.v", To::Double),
    row("norm.most", ["T v;", "{0}", "p.v = greater(fabs(v), p.v)", MOST[3]], "p.v", To::Double),
    row(
        "norm.least",
        ["T v;", LEAST[1], "p.v = lesser(fabs(v), p.v)", LEAST[3]],
        "p.v",
        To::Double,
    ),
    row(
        "norm.any",
        ["T v;", "{0}", "p.v += pow(fabs(v), a)", "{a.v + b.v}"],
        "pow(p.v, 1 / a)",
        To::Double,
    ),
    row(
        "logsumexp",
        [
            "T most, sum;",
            "{Ends<T>::least(), 0}",
            "p = joined(p, P{v, exp(v - finite(v))})",
            "joined(a, b)",
        ],
        "log(p.sum) + finite(p.most)",
        To::Double,
    ),
    row("amax", MOST, "p.v", To::Own),
    row("amin", LEAST, "p.v", To::Own),
    row("max.at", MOST_AT, "p.v", To::Own),
    row("min.at", LEAST_AT, "p.v", To::Own),
    row("argmax", MOST_AT, "p.at", To::Own),
    row("argmin", LEAST_AT, "p.at", To::Own),
];

/// What some of them call.
const HELPERS: &str = r"
__device__ inline T finite(T v) { return isinf(v) ? (T)0 : v; }
template <class Q> __device__ inline T part_of(Q p, T most) {
    return p.sum == 0 ? (T)0 : p.sum * exp(finite(p.most) - finite(most));
}
template <class Q> __device__ inline Q joined(Q a, Q b) {
    T most = greater(a.most, b.most);
    return {most, part_of(a, most) + part_of(b, most)};
}
";
const FIRST_OF: &str = r"
// b is farther along or not: of what is equal, the lesser place counts.
template <class Q> __device__ inline Q first_of(Q a, Q b, bool more) {
    if (a.at < 0 || b.at < 0) return b.at < 0 ? a : b;
    bool none = unordered(a.v), other = unordered(b.v);
    if (none != other) return other ? b : a;
    if (none || a.v == b.v) return b.at < a.at ? b : a;
    return more ? b : a;
}
";

impl Reduction {
    /// The dtype that elements are converted to first, and the one that they are computed in.
    fn dtypes(&self, x: DType, out: DType) -> (DType, DType) {
        match self.to {
            To::Out => (out, computed(out)),
            To::Own => (x, computed(x)),
            To::Truth => (DType::Bool, DType::I64),
            To::Double => (out, DType::F64),
        }
    }

    fn name(&self, x: DType, out: DType, taking: Taking) -> String {
        let op = self.op.replace('.', "_");
        taking.name(&format!("ms_{op}__{}_to_{}", x.name(), out.name()))
    }

    fn source(&self, x: DType, out: DType, taking: Taking) -> Result<CString> {
        let (to, computed) = self.dtypes(x, out);
        let via = if to == x { computed } else { to };
        let Reduction { members, nothing, take, join, finish, .. } = self;
        let helpers = match self.op {
            "logsumexp" => HELPERS,
            _ if members.contains("i64") => FIRST_OF,
            _ => "",
        };
        let places = if self.op.ends_with(".at") {
            "store((i64*)call.operand[2].data + at[2], p.at);"
        } else {
            ""
        };
        let own = format!(
            "typedef E0 E;\ntypedef {via} Via;\nstruct P {{ {members} }};\n{helpers}\
             __device__ inline P nothing() {{ return {nothing}; }}\n\
             __device__ inline P join(P a, P b) {{ return {join}; }}\n\
             __device__ inline void take(P& p, T v, i64 at, T a) {{ (void)a; (void)at; {take}; }}\n\
             __device__ inline void finish(const Rows<4>& call, const u64 (&at)[4], P p) {{\n\
             T length = (T)call.length, a = (T)call.numbers[0]; (void)length; (void)a;\n\
             store((E1*)call.operand[1].data + at[1], {finish}); {places}\n}}\n",
            via = element(via),
        );
        let (name, body) = (self.name(x, out, taking), include_str!("reduce.cu"));
        rows::source(&name, computed, &[x, out], taking, &[&own, body].concat())
    }
}

/// An op's kernel.
struct Op(&'static str);

impl Kernel for Op {
    fn run(&self, ctx: &KernelCtx<'_>) -> Result<()> {
        let ord = ctx.attrs().float("ord")?.unwrap_or(2.0);
        let (name, number) = match self.0 {
            "linalg_vector_norm" if ord == 2.0 => ("norm.2", ord),
            "linalg_vector_norm" if ord == 1.0 => ("norm.1", ord),
            "linalg_vector_norm" if ord == 0.0 => ("norm.0", ord),
            "linalg_vector_norm" if ord == f64::INFINITY => ("norm.most", ord),
            "linalg_vector_norm" if ord == f64::NEG_INFINITY => ("norm.least", ord),
            "linalg_vector_norm" => ("norm.any", ord),
            "max" if ctx.operands() == 2 => ("amax", 0.0),
            "min" if ctx.operands() == 2 => ("amin", 0.0),
            "max" => ("max.at", 0.0),
            "min" => ("min.at", 0.0),
            "var" | "std" => (self.0, ctx.attrs().float("correction")?.unwrap_or(1.0)),
            other => (other, 0.0),
        };
        let found = REDUCTIONS.iter().find(|reduction| reduction.op == name);
        let reduction = found.ok_or_else(|| super::Unsupported::of(name))?;
        let (x, out) = (ctx.operand(0)?, ctx.operand(1)?);
        let places = if ctx.operands() > 2 { Some(ctx.operand(2)?) } else { None };
        run(ctx, reduction, &x, &out, places.as_ref(), number)
    }
}

fn run(
    ctx: &KernelCtx<'_>,
    reduction: &Reduction,
    x: &RawTensor<'_>,
    out: &RawTensor<'_>,
    places: Option<&RawTensor<'_>>,
    number: f64,
) -> Result<()> {
    let along = reduced(ctx.attrs(), x.shape.len())?;
    let keeps = out.shape.len() == x.shape.len();
    let mut next = 0;
    let dims: Vec<Dim<4>> = (0..x.shape.len())
        .map(|k| {
            let kept = !along.contains(&k);
            let of = |tensor: &RawTensor<'_>| {
                let at = if keeps { k } else { next };
                tensor.strides.get(at).copied().filter(|_| kept).unwrap_or(0)
            };
            let strides = [x.strides[k], of(out), places.map_or(0, of), 0];
            next += usize::from(kept);
            Dim { length: x.shape[k], kept, strides }
        })
        .collect();
    // Partial results are words, of which the schema has counted enough.
    let parts = x.numel().checked_div(out.numel()).unwrap_or(0).div_ceil(SUM_PART).max(1);
    let (at, bytes) = ctx.workspace();
    let skipped = at.addr().wrapping_neg() % 8;
    let shape = [bytes.saturating_sub(skipped) / 8];
    let words = RawTensor {
        data: at.wrapping_add(skipped),
        dtype: DType::I64,
        shape: &shape,
        strides: &[1],
    };
    let mut rows = Rows::new(&dims, [Some(x), Some(out), places, (parts > 1).then_some(&words)])?;
    ensure!(rows.rows == out.numel() as u64, "{x:?} to {out:?}: schema and kernel disagree");
    rows.numbers[0] = number;
    (rows.part, rows.parts) = (SUM_PART as u64, parts as u64);
    let taking = rows.taking(false);
    let (native, name) = (native(ctx)?, reduction.name(x.dtype, out.dtype, taking));
    let source = || reduction.source(x.dtype, out.dtype, taking);
    // SAFETY: the kernel touches the elements of the operands and the workspace alone, for which the
    // context's maker answers; the second one is ordered after the first by the stream.
    unsafe {
        rows.launch(native, (&name, &name), source)?;
        if parts > 1 {
            rows.whole_blocks().launch(native, (&name, &format!("{name}_join")), source)?;
        }
    }
    Ok(())
}

/// Adds the kernels.
pub(super) fn register(kernels: &mut KernelRegistry) {
    let plain = REDUCTIONS.iter().map(|reduction| reduction.op).filter(|op| !op.contains('.'));
    for op in plain.chain(["linalg_vector_norm", "max", "min"]) {
        kernels.register(KIND, op, Arc::new(Op(op)));
    }
}

/// Each reduction in a dtype, by turns, and some that take several elements at once.
pub(super) fn sources() -> Vec<(String, CString)> {
    let of = |op: &str, x: DType, at_once: u32| {
        let reduction = REDUCTIONS.iter().find(|reduction| reduction.op == op)?;
        let out = match op {
            "any" | "all" => DType::Bool,
            "count_nonzero" | "argmax" | "argmin" => DType::I64,
            "sum" if !x.is_float() => DType::I64,
            _ => x,
        };
        let taking = Taking { at_once, ..Taking::SINGLY };
        let source = reduction.source(x, out, taking).ok()?;
        Some((reduction.name(x, out, taking), source))
    };
    let floats = [DType::F32, DType::BF16, DType::F64, DType::F16];
    let all = REDUCTIONS.iter().zip(floats.into_iter().cycle()).map(|(r, x)| (r.op, x, 1));
    let more = [
        ("sum", DType::I32, 1),
        ("amax", DType::I32, 1),
        ("sum", DType::F32, 4),
        ("amax", DType::F16, 8),
        ("argmin", DType::F64, 2),
        ("any", DType::U8, 16),
    ];
    all.chain(more).filter_map(|(op, x, at_once)| of(op, x, at_once)).collect()
}
