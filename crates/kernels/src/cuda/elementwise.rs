//! Elementwise ops of floats: each a function in CUDA C, of elements of one dtype.
//!
//! Whatever else an op can do (other dtypes, dtypes that differ, arguments that no row knows) is
//! [`Unsupported`]: an error, never another result.

use std::ffi::CString;
use std::sync::Arc;

use anyhow::Result;

use millstream_types::{AttrValue, DType};

use super::call::Call;
use super::{Unsupported, launch, native, source};
use crate::context::{KernelCtx, RawTensor};
use crate::cpu::memory::{is_same, may_overlap};
use crate::registry::{Kernel, KernelRegistry};

/// An op: what it takes, and what it does.
pub(super) struct Function {
    op: &'static str,
    /// How many tensors. One less where the second is a number, the argument `other`.
    inputs: usize,
    /// The arguments that are numbers, `a` and then `b`, with their defaults.
    numbers: &'static [(&'static str, f64)],
    /// Of `x`, `y`, `a`, `b`, in CUDA C.
    function: &'static str,
    /// Whether there is an op that works in place, of the same name with a `_`.
    twin: bool,
}

const fn row(
    op: &'static str,
    inputs: usize,
    numbers: &'static [(&'static str, f64)],
    function: &'static str,
    twin: bool,
) -> Function {
    Function { op, inputs, numbers, function, twin }
}

const SIGMOID: &str = "1 / (1 + exp(-x))";

/// The ops. The functions are those of the host's kernels.
pub(super) const FUNCTIONS: &[Function] = &[
    row("add", 2, &[("alpha", 1.0)], "x + a * y", true),
    row("sub", 2, &[("alpha", 1.0)], "x - a * y", true),
    row("mul", 2, &[], "x * y", true),
    row("div", 2, &[], "x / y", true),
    row("maximum", 2, &[], "x != x ? x : y != y ? y : x > y ? x : y", false),
    row("minimum", 2, &[], "x != x ? x : y != y ? y : x < y ? x : y", false),
    row("neg", 1, &[], "-x", true),
    row("abs", 1, &[], "fabs(x)", true),
    row("relu", 1, &[], "x < 0 ? (T)0 : x", true),
    row("exp", 1, &[], "exp(x)", true),
    row("log", 1, &[], "log(x)", true),
    row("sqrt", 1, &[], "sqrt(x)", true),
    row("rsqrt", 1, &[], "1 / sqrt(x)", true),
    row("reciprocal", 1, &[], "1 / x", true),
    row("sin", 1, &[], "sin(x)", true),
    row("cos", 1, &[], "cos(x)", true),
    row("tanh", 1, &[], "tanh(x)", true),
    row("erf", 1, &[], "erf(x)", true),
    row("floor", 1, &[], "floor(x)", true),
    row("ceil", 1, &[], "ceil(x)", true),
    row("trunc", 1, &[], "trunc(x)", true),
    row("sigmoid", 1, &[], SIGMOID, true),
    row("silu", 1, &[], "x / (1 + exp(-x))", true),
    row("gelu", 1, &[], "(T)0.5 * x * (1 + erf(x * (T)0.70710678118654752440))", true),
    row("leaky_relu", 1, &[("negative_slope", 0.01)], "x > 0 ? x : x * a", true),
    row("threshold_backward", 2, &[("threshold", 0.0)], "y <= a ? (T)0 : x", false),
    row("tanh_backward", 2, &[], "x * (1 - y * y)", false),
    row("sigmoid_backward", 2, &[], "x * (1 - y) * y", false),
];

/// An op's kernel. In place, the first operand is also the last.
struct Elementwise {
    function: &'static Function,
    in_place: bool,
}

impl Function {
    /// The kernel's name, for tensors of a dtype; `number` says that `y` is one.
    fn name(&self, dtype: DType, number: bool) -> String {
        let form = if number { "_number" } else { "" };
        format!("ms_{}{form}__{}", self.op, dtype.name())
    }

