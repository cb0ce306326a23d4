//! The kernels of elementwise ops: selects the variant of a call, its dtypes and its scalars.
//! Dtypes and scalars follow the same rules as in the host's kernels.
//!
//! A kernel that divides integers sets a failure flag where a divisor is zero: the call fails when
//! it completes. No other elementwise kernel takes a flag.

use std::ffi::CString;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use smallvec::SmallVec;

use millstream_ep::cuda::NativeStream;
use millstream_ops::args::{Scalar, choice};
use millstream_ops::promotion::floating;
use millstream_types::{Attrs, DType};

use super::args::{ElementwiseArgs, MAX_RANK};
use super::functions::{Function, Kind, OUT_OF_PLACE, WITH_IN_PLACE};
use super::overlap::OverlapCopies;
use super::source::{Elementwise, computed};
use super::{Unsupported, launch, native};
use crate::context::{KernelCtx, RawTensor};
use crate::cpu::element::{from_scalar, greatest_finite};
use crate::cpu::elementwise::{Input, Promoted, common_of};
use crate::cpu::memory::is_same;
use crate::cpu::unsigned::scalar_for;
use crate::registry::{Kernel, KernelRegistry};

/// The kernel of an op. A call without an output operand writes its first input.
struct Op(&'static Function);

/// The variant of an op that a call selects, and its scalars.
struct Variant {
    name: &'static str,
    scalars: Vec<Scalar>,
}

impl Function {
    fn expression(&self, variant: &str) -> Result<(&'static str, &'static str)> {
        let found = self.variants.iter().find(|(name, _)| *name == variant);
        found.copied().ok_or_else(|| Unsupported::of(variant))
    }

    /// Returns the dtype that a call is computed in.
    fn common<T: Promoted>(&self, inputs: &[Input<T>], out: DType) -> Result<DType> {
        match self.kind {
            Kind::Any | Kind::Rounded => common_of(inputs),
            Kind::Float => common_of(inputs).map(floating),
            Kind::Of(from, to) => common_of(&inputs[from..to]),
            Kind::Out => Ok(out),
        }
    }

    /// Selects the variant and the scalars by the arguments of a call. Adjusts `common` where the
    /// variant computes in another dtype.
    fn variant<T: Promoted + Copy>(
        &self,
        attrs: &Attrs,
        inputs: &[Input<T>],
        common: &mut DType,
    ) -> Result<Variant> {
        let mut scalars = Vec::new();
        for (name, default) in self.scalars {
            scalars.push(Scalar::of(attrs, name)?.unwrap_or(Scalar::Float(*default)));
        }
        let name = match self.op {
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
                let most = greatest_finite(*common);
                let number = |name, default| {
                    anyhow::Ok(Scalar::Float(attrs.float(name)?.unwrap_or(default)))
                };
                scalars =
                    vec![number("nan", 0.0)?, number("posinf", most)?, number("neginf", -most)?];
                ""
            }
            "clamp" => {
                let bounds = [Scalar::of(attrs, "min")?, Scalar::of(attrs, "max")?];
                let given = bounds.into_iter().flatten().map(Input::Number);
                let all: Vec<Input<T>> = inputs.iter().copied().chain(given).collect();
                *common = common_of(&all)?;
                let ends = match common.is_float() {
                    true => [f64::NEG_INFINITY, f64::INFINITY].map(Scalar::Float),
                    false => [i64::MIN, i64::MAX].map(Scalar::Int),
                };
                let bound = |k: usize| bounds[k].unwrap_or(ends[k]);
                scalars = vec![bound(0), bound(1)];
                ""
            }
            "bitwise_not" if *common == DType::Bool => "truth",
            _ => "",
        };
        Ok(Variant { name, scalars })
    }
}

/// Returns the variant for an exponent. As on the host, common exponents have their own.
fn power<T>(inputs: &[Input<T>], common: DType) -> &'static str {
    let exponent = match inputs[1] {
        Input::Number(v) if common.is_float() => from_scalar::<f64>(v),
        Input::Number(Scalar::Int(2)) => 2.0,
        _ => return "",
    };
    let known = [(2.0, "two"), (3.0, "three"), (0.5, "root"), (-0.5, "by_root"), (-1.0, "by")];
    known.iter().find(|(value, _)| *value == exponent).map_or("", |(_, variant)| variant)
}

/// Returns the inputs of a call: for each, its number if that is given, else the next tensor.
///
/// # Errors
/// A number has another type, or a tensor is missing.
pub(super) fn inputs<T>(
    function: &Function,
    attrs: &Attrs,
    mut tensor: impl FnMut(usize) -> Result<T>,
) -> Result<Vec<Input<T>>> {
    let mut next = 0;
    let mut inputs = Vec::with_capacity(function.inputs.len());
    for name in function.inputs {
        inputs.push(match Scalar::of(attrs, name)? {
            Some(number) => Input::Number(number),
            None => {
                next += 1;
                Input::Tensor(tensor(next - 1)?)
            }
        });
    }
    Ok(inputs)
}

