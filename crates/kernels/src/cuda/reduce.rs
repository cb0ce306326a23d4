//! Reductions. Each result combines the elements of some dimensions, in an order that depends on
//! the shape alone. Long rows are split into parts, whose results are stored in the workspace.

use std::ffi::CString;
use std::sync::Arc;

use anyhow::{Result, ensure};

use millstream_ops::reduce::{SUM_PART, reduced};
use millstream_types::DType;

use super::row_reduction::{self, RowAccess, RowArgs, RowDim};
use super::source::{computed, element};
use super::{KIND, native};
use crate::context::{KernelCtx, RawTensor};
use crate::registry::{Kernel, KernelRegistry};

/// A reduction in CUDA C.
struct Reduction {
    /// The op; variants of one op have a suffix after a dot.
    op: &'static str,
    /// The members of a partial result.
    members: &'static str,
    /// The partial result of no elements.
    identity: &'static str,
    /// Adds the element `v` with index `at` to the partial result `p`.
    accumulate: &'static str,
    /// Combines the partial results `a` and `b`.
    combine: &'static str,
    /// Computes the result from `p`, for a row of `length` elements.
    finish: &'static str,
    compute: Compute,
}

/// The dtype that elements are converted to, and the type that they are computed in.
#[derive(Clone, Copy, PartialEq)]
enum Compute {
    /// Convert to the result's dtype and compute in its type.
    Out,
    /// Keep the dtype of the elements and compute in its type.
    Own,
    /// Convert to truth values and count them.
    Truth,
    /// Convert to the result's dtype and compute in f64, where no square of an f32 overflows.
    Double,
}

const SUM: [&str; 4] = ["T v;", "{0}", "p.v = plus(p.v, v)", "{plus(a.v, b.v)}"];
const COUNT: [&str; 4] = ["T v;", "{0}", "p.v += v", "{a.v + b.v}"];
/// Count, mean, and sum of squared differences. Adding an element follows B. P. Welford, "Note on a
/// method for calculating corrected sums of squares and products", Technometrics 4 (1962). The
/// host's kernel cites the source of the combination.
const WELFORD: [&str; 4] = [
    "T count, mean, squares;",
    "{0, 0, 0}",
    "T difference = v - p.mean; p.count += 1; p.mean += difference / p.count; \
     p.squares += difference * (v - p.mean)",
    "a.count == 0 ? b : b.count == 0 ? a : Partial{a.count + b.count, \
     a.mean + (b.mean - a.mean) * b.count / (a.count + b.count), \
     a.squares + b.squares \
     + (b.mean - a.mean) * (b.mean - a.mean) * a.count * b.count / (a.count + b.count)}",
];
const MAX: [&str; 4] =
    ["T v;", "{Limits<T>::least()}", "p.v = greater(p.v, v)", "{greater(a.v, b.v)}"];
const MIN: [&str; 4] =
    ["T v;", "{Limits<T>::greatest()}", "p.v = lesser(p.v, v)", "{lesser(a.v, b.v)}"];
/// The greatest element and its index. Of equal elements the first counts; NaN precedes all
/// numbers.
const ARGMAX: [&str; 4] = [
    "T v; i64 at;",
    "{0, -1}",
    "p = first_of(p, Partial{v, at}, v > p.v)",
    "first_of(a, b, b.v > a.v)",
];
const ARGMIN: [&str; 4] = [
    "T v; i64 at;",
    "{0, -1}",
    "p = first_of(p, Partial{v, at}, v < p.v)",
    "first_of(a, b, b.v < a.v)",
];

