//! The kernels of elementwise ops: which function of an op a call means, on which dtypes, and with
//! which numbers. Dtypes and numbers are treated as the host's kernels treat them.
//!
//! A kernel that divides integers sets a word where a divisor is zero, and the call has failed when it
//! completes. No other kernel has such a word.

use std::ffi::CString;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use smallvec::SmallVec;

use millstream_ep::cuda::Native;
use millstream_ops::args::{Scalar, choice};
use millstream_ops::promotion::floating;
use millstream_types::DType;

use super::apart::Apart;
use super::call::{Call, RANK};
use super::functions::{ALONE, Function, Kind, TWINS};
use super::source::{Elementwise, computed};
use super::{Unsupported, launch, native};
use crate::context::{KernelCtx, RawTensor};
use crate::cpu::element::from_scalar;
use crate::cpu::elementwise::{Input, common_of};
use crate::cpu::memory::is_same;
use crate::registry::{Kernel, KernelRegistry};

/// The kernel of an op. Without an output of its own, a call's output is its first input.
struct Op(&'static Function);

/// Which of an op's functions a call means, and the numbers that it takes.
struct Choice {
    variant: &'static str,
    numbers: Vec<Scalar>,
}

impl Function {
    fn text(&self, variant: &str) -> Result<(&'static str, &'static str)> {
        let found = self.texts.iter().find(|(name, _)| *name == variant);
        found.copied().ok_or_else(|| Unsupported::of(variant))
    }

    /// The dtype that a call is computed in.
    fn common(&self, inputs: &[Input<'_>], out: DType) -> DType {
        match self.kind {
            Kind::Any | Kind::Rounded => common_of(inputs),
            Kind::Float => floating(common_of(inputs)),
            Kind::Of(from, to) => common_of(&inputs[from..to]),
            Kind::Out => out,
        }
    }

    /// What a call of the op means beside its inputs.
    fn choose(
        &self,
        ctx: &KernelCtx<'_>,
        inputs: &[Input<'_>],
        common: &mut DType,
    ) -> Result<Choice> {
        let attrs = ctx.attrs();
        let mut numbers = Vec::new();
        for (name, default) in self.numbers {
            numbers.push(Scalar::of(attrs, name)?.unwrap_or(Scalar::Float(*default)));
        }
        let variant = match self.op {
            "div" => match choice(attrs, "rounding_mode", millstream_ops::arith::ROUNDING_MODES)? {
                Some("floor") => "floor",
                Some(_) => "trunc",
                None => {
                    *common = floating(*common);
                    ""
                }
            },
            "pow" => power(inputs, *common),
            "gelu" | "gelu_backward" => {
                let choices = millstream_ops::pointwise::APPROXIMATIONS;
                choice(attrs, "approximate", choices)?
                    .map_or("none", |name| if name == "tanh" { "tanh" } else { "none" })
            }
            "elu_backward" => match attrs.bool("is_result")? {
                Some(true) => "of_result",
                _ => "of_input",
            },
            "nan_to_num" if !common.is_float() => "whole",
            "nan_to_num" => {
                let most = most(*common);
                let number = |name, default| {
                    anyhow::Ok(Scalar::Float(attrs.float(name)?.unwrap_or(default)))
                };
                numbers =
                    vec![number("nan", 0.0)?, number("posinf", most)?, number("neginf", -most)?];
                ""
            }
            "clamp" => {
                let bounds = [Scalar::of(attrs, "min")?, Scalar::of(attrs, "max")?];
                let given = bounds.into_iter().flatten().map(Input::Number);
                let all: Vec<Input<'_>> = inputs.iter().copied().chain(given).collect();
                *common = common_of(&all);
                let ends = match common.is_float() {
                    true => [f64::NEG_INFINITY, f64::INFINITY].map(Scalar::Float),
                    false => [i64::MIN, i64::MAX].map(Scalar::Int),
                };
                let bound = |k: usize| bounds[k].unwrap_or(ends[k]);
                numbers = vec![bound(0), bound(1)];
                ""
            }
            "bitwise_not" if *common == DType::Bool => "truth",
            _ => "",
        };
        Ok(Choice { variant, numbers })
    }
}

/// The greatest finite number of a dtype.
fn most(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => half::f16::MAX.to_f64(),
        DType::BF16 => half::bf16::MAX.to_f64(),
        DType::F32 => f64::from(f32::MAX),
        _ => f64::MAX,
    }
}

/// A common exponent has a function of its own, as on the host.
fn power(inputs: &[Input<'_>], common: DType) -> &'static str {
    let exponent = match inputs[1] {
        Input::Number(v) if common.is_float() => from_scalar::<f64>(v),
        Input::Number(Scalar::Int(2)) => 2.0,
        _ => return "",
    };
    let known = [(2.0, "two"), (3.0, "three"), (0.5, "root"), (-0.5, "by_root"), (-1.0, "by")];
    known.iter().find(|(value, _)| *value == exponent).map_or("", |(_, variant)| variant)
}

impl Kernel for Op {
    fn run(&self, ctx: &KernelCtx<'_>) -> Result<()> {
        let function = self.0;
        let mut inputs = Vec::new();
        let mut next = 0;
        for name in function.inputs {
            inputs.push(match Scalar::of(ctx.attrs(), name)? {
                Some(number) => Input::Number(number),
                None => {
                    next += 1;
                    Input::Tensor(ctx.operand(next - 1)?)
                }
            });
        }
        let out = ctx.operand(if ctx.operands() > next { next } else { 0 })?;
        let mut common = function.common(&inputs, out.dtype);
        let chosen = function.choose(ctx, &inputs, &mut common)?;
        let (variant, text) = function.text(chosen.variant)?;
        let kernel = Elementwise {
            op: function.op,
            variant,
            inputs: Vec::new(),
            common,
            rounded: function.kind == Kind::Rounded,
            out: out.dtype,
            computed: computed(common),
            function: text,
            wide: false,
        };
        run(ctx, kernel, &inputs, out, &chosen.numbers)
    }
}

/// Launches a kernel on inputs, whose dtypes are put into it, and an output.
///
/// # Errors
/// [`Unsupported`], the compiler's, or the driver's.
pub(super) fn run<'a>(
    ctx: &KernelCtx<'a>,
    kernel: Elementwise<'_>,
    inputs: &[Input<'a>],
    out: RawTensor<'a>,
    numbers: &[Scalar],
) -> Result<()> {
    let native = native(ctx)?;
    let apart = Apart::from(native, out);
    let before = |input: &Input<'a>| match *input {
        // SAFETY: the context's maker answers for the operands.
        Input::Tensor(x) if !is_same(&x, &out) => unsafe { apart.of(x) }.map(Input::Tensor),
        other => Ok(other),
    };
    let inputs: SmallVec<[Input<'_>; 3]> = inputs.iter().map(before).collect::<Result<_>>()?;
    // SAFETY: as above, and of the inputs just made.
    unsafe { run_on(native, kernel, &inputs, out, numbers) }
}

/// As [`run`], of tensors that need not be the operands of a call.
///
/// # Errors
/// As for [`run`].
///
/// # Safety
/// The tensors are valid until the kernel has run, which is ordered against all other uses of them; `out`
/// names no element twice. Each input is `out` itself or shares no memory with it.
pub(super) unsafe fn run_on(
    native: &Native,
    mut kernel: Elementwise<'_>,
    inputs: &[Input<'_>],
    out: RawTensor<'_>,
    numbers: &[Scalar],
) -> Result<()> {
    let mut operands = Vec::new();
    for input in inputs {
        kernel.inputs.push(match input {
            Input::Tensor(x) => {
                operands.push(*x);
                Some(x.dtype)
            }
            Input::Number(_) => None,
        });
    }
    operands.push(out);
    let mut call = match Call::new(&operands, &[]) {
        Err(error) if error.is::<Unsupported>() && out.shape.len() > RANK => {
            kernel.inputs.clear();
            // SAFETY: the caller's promise.
            return unsafe { one_by_one(native, &kernel, inputs, out, numbers) };
        }
        call => call?,
    };
    let instead = inputs.iter().enumerate().filter_map(|(k, input)| match input {
        Input::Number(v) => Some((3 + k, *v)),
        Input::Tensor(_) => None,
    });
    for (place, number) in numbers.iter().copied().enumerate().chain(instead) {
        call.integers[place] = from_scalar(number);
        call.numbers[place] = match kernel.computed {
            DType::F32 => f64::from(from_scalar::<f32>(number)),
            _ => from_scalar(number),
        };
    }
    kernel.wide = !call.is_narrow();
    if kernel.divides_integers() {
        let error = anyhow!("{} divided by zero", kernel.common);
        call = call.with_word(native.error_flag(error)?)?;
    }
    // SAFETY: the kernel touches the elements of the tensors alone, for which the caller answers, and a
    // word that is this call's. An input that is the result: each thread reads an element before it
    // writes the same one.
    unsafe { launch::launch(native, &kernel.name(), || kernel.source(), call) }
}

/// What has more dimensions than a kernel walks: a call for each index of the first.
///
/// # Errors
/// As for [`run_on`].
///
/// # Safety
/// As for [`run_on`].
unsafe fn one_by_one(
    native: &Native,
    kernel: &Elementwise<'_>,
    inputs: &[Input<'_>],
    out: RawTensor<'_>,
    numbers: &[Scalar],
) -> Result<()> {
    fn part<'a>(x: &RawTensor<'a>, index: usize) -> RawTensor<'a> {
        let step = if x.shape[0] == 1 { 0 } else { index * x.strides[0] };
        let data = x.data.wrapping_add(step * x.dtype.size());
        RawTensor { data, shape: &x.shape[1..], strides: &x.strides[1..], ..*x }
    }
    for index in 0..out.shape[0] {
        let mut parts: SmallVec<[Input<'_>; 3]> = inputs.iter().copied().collect();
        for input in &mut parts {
            if let Input::Tensor(x) = input
                && x.shape.len() == out.shape.len()
            {
                *x = part(x, index);
            }
        }
        // SAFETY: the caller's promise, of parts of the same tensors.
        unsafe { run_on(native, kernel.clone(), &parts, part(&out, index), numbers)? };
    }
    Ok(())
}

/// Adds the kernels.
pub(super) fn register(kernels: &mut KernelRegistry) {
    for function in TWINS {
        kernels.register(super::KIND, &format!("{}_", function.op), Arc::new(Op(function)));
    }
    // These are called with the output's dtype or with an index, and by kernels of their own.
    let others = ["full", "arange", "cast"];
    for function in TWINS.iter().chain(ALONE).filter(|function| !others.contains(&function.op)) {
        kernels.register(super::KIND, function.op, Arc::new(Op(function)));
    }
    let clamp = TWINS.iter().find(|function| function.op == "clamp");
    for (name, function) in ["clamp_min", "clamp_max"].into_iter().flat_map(|n| Some((n, clamp?))) {
        kernels.register(super::KIND, name, Arc::new(Op(function)));
        kernels.register(super::KIND, &format!("{name}_"), Arc::new(Op(function)));
    }
}

/// The function of an op.
pub(super) fn function(op: &str) -> Result<&'static Function> {
    let found = TWINS.iter().chain(ALONE).find(|function| function.op == op);
    found.ok_or_else(|| Unsupported::of(op))
}

/// Every function in a dtype or two, by turns, so that all dtypes are read, computed and written; some
/// with numbers in place of tensors; and one of dtypes that differ, with wide indices.
pub(super) fn sources() -> Vec<(String, CString)> {
    use DType::{BF16, Bool, F16, F32, F64, I8, I16, I32, I64, U8};
    let mut all = Vec::new();
    let mut add = |kernel: Elementwise<'_>| {
        if let Ok(source) = kernel.source() {
            all.push((kernel.name(), source));
        }
    };
    let texts = TWINS.iter().chain(ALONE).flat_map(|f| f.texts.iter().map(move |text| (f, text)));
    for (turn, (function, (variant, text))) in texts.enumerate() {
        let has = |parts: &[&str]| parts.iter().any(|part| text.contains(part));
        let whole = has(&["x & ", "x | ", " ^ ", "~", "shifted"]);
        let float = function.kind == Kind::Float || has(&["sqrt", "/", "fabs", "x * x", "isnan"]);
        let dtypes: &[DType] = match (whole, float) {
            (true, _) => &[I32, Bool, U8, I64],
            (_, true) => &[F32, F16, F64, BF16],
            _ => &[F32, I64, F16, U8, F64, I16, BF16, I8, I32, Bool],
        };
        let inputs = function.inputs.len();
        let number = function.inputs.last().is_some_and(|name| !name.is_empty());
        for number in [false, true].into_iter().take(1 + usize::from(number)) {
            let dtype = dtypes[(turn + usize::from(number)) % dtypes.len()];
            let input = |k| (!(number && k + 1 == inputs)).then_some(dtype);
            add(Elementwise {
                op: function.op,
                variant,
                inputs: (0..inputs).map(input).collect(),
                common: dtype,
                rounded: function.kind == Kind::Rounded,
                out: dtype,
                computed: computed(dtype),
                function: text,
                wide: false,
            });
        }
    }
    if let Ok(sum) = function("add") {
        add(Elementwise {
            op: "add",
            variant: "",
            inputs: vec![Some(I32), Some(F16)],
            common: F16,
            rounded: false,
            out: F16,
            computed: F32,
            function: sum.texts[0].1,
            wide: true,
        });
    }
    all
}