/// Returns the kernel of a call, without the dtypes of its inputs, and its scalars.
///
/// # Errors
/// An argument has another type.
pub(super) fn describe<T: Promoted + Copy>(
    function: &'static Function,
    attrs: &Attrs,
    inputs: &[Input<T>],
    out: DType,
) -> Result<(Elementwise<'static>, Vec<Scalar>)> {
    let mut common = function.common(inputs, out)?;
    let chosen = function.variant(attrs, inputs, &mut common)?;
    let (variant, expression) = function.expression(chosen.name)?;
    let kernel = Elementwise {
        op: function.op,
        variant,
        inputs: Vec::new(),
        common,
        rounded: function.kind == Kind::Rounded,
        out,
        computed: computed(common),
        function: expression,
        wide: false,
    };
    Ok((kernel, chosen.scalars))
}

/// Returns the kernel of an op that has one variant, without the dtypes of its inputs.
///
/// # Errors
/// The op is not in the table.
pub(super) fn plain(
    op: &'static str,
    common: DType,
    out: DType,
    computed: DType,
) -> Result<Elementwise<'static>> {
    let function = function(op)?.variants[0].1;
    let (variant, inputs, rounded, wide) = ("", Vec::new(), false, false);
    Ok(Elementwise { op, variant, inputs, common, rounded, out, computed, function, wide })
}

impl Kernel for Op {
    fn run(&self, ctx: &KernelCtx<'_>) -> Result<()> {
        let inputs = inputs(self.0, ctx.attrs(), |k| ctx.operand(k))?;
        let tensors = inputs.iter().filter(|input| matches!(input, Input::Tensor(_))).count();
        let out = ctx.operand(if ctx.operands() > tensors { tensors } else { 0 })?;
        let (kernel, scalars) = describe(self.0, ctx.attrs(), &inputs, out.dtype)?;
        run(ctx, kernel, &inputs, out, &scalars)
    }
}

/// Launches a kernel on these inputs and output. Sets the dtypes of its inputs.
///
/// # Errors
/// [`Unsupported`], or an error of the compiler or the driver.
pub(super) fn run<'a>(
    ctx: &KernelCtx<'a>,
    kernel: Elementwise<'_>,
    inputs: &[Input<RawTensor<'a>>],
    out: RawTensor<'a>,
    scalars: &[Scalar],
) -> Result<()> {
    let native = native(ctx)?;
    let overlap = OverlapCopies::new(native, out);
    let resolve = |input: &Input<RawTensor<'a>>| match *input {
        // SAFETY: `KernelCtx::new` promises valid operands.
        Input::Tensor(x) if !is_same(&x, &out) => unsafe { overlap.resolve(x) }.map(Input::Tensor),
        other => Ok(other),
    };
    let inputs: SmallVec<[Input<RawTensor<'_>>; 3]> =
        inputs.iter().map(resolve).collect::<Result<_>>()?;
    // SAFETY: as above; copies are in scratch memory of the stream.
    unsafe { run_on(native, kernel, &inputs, out, scalars) }
}

