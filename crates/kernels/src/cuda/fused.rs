//! The kernel of `fused`: a program of elementwise calls in one source. Each thread computes all
//! steps of its elements, and rounds the result of each step to the step's dtype. Steps without
//! dimensions, in a program over tensors, are computed once by each thread.

use std::ffi::CString;
use std::fmt::Write as _;

use anyhow::{Context, Result, bail};

use millstream_ep::cuda::NativeStream;
use millstream_ops::args::Scalar;
use millstream_ops::fused::{FUSED, Program, Step, Value};
use millstream_types::{DType, Layout, TensorSpec};

use super::args::MAX_RANK;
use super::overlap::OverlapCopies;
use super::source::{Elementwise, MATH, element};
use super::strided::{MAX_INTEGERS, StridedArgs, StridedOperand};
use super::template::argument_block;
use super::{Unsupported, copy, elementwise, launch, native};
use crate::context::{KernelCtx, RawTensor};
use crate::cpu::element::from_scalar;
use crate::cpu::elementwise::Input;
use crate::cpu::memory::is_same;

pub(super) const KERNELS: &[super::Kernel] = &[(FUSED, fused)];

pub(super) fn specs(tensors: &[RawTensor<'_>]) -> Result<Vec<TensorSpec>> {
    let spec = |x: &RawTensor<'_>| {
        anyhow::Ok(TensorSpec::new(x.dtype, Layout::strided(x.shape, x.strides, 0)?)?)
    };
    tensors.iter().map(spec).collect()
}

/// `fused(inputs...; program)`.
fn fused(ctx: &KernelCtx<'_>) -> Result<()> {
    let last = ctx.operands().checked_sub(1).context("no operands: schema and kernel disagree")?;
    let (native, out) = (native(ctx)?, ctx.operand(last)?);
    let given = (0..last).map(|k| ctx.operand(k)).collect::<Result<Vec<_>>>()?;
    let specs = specs(&given)?;
    let kernel = FusedKernel::new(&Program::of(ctx.attrs())?, &specs, Guards::default())?;
    let overlap = OverlapCopies::new(native, out);
    let mut inputs = Vec::with_capacity(given.len());
    for x in given {
        // SAFETY: `KernelCtx::new` promises valid operands.
        inputs.push(if is_same(&x, &out) { x } else { unsafe { overlap.resolve(x) }? });
    }
    // SAFETY: as above; copies are in scratch memory of the stream.
    unsafe { kernel.launch(native, &inputs, out) }
}

/// The numbers that decide whether a program in place runs, and that it sets.
#[derive(Clone, Copy, Default)]
pub(super) struct Guards {
    /// The dtype of an element that keeps all tensors as they are if it is not 0.
    pub(super) unless: Option<DType>,
    /// Whether an f32 is set to 1 if an element of the first input is not finite.
    pub(super) found: bool,
}

/// The source of a program for inputs of given dtypes and shapes.
pub(super) struct FusedKernel {
    name: String,
    body: String,
    /// The numbers that the source reads from its arguments.
    words: Vec<i64>,
}