    /// The kernel, if there is one for the dtype. A number in place of `y` takes the place of `a`,
    /// which then is not asked for.
    fn source(&self, dtype: DType, number: bool) -> Result<CString> {
        let types = source::types(dtype).ok_or_else(|| Unsupported::of(dtype.name()))?;
        let inputs = self.inputs - usize::from(number);
        // With a number for y, the call's first number is y, and the second what the row calls a.
        let function = match number {
            true => format!("([](T x, T y, T a) {{ return (T)({}); }})(x, a, b)", self.function),
            false => self.function.to_owned(),
        };
        source::elementwise(&self.name(dtype, number), inputs, types, &function)
    }
}

/// Every source there is, by name: what can be compiled without a device.
pub(super) fn sources() -> Vec<(String, CString)> {
    let mut all = Vec::new();
    for function in FUNCTIONS {
        for dtype in DType::ALL {
            for number in [false, true] {
                if (function.inputs == 2 || !number)
                    && let Ok(source) = function.source(dtype, number)
                {
                    all.push((function.name(dtype, number), source));
                }
            }
        }
    }
    all
}

impl Kernel for Elementwise {
    fn run(&self, ctx: &KernelCtx<'_>) -> Result<()> {
        let function = self.function;
        let count = ctx.operands() - usize::from(!self.in_place);
        let number = function.inputs == 2 && count == 1;
        let mut operands: Vec<RawTensor<'_>> =
            (0..ctx.operands()).map(|k| ctx.operand(k)).collect::<Result<_>>()?;
        if self.in_place {
            operands.extend(operands.first().copied());
        }
        if count + usize::from(number) != function.inputs {
            return Err(Unsupported::of("another number of operands"));
        }
        let Some(dtype) = operands.first().map(|x| x.dtype) else { return Ok(()) };
        if operands.iter().any(|x| x.dtype != dtype) || source::types(dtype).is_none() {
            return Err(Unsupported::of("dtypes that are no floats, or that differ"));
        }
        let mut numbers = Vec::new();
        let mut known: Vec<&str> = function.numbers.iter().map(|n| n.0).collect();
        if number {
            known.push("other");
            numbers.push(ctx.attrs().float("other")?.unwrap_or_default());
        }
        let plain = |value: &AttrValue| matches!(value, AttrValue::Int(_) | AttrValue::Float(_));
        let usual = |name: &str, value: &AttrValue| {
            name == "approximate" && *value == AttrValue::Str("none".to_owned())
        };
        for (name, value) in ctx.attrs().iter() {
            let told = known.contains(&name) && plain(value);
            if !told && !usual(name, value) {
                return Err(Unsupported::of(name));
            }
        }
        for (name, default) in function.numbers {
            numbers.push(ctx.attrs().float(name)?.unwrap_or(*default));
        }
        let Some((out, inputs)) = operands.split_last() else { return Ok(()) };
        if inputs.iter().any(|x| may_overlap(x, out) && !is_same(x, out)) {
            return Err(Unsupported::of("an operand that shares memory with the result"));
        }
        let call = Call::new(&operands, &numbers)?;
        // SAFETY: the kernel touches the elements of the operands alone, for which the context's
        // maker answers. An operand that shares memory with the result is the result: each thread
        // reads an element before it writes the same one.
        unsafe {
            let name = function.name(dtype, number);
            launch::launch(native(ctx)?, &name, || function.source(dtype, number), call)
        }
    }
}

/// Adds the kernels.
pub(super) fn register(kernels: &mut KernelRegistry) {
    for function in FUNCTIONS {
        let kernel = |in_place| Arc::new(Elementwise { function, in_place });
        kernels.register(super::KIND, function.op, kernel(false));
        if function.twin {
            kernels.register(super::KIND, &format!("{}_", function.op), kernel(true));
        }
    }
}