/// Launches as [`run`] does, on tensors that need not be operands of a call.
///
/// # Errors
/// As for [`run`].
///
/// # Safety
/// The tensors are valid until the kernel has run, which is ordered against all other uses of them.
/// No two indices of `out` address the same element. Each input is `out` itself or shares no memory
/// with it.
pub(super) unsafe fn run_on(
    native: &NativeStream,
    mut kernel: Elementwise<'_>,
    inputs: &[Input<RawTensor<'_>>],
    out: RawTensor<'_>,
    scalars: &[Scalar],
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
    let mut args = match ElementwiseArgs::new(&operands, &[]) {
        Err(error) if error.is::<Unsupported>() && out.shape.len() > MAX_RANK => {
            kernel.inputs.clear();
            // SAFETY: the caller's promise.
            return unsafe { run_slices(native, &kernel, inputs, out, scalars) };
        }
        args => args?,
    };
    let replaced = inputs.iter().enumerate().filter_map(|(k, input)| match input {
        Input::Number(v) => Some((3 + k, *v)),
        Input::Tensor(_) => None,
    });
    for (k, scalar) in scalars.iter().copied().enumerate().chain(replaced) {
        args.integers[k] = from_scalar(scalar_for(scalar, kernel.common));
        args.scalars[k] = match kernel.computed {
            DType::F32 => f64::from(from_scalar::<f32>(scalar)),
            _ => from_scalar(scalar),
        };
    }
    kernel.wide = !args.is_narrow();
    if kernel.divides_integers() {
        let error = anyhow!("{} divided by zero", kernel.common);
        args = args.with_failure_flag(native.error_flag(error)?)?;
    }
    // SAFETY: the kernel accesses the elements of the tensors, as the caller promises, and a flag
    // that belongs to this call. Where an input is the output, each thread reads an element before
    // it writes it.
    unsafe { launch::launch_elementwise(native, &kernel.name(), || kernel.source(), args) }
}

/// Launches one kernel per index of the first dimension, for tensors with more dimensions than a
/// kernel supports.
///
/// # Errors
/// As for [`run_on`].
///
/// # Safety
/// As for [`run_on`].
unsafe fn run_slices(
    native: &NativeStream,
    kernel: &Elementwise<'_>,
    inputs: &[Input<RawTensor<'_>>],
    out: RawTensor<'_>,
    scalars: &[Scalar],
) -> Result<()> {
    for index in 0..out.shape[0] {
        let mut parts: SmallVec<[Input<RawTensor<'_>>; 3]> = inputs.iter().copied().collect();
        for input in &mut parts {
            if let Input::Tensor(x) = input
                && x.shape.len() == out.shape.len()
            {
                *x = slice(x, index);
            }
        }
        // SAFETY: the caller's promise, of parts of the same tensors.
        unsafe { run_on(native, kernel.clone(), &parts, slice(&out, index), scalars)? };
    }
    Ok(())
}

/// Returns the part of a tensor at an index of its first dimension; at any if it has length 1.
pub(super) fn slice<'a>(x: &RawTensor<'a>, index: usize) -> RawTensor<'a> {
    let step = if x.shape[0] == 1 { 0 } else { index * x.strides[0] };
    let data = x.data.wrapping_add(step * x.dtype.size());
    RawTensor { data, shape: &x.shape[1..], strides: &x.strides[1..], ..*x }
}

/// Registers the kernels.
pub(super) fn register(kernels: &mut KernelRegistry) {
    for function in WITH_IN_PLACE {
        kernels.register(super::KIND, &format!("{}_", function.op), Arc::new(Op(function)));
    }
    // `create` and `copy` register these: they need the dtype of the output, or an index.
    let others = ["full", "arange", "cast"];
    for function in
        WITH_IN_PLACE.iter().chain(OUT_OF_PLACE).filter(|function| !others.contains(&function.op))
    {
        kernels.register(super::KIND, function.op, Arc::new(Op(function)));
    }
    let bounds = ["clamp_min", "clamp_min_", "clamp_max", "clamp_max_"];
    for (name, function) in bounds.iter().filter_map(|name| Some((name, function(name).ok()?))) {
        kernels.register(super::KIND, name, Arc::new(Op(function)));
    }
}

/// Returns the names of the elementwise ops, without in-place forms.
pub fn elementwise_ops() -> impl Iterator<Item = &'static str> {
    WITH_IN_PLACE.iter().chain(OUT_OF_PLACE).map(|function| function.op)
}

/// Returns the table entry of an op: that of `clamp` for a bound alone.
pub(super) fn function(op: &str) -> Result<&'static Function> {
    let op = if op.starts_with("clamp_") { "clamp" } else { op };
    let found = WITH_IN_PLACE.iter().chain(OUT_OF_PLACE).find(|function| function.op == op);
    found.ok_or_else(|| Unsupported::of(op))
}

/// Returns sources of every variant, for a dtype or two each. In turn they read, compute and write
/// all dtypes. Some take scalars in place of tensors; one mixes dtypes and has wide indices.
pub(super) fn sources() -> Vec<(String, CString)> {
    use DType::{BF16, Bool, F16, F32, F64, I8, I16, I32, I64, U8};
    let mut all = Vec::new();
    let mut add = |kernel: Elementwise<'_>| {
        if let Ok(source) = kernel.source() {
            all.push((kernel.name(), source));
        }
    };
    let variants = WITH_IN_PLACE
        .iter()
        .chain(OUT_OF_PLACE)
        .flat_map(|f| f.variants.iter().map(move |variant| (f, variant)));
    for (turn, (function, (variant, expression))) in variants.enumerate() {
        let has = |parts: &[&str]| parts.iter().any(|part| expression.contains(part));
        let integral = has(&["x & ", "x | ", " ^ ", "~", "shifted"]);
        let float = function.kind == Kind::Float || has(&["sqrt", "/", "fabs", "x * x", "isnan"]);
        let dtypes: &[DType] = match (integral, float) {
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
                function: expression,
                wide: false,
            });
        }
    }
    if let Ok(sum) = plain("add", F16, F16, F32) {
        add(Elementwise { inputs: vec![Some(I32), Some(F16)], wide: true, ..sum });
    }
    all
}