impl FusedKernel {
    /// Returns the kernel of a program, whose operands are its inputs, its result if it has one,
    /// and the elements of the guards.
    ///
    /// # Errors
    /// The program does not fit these inputs: schema and kernel disagree.
    pub(super) fn new(
        program: &Program,
        inputs: &[TensorSpec],
        guards: Guards,
    ) -> Result<FusedKernel> {
        let results = program.infer(inputs)?;
        let is_fresh = program.makes_result();
        let next = inputs.len() + usize::from(is_fresh);
        let parts = Parts::new(program, inputs, &results, guards, |k| match k {
            Operand::Input(k) => format!(
                "DATA({}, {k})[offset(args, {k}, position, 0, args.rank)]",
                element(inputs[k].dtype)
            ),
            Operand::Unless(dtype) => format!("DATA({}, {next})[0]", element(dtype)),
            Operand::Found => {
                format!("DATA(float, {})[0]", next + usize::from(guards.unless.is_some()))
            }
        })?;
        let store = match results.last().filter(|_| is_fresh) {
            Some(last) => format!(
                "        DATA({}, {k})[offset(args, {k}, position, 0, args.rank)] = result{};\n",
                element(last.dtype),
                results.len() - 1,
                k = inputs.len(),
            ),
            None => String::new(),
        };
        let Parts { functions, once, each, words } = parts;
        let body = format!(
            r#"{functions}extern "C" __global__ void KERNEL(const StridedArgs args) {{
    Coordinates position = coordinates(args, 0, 0, args.rank);
{once}    for (u64 index = THREAD; index < args.count; index += THREADS) {{
        position = coordinates(args, index, 0, args.rank);
{each}{store}    }}
}}
"#
        );
        // The name stands for the source.
        let name = format!("ms_fused_{}", &blake3::hash(body.as_bytes()).to_hex()[..16]);
        Ok(FusedKernel { name, body, words })
    }

    fn source(&self) -> Result<CString> {
        let own = self.body.replace("KERNEL", &self.name);
        Ok(CString::new([&*argument_block(), MATH, include_str!("fused.cu"), &*own].concat())?)
    }

    /// Launches the kernel; one for each index of the first dimension if a kernel does not support
    /// as many dimensions.
    ///
    /// # Errors
    /// [`Unsupported`], or an error of the compiler or the driver.
    ///
    /// # Safety
    /// The tensors are valid until the kernel has run, which is ordered against all other uses of
    /// them. No two indices of `out` address the same element. Each input is `out` itself or shares
    /// no memory with it.
    unsafe fn launch(
        &self,
        native: &NativeStream,
        inputs: &[RawTensor<'_>],
        out: RawTensor<'_>,
    ) -> Result<()> {
        let all: Vec<RawTensor<'_>> = inputs.iter().copied().chain([out]).collect();
        // SAFETY: the caller's promise.
        unsafe { self.launch_over(native, &all, out) }
    }

    /// Launches as [`FusedKernel::launch`] does, over the elements of `out`, with all operands in
    /// order.
    ///
    /// # Errors
    /// As for [`FusedKernel::launch`].
    ///
    /// # Safety
    /// As for [`FusedKernel::launch`]; operands that are written share no memory with others.
    pub(super) unsafe fn launch_over(
        &self,
        native: &NativeStream,
        all: &[RawTensor<'_>],
        out: RawTensor<'_>,
    ) -> Result<()> {
        let rank = out.shape.len();
        let operands: Vec<StridedOperand<'_>> =
            all.iter().map(|&x| StridedOperand::broadcast(x, out.shape)).collect();
        let args = match StridedArgs::new(out.shape, rank, &operands) {
            Err(error) if error.is::<Unsupported>() && rank > MAX_RANK => {
                for index in 0..out.shape[0] {
                    let mut all = all.to_vec();
                    for x in all.iter_mut().filter(|x| x.shape.len() == rank) {
                        *x = elementwise::slice(x, index);
                    }
                    // SAFETY: the caller's promise, of parts of the same tensors.
                    unsafe { self.launch_over(native, &all, elementwise::slice(&out, index)) }?;
                }
                return Ok(());
            }
            args => args?.integers(&self.words)?,
        };
        // SAFETY: the kernel accesses the elements of the tensors, as the caller promises. Where an
        // input is the output, each thread reads an element before it writes it.
        unsafe { launch::launch_items(native, &self.name, || self.source(), args.count, args) }
    }
}

/// An operand in a source.
#[derive(Clone, Copy)]
pub(super) enum Operand {
    Input(usize),
    Unless(DType),
    Found,
}

/// The parts of a source that depend on the program.
pub(super) struct Parts {
    /// A function for each step, with the type that it computes in.
    pub(super) functions: String,
    /// The code before the loop over elements.
    pub(super) once: String,
    /// The code for an element: loads, calls of the functions, stores of changed inputs.
    pub(super) each: String,
    /// The numbers that the source reads from its arguments.
    pub(super) words: Vec<i64>,
}

impl Parts {
    /// Returns the parts for inputs of these specs. `place` returns the place of an operand's
    /// element in the code.
    ///
    /// # Errors
    /// The program does not fit these inputs: schema and kernel disagree.
    pub(super) fn new(
        program: &Program,
        inputs: &[TensorSpec],
        results: &[TensorSpec],
        guards: Guards,
        place: impl Fn(Operand) -> String,
    ) -> Result<Parts> {
        let written = program.written();
        let lead = match written.first() {
            Some(&k) => Some(&inputs[k]),
            None => results.last(),
        };
        let lead = lead.context("a program has a step")?.layout.rank();
        let is_single = |spec: &TensorSpec| lead > 0 && spec.layout.rank() == 0;
        let mut source = StepSources::default();
        for (k, step) in program.steps().iter().enumerate() {
            let of_step = step.out_of_place(results[k].dtype);
            let operands = of_step.operand_specs(inputs, &results[..k]);
            source.is_once = is_single(&results[k]);
            source.add(k, &of_step, &operands, results[k].dtype)?;
            let target = match step.target() {
                Some(Value::Input(input)) => format!("input{input}"),
                Some(Value::Step(of)) => format!("result{of}"),
                None => continue,
            };
            writeln!(source.calls(), "        {target} = result{k};")?;
        }
        let StepSources { functions, calls: [once_calls, each_calls], words, .. } = source;
        let (mut once, mut each) = (String::new(), String::new());
        if let Some(dtype) = guards.unless {
            writeln!(once, "        if (carry({}) != 0) return;", place(Operand::Unless(dtype)))?;
        }
        for (k, x) in inputs.iter().enumerate() {
            let to = if is_single(x) { &mut once } else { &mut each };
            let (e, from) = (element(x.dtype), place(Operand::Input(k)));
            writeln!(to, "        {e} input{k} = {from};")?;
        }
        if guards.found {
            // The difference of an infinity, or of NaN, with itself is not 0.
            let found = place(Operand::Found);
            writeln!(each, "        if (carry(input0) - carry(input0) != 0) {found} = 1.0f;")?;
        }
        once += &once_calls;
        each += &each_calls;
        for &k in &written {
            writeln!(each, "        {} = input{k};", place(Operand::Input(k)))?;
        }
        Ok(Parts { functions, once, each, words })
    }
}

/// The parts of a source that depend on the steps.
#[derive(Default)]
struct StepSources {
    functions: String,
    /// The calls of these functions, before the loop over elements and in it.
    calls: [String; 2],
    /// Whether the step is computed before the loop.
    is_once: bool,
    words: Vec<i64>,
}

impl StepSources {
    fn calls(&mut self) -> &mut String {
        &mut self.calls[usize::from(!self.is_once)]
    }

    fn add(&mut self, k: usize, step: &Step, operands: &[TensorSpec], out: DType) -> Result<()> {
        let value = |at: usize| match step.operands.get(at) {
            Some(Value::Input(input)) => Ok(format!("input{input}")),
            Some(Value::Step(of)) => Ok(format!("result{of}")),
            None => bail!("{step}: operand {at} is missing: schema and kernel disagree"),
        };
        let e = element(out);
        if step.op == "cast" && operands[0].dtype == out {
            writeln!(self.calls(), "        {e} result{k} = {};", value(0)?)?;
            return Ok(());
        }
        let function = elementwise::function(&step.op)?;
        let types = operands.iter().map(|x| (x.dtype, x.layout.rank())).collect::<Vec<_>>();
        let tensor = |at: usize| types.get(at).copied().context("too few operands");
        let inputs = elementwise::inputs(function, &step.attrs, tensor)?;
        let (kernel, scalars) = match &*step.op {
            "cast" => (copy::cast_kernel(operands[0].dtype, out)?, Vec::new()),
            _ => elementwise::describe(function, &step.attrs, &inputs, out)?,
        };
        let Elementwise { common, rounded, computed, function, .. } = kernel;
        let width = common.size() * 8;
        write!(
            self.functions,
            "namespace step{k} {{\n\
             typedef {t} T;\n\
             __device__ inline T apply(T x, T y, T z, T a, T b, T c) {{\n    \
             const int width = {width};\n    \
             (void)x; (void)y; (void)z; (void)a; (void)b; (void)c; (void)width;\n    \
             return (T)({function});\n\
             }}\n\
             }}\n",
            t = element(computed)
        )?;
        writeln!(self.calls(), "        {e} result{k};\n        {{")?;
        writeln!(self.calls(), "            typedef step{k}::T T;")?;
        let mut next = 0;
        let mut given = Vec::new();
        for input in &inputs {
            given.push(match *input {
                Input::Tensor((dtype, _)) => {
                    let via = element(if dtype == common { computed } else { common });
                    next += 1;
                    format!("read<T, {via}>({})", value(next - 1)?)
                }
                Input::Number(v) => {
                    let via =
                        element(if common.is_float() && !rounded { computed } else { common });
                    format!("read<T, {via}>({})", self.number(k, given.len(), v, computed)?)
                }
            });
        }
        given.resize(3, "(T)0".to_owned());
        for (at, scalar) in scalars.iter().enumerate() {
            given.push(self.number(k, 3 + at, *scalar, computed)?);
        }
        given.resize(6, "(T)0".to_owned());
        let given = given.join(", ");
        writeln!(self.calls(), "            result{k} = Cast<{e}>::of(step{k}::apply({given}));")?;
        writeln!(self.calls(), "        }}")?;
        Ok(())
    }

    /// Declares argument `at` of step `k` and returns its name. A program with more numbers than
    /// the argument block holds has the others in its source.
    fn number(&mut self, k: usize, at: usize, v: Scalar, computed: DType) -> Result<String> {
        let word = match computed {
            DType::I64 => from_scalar::<i64>(v),
            DType::F32 => f64::from(from_scalar::<f32>(v)).to_bits().cast_signed(),
            _ => from_scalar::<f64>(v).to_bits().cast_signed(),
        };
        let word = match self.words.len() {
            MAX_INTEGERS => format!("(long long)0x{:x}ull", word.cast_unsigned()),
            index => {
                self.words.push(word);
                format!("args.integers[{index}]")
            }
        };
        let name = format!("number{k}_{at}");
        writeln!(self.calls(), "            T {name}; number({word}, {name});")?;
        Ok(name)
    }
}

/// Returns sources of a few programs: of several types of computations, and with more numbers than
/// an argument block holds.
pub(super) fn sources() -> Vec<(String, CString)> {
    use DType::{BF16, Bool, F16, F32, F64, I8, I32};
    let many: Vec<String> =
        (0..MAX_INTEGERS + 2).map(|k| format!("mul(#{k}|other={k}.5)")).collect();
    let many = ["neg(%0)".to_owned()].into_iter().chain(many).collect::<Vec<_>>().join(";");
    let programs: [(&str, &[DType]); 5] = [
        ("tanh(%0);mul(#0,%1);add(#1,%2|alpha=2)", &[F32, F32, F32]),
        ("cast(%0|dtype=f16);gelu(#0|approximate=\"tanh\");clamp(#1|min=-1,max=2)", &[F64]),
        ("gt(%0|other=0.5);where(#0,%1,%2);pow(#1|exponent=2)", &[BF16, I32, I8]),
        ("__lshift__(%0|other=3);bitwise_and(#0,%1);cast(%1|dtype=bool);add(#1,#2)", &[I32, Bool]),
        (&many, &[F16]),
    ];
    let source = |(text, dtypes): &(&str, &[DType])| {
        let spec = |dtype: &DType| TensorSpec::contiguous(*dtype, &[2, 3]);
        let inputs = dtypes.iter().map(spec).collect::<Result<Vec<_>, _>>()?;
        let kernel = FusedKernel::new(&Program::parse(text)?, &inputs, Guards::default())?;
        anyhow::Ok((kernel.name.clone(), kernel.source()?))
    };
    programs.iter().filter_map(|program| source(program).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_has_a_source() {
        assert_eq!(sources().len(), 5);
    }

    #[test]
    fn numbers_are_arguments_and_do_not_change_the_source() {
        let kernel = |text: &str| {
            let x = TensorSpec::contiguous(DType::F32, &[4]).unwrap();
            FusedKernel::new(&Program::parse(text).unwrap(), &[x], Guards::default()).unwrap()
        };
        let (one, other) = (kernel("add(%0|other=1.5)"), kernel("add(%0|other=2.5)"));
        assert_eq!(one.name, other.name);
        assert!(one.words != other.words);
        assert!(one.name != kernel("sub(%0|other=1.5)").name);
    }
}