const fn row(
    op: &'static str,
    [members, identity, accumulate, combine]: [&'static str; 4],
    finish: &'static str,
    compute: Compute,
) -> Reduction {
    Reduction { op, members, identity, accumulate, combine, finish, compute }
}

/// All reductions.
const REDUCTIONS: &[Reduction] = &[
    row("sum", SUM, "p.v", Compute::Out),
    row("mean", SUM, "p.v / length", Compute::Out),
    row("prod", ["T v;", "{1}", "p.v = times(p.v, v)", "{times(a.v, b.v)}"], "p.v", Compute::Out),
    row("any", COUNT, "(i64)(p.v > 0)", Compute::Truth),
    row("all", COUNT, "(i64)(p.v == length)", Compute::Truth),
    row("count_nonzero", COUNT, "p.v", Compute::Truth),
    row("var", WELFORD, "p.squares / greater(p.count - a, (T)0)", Compute::Double),
    row("std", WELFORD, "sqrt(p.squares / greater(p.count - a, (T)0))", Compute::Double),
    row("norm.2", ["T v;", "{0}", "p.v += v * v", "{a.v + b.v}"], "sqrt(p.v)", Compute::Double),
    row("norm.1", ["T v;", "{0}", "p.v += fabs(v)", "{a.v + b.v}"], "p.v", Compute::Double),
    row("norm.0", ["T v;", "{0}", "p.v += v != 0", "{a.v + b.v}"], "p.v", Compute::Double),
    row(
        "norm.greatest",
        ["T v;", "{0}", "p.v = greater(fabs(v), p.v)", MAX[3]],
        "p.v",
        Compute::Double,
    ),
    row(
        "norm.least",
        ["T v;", MIN[1], "p.v = lesser(fabs(v), p.v)", MIN[3]],
        "p.v",
        Compute::Double,
    ),
    row(
        "norm.any",
        ["T v;", "{0}", "p.v += pow(fabs(v), a)", "{a.v + b.v}"],
        "pow(p.v, 1 / a)",
        Compute::Double,
    ),
    row(
        "logsumexp",
        [
            "T greatest, sum;",
            "{Limits<T>::least(), 0}",
            "p = merged(p, Partial{v, exp(v - finite(v))})",
            "merged(a, b)",
        ],
        "log(p.sum) + finite(p.greatest)",
        Compute::Double,
    ),
    row("amax", MAX, "p.v", Compute::Own),
    row("amin", MIN, "p.v", Compute::Own),
    row("max.at", ARGMAX, "p.v", Compute::Own),
    row("min.at", ARGMIN, "p.v", Compute::Own),
    row("argmax", ARGMAX, "p.at", Compute::Own),
    row("argmin", ARGMIN, "p.at", Compute::Own),
];

/// The functions that `logsumexp` calls.
const HELPERS: &str = r"
__device__ inline T finite(T v) { return isinf(v) ? (T)0 : v; }
template <class Q> __device__ inline T part_of(Q p, T greatest) {
    return p.sum == 0 ? (T)0 : p.sum * exp(finite(p.greatest) - finite(greatest));
}
template <class Q> __device__ inline Q merged(Q a, Q b) {
    T greatest = greater(a.greatest, b.greatest);
    return {greatest, part_of(a, greatest) + part_of(b, greatest)};
}
";
/// The function that reductions to indices call.
const FIRST_OF: &str = r"
// Of equal elements the one with the lesser index counts, so a and b may come in any order.
template <class Q> __device__ inline Q first_of(Q a, Q b, bool more) {
    if (a.at < 0 || b.at < 0) return b.at < 0 ? a : b;
    bool none = is_nan(a.v), other = is_nan(b.v);
    if (none != other) return other ? b : a;
    if (none || a.v == b.v) return b.at < a.at ? b : a;
    return more ? b : a;
}
";

impl Reduction {
    /// Returns the dtype that elements are converted to, and the type that they are computed in.
    fn dtypes(&self, x: DType, out: DType) -> (DType, DType) {
        match self.compute {
            Compute::Out => (out, computed(out)),
            Compute::Own => (x, computed(x)),
            Compute::Truth => (DType::Bool, DType::I64),
            Compute::Double => (out, DType::F64),
        }
    }

    fn name(&self, x: DType, out: DType, access: RowAccess) -> String {
        let op = self.op.replace('.', "_");
        access.name(&format!("ms_{op}__{}_to_{}", x.name(), out.name()))
    }

    fn source(&self, x: DType, out: DType, access: RowAccess) -> Result<CString> {
        let (common, computed) = self.dtypes(x, out);
        let via = if common == x { computed } else { common };
        let Reduction { members, identity, accumulate, combine, finish, .. } = self;
        let helpers = match self.op {
            "logsumexp" => HELPERS,
            _ if members.contains("i64") => FIRST_OF,
            _ => "",
        };
        let store_index = if self.op.ends_with(".at") {
            "store((i64*)args.operand[2].data + at[2], p.at);"
        } else {
            ""
        };
        let own = format!(
            "typedef E0 E;\ntypedef {via} Via;\nstruct Partial {{ {members} }};\n{helpers}\
             __device__ inline Partial identity() {{ return {identity}; }}\n\
             __device__ inline Partial combine(Partial a, Partial b) {{ return {combine}; }}\n\
             __device__ inline void accumulate(Partial& p, T v, i64 at, T a) {{\n\
             (void)a; (void)at; {accumulate};\n}}\n\
             __device__ inline void finish(\
             const RowArgs<4>& args, const u64 (&at)[4], Partial p) {{\n\
             T length = (T)args.length, a = (T)args.scalars[0]; (void)length; (void)a;\n\
             store((E1*)args.operand[1].data + at[1], {finish}); {store_index}\n}}\n",
            via = element(via),
        );
        let (name, body) = (self.name(x, out, access), include_str!("reduce.cu"));
        row_reduction::source(&name, computed, &[x, out], access, &[&own, body].concat())
    }
}

/// The kernel of an op.
struct Op(&'static str);

impl Kernel for Op {
    fn run(&self, ctx: &KernelCtx<'_>) -> Result<()> {
        let ord = ctx.attrs().float("ord")?.unwrap_or(2.0);
        let (name, number) = match self.0 {
            "linalg_vector_norm" if ord == 2.0 => ("norm.2", ord),
            "linalg_vector_norm" if ord == 1.0 => ("norm.1", ord),
            "linalg_vector_norm" if ord == 0.0 => ("norm.0", ord),
            "linalg_vector_norm" if ord == f64::INFINITY => ("norm.greatest", ord),
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
        let indices = if ctx.operands() > 2 { Some(ctx.operand(2)?) } else { None };
        run(ctx, reduction, &x, &out, indices.as_ref(), number)
    }
}

fn run(
    ctx: &KernelCtx<'_>,
    reduction: &Reduction,
    x: &RawTensor<'_>,
    out: &RawTensor<'_>,
    indices: Option<&RawTensor<'_>>,
    number: f64,
) -> Result<()> {
    let reduced_dims = reduced(ctx.attrs(), x.shape.len())?;
    let keeps_dims = out.shape.len() == x.shape.len();
    let mut next = 0;
    let dims: Vec<RowDim<4>> = (0..x.shape.len())
        .map(|k| {
            let kept = !reduced_dims.contains(&k);
            let stride = |tensor: &RawTensor<'_>| {
                let at = if keeps_dims { k } else { next };
                tensor.strides.get(at).copied().filter(|_| kept).unwrap_or(0)
            };
            let strides = [x.strides[k], stride(out), indices.map_or(0, stride), 0];
            next += usize::from(kept);
            RowDim { length: x.shape[k], kept, strides }
        })
        .collect();
    // Partial results are stored in words. The schema requests enough of them.
    let parts = x.numel().checked_div(out.numel()).unwrap_or(0).div_ceil(SUM_PART).max(1);
    let (data, bytes) = ctx.workspace();
    let padding = data.addr().wrapping_neg() % 8;
    let shape = [bytes.saturating_sub(padding) / 8];
    let words = RawTensor {
        data: data.wrapping_add(padding),
        dtype: DType::I64,
        shape: &shape,
        strides: &[1],
    };
    let mut rows =
        RowArgs::new(&dims, [Some(x), Some(out), indices, (parts > 1).then_some(&words)])?;
    ensure!(rows.rows == out.numel() as u64, "{x:?} to {out:?}: schema and kernel disagree");
    rows.scalars[0] = number;
    (rows.part, rows.parts) = (SUM_PART as u64, parts as u64);
    let access = rows.access(false);
    let (native, name) = (native(ctx)?, reduction.name(x.dtype, out.dtype, access));
    let source = || reduction.source(x.dtype, out.dtype, access);
    // SAFETY: the kernels access the operands and the workspace, which `KernelCtx::new` promises to
    // be valid. The stream orders the second kernel after the first.
    unsafe {
        rows.launch(native, (&name, &name), source)?;
        if parts > 1 {
            rows.one_row_per_block().launch(native, (&name, &format!("{name}_combine")), source)?;
        }
    }
    Ok(())
}

/// Registers the kernels.
pub(super) fn register(kernels: &mut KernelRegistry) {
    let plain = REDUCTIONS.iter().map(|reduction| reduction.op).filter(|op| !op.contains('.'));
    for op in plain.chain(["linalg_vector_norm", "max", "min"]) {
        kernels.register(KIND, op, Arc::new(Op(op)));
    }
}

/// Returns sources of each reduction for one dtype in turn, and of some with vector loads.
pub(super) fn sources() -> Vec<(String, CString)> {
    let of = |op: &str, x: DType, vector_width: u32| {
        let reduction = REDUCTIONS.iter().find(|reduction| reduction.op == op)?;
        let out = match op {
            "any" | "all" => DType::Bool,
            "count_nonzero" | "argmax" | "argmin" => DType::I64,
            "sum" if !x.is_float() => DType::I64,
            _ => x,
        };
        let access = RowAccess { vector_width, ..RowAccess::SCALAR };
        let source = reduction.source(x, out, access).ok()?;
        Some((reduction.name(x, out, access), source))
    };
    let floats = [DType::F32, DType::BF16, DType::F64, DType::F16];
    let all = REDUCTIONS.iter().zip(floats.into_iter().cycle()).map(|(r, x)| (r.op, x, 1));
    let further = [
        ("sum", DType::I32, 1),
        ("amax", DType::I32, 1),
        ("sum", DType::F32, 4),
        ("amax", DType::F16, 8),
        ("argmin", DType::F64, 2),
        ("any", DType::U8, 16),
    ];
    all.chain(further).filter_map(|(op, x, vector_width)| of(op, x, vector_width)).collect()
}
