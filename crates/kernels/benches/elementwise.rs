//! The time of elementwise kernels: `cargo bench -p millstream-kernels --bench elementwise`.
#![allow(missing_docs, reason = "a benchmark has no readers of its items")]

use divan::Bencher;
use millstream_kernels::{KernelCtx, KernelSpec, Operands, RawTensor, standard};
use millstream_ops::{CallSpec, OutputSpec};
use millstream_types::{Attrs, DType, TensorSpec};

fn main() {
    divan::main();
}

/// A call on contiguous operands in memory of its own.
struct Call {
    op: &'static str,
    attrs: Attrs,
    specs: Vec<TensorSpec>,
    memory: Vec<Vec<u64>>,
}

impl Call {
    fn new(op: &'static str, dtype: DType, inputs: &[&[usize]], attrs: Attrs) -> Call {
        let spec = |shape: &&[usize]| TensorSpec::contiguous(dtype, shape).unwrap();
        let mut specs: Vec<TensorSpec> = inputs.iter().map(spec).collect();
        let ops = millstream_ops::standard();
        let schema = ops.get(ops.id(op).unwrap()).unwrap();
        let signature = schema.check(CallSpec { inputs: &specs, attrs: &attrs }).unwrap();
        for output in signature.outputs {
            if let OutputSpec::Fresh(spec) = output {
                specs.push(spec);
            }
        }
        let memory = specs.iter().map(|spec| vec![0; spec.span_bytes().div_ceil(8)]).collect();
        Call { op, attrs, specs, memory }
    }

    fn addresses(&mut self) -> Vec<*mut u8> {
        self.memory.iter_mut().map(|m| m.as_mut_ptr().cast()).collect()
    }

    fn bench_run(mut self, bencher: Bencher<'_, '_>) {
        let kernels = standard();
        let kernel = kernels.get("cpu", self.op).unwrap();
        let addresses = self.addresses();
        let operands = Given { specs: &self.specs, addresses };
        let run = || {
            let none = (std::ptr::null_mut(), 0);
            // SAFETY: the operands are memory of this call, and nothing else uses them.
            let ctx = unsafe { KernelCtx::new(&operands, &self.attrs, none, None, &()) };
            kernel.run(&ctx).unwrap();
        };
        // The first call touches the memory. It would mislead divan's choice of a sample size.
        run();
        bencher.bench_local(run);
    }

    fn bench_prepared(mut self, bencher: Bencher<'_, '_>) {
        let kernels = standard();
        let kernel = kernels.get("cpu", self.op).unwrap();
        let addresses = self.addresses();
        let spec = KernelSpec { operands: &self.specs, attrs: &self.attrs };
        let prepared = kernel.prepare(spec).unwrap();
        // SAFETY: the operands are memory of this call, and nothing else uses them.
        let run = || unsafe { prepared.run(&addresses, None) }.unwrap();
        run();
        bencher.bench_local(run);
    }
}

struct Given<'a> {
    specs: &'a [TensorSpec],
    addresses: Vec<*mut u8>,
}

impl Operands for Given<'_> {
    fn len(&self) -> usize {
        self.specs.len()
    }

    fn get(&self, index: usize) -> RawTensor<'_> {
        let (spec, data) = (&self.specs[index], self.addresses[index]);
        let layout = &spec.layout;
        RawTensor { data, dtype: spec.dtype, shape: layout.shape(), strides: layout.strides() }
    }
}

const SIZES: [usize; 4] = [16, 4096, 1_000_000, 16_000_000];

/// The limit of the others: the same bytes moved as by an op of one tensor.
#[divan::bench(args = SIZES)]
fn copy_nonoverlapping(bencher: Bencher<'_, '_>, n: usize) {
    let (from, mut to) = (vec![1f32; n], vec![0f32; n]);
    bencher.bench_local(|| divan::black_box(&mut to[..]).copy_from_slice(divan::black_box(&from)));
}

fn calls(case: &str, n: usize) -> Call {
    let attrs = Attrs::new;
    match case {
        "add" => Call::new("add", DType::F32, &[&[n], &[n]], attrs()),
        "add_" => Call::new("add_", DType::F32, &[&[n], &[n]], attrs()),
        "mul" => Call::new("mul", DType::F32, &[&[n], &[n]], attrs()),
        "sub" => Call::new("sub", DType::F32, &[&[n], &[n]], attrs()),
        "add_number" => Call::new("add", DType::F32, &[&[n]], attrs().with("other", 2.5)),
        "mul_scalar" => Call::new("mul", DType::F32, &[&[n], &[]], attrs()),
        "add_row" => Call::new("add", DType::F32, &[&[n / 16, 16], &[16]], attrs()),
        "add_i32" => Call::new("add", DType::I32, &[&[n], &[n]], attrs()),
        "add_bf16" => Call::new("add", DType::BF16, &[&[n], &[n]], attrs()),
        "relu" => Call::new("relu", DType::F32, &[&[n]], attrs()),
        "gelu" => Call::new("gelu", DType::F32, &[&[n]], attrs()),
        "exp" => Call::new("exp", DType::F32, &[&[n]], attrs()),
        "tanh" => Call::new("tanh", DType::F32, &[&[n]], attrs()),
        "eq" => Call::new("eq", DType::F32, &[&[n], &[n]], attrs()),
        "addcmul" => Call::new("addcmul", DType::F32, &[&[n], &[n], &[n]], attrs()),
        "cast" => Call::new("cast", DType::F32, &[&[n]], attrs().with("dtype", DType::F16)),
        "clone" => Call::new("clone", DType::F32, &[&[n]], attrs()),
        "fill" => Call::new("fill", DType::F32, &[&[n]], attrs().with("value", 1.0)),
        other => panic!("no case {other}"),
    }
}

/// Defines the benchmarks of a case: `run`, as the machine calls a kernel, and `prepared`.
macro_rules! cases {
    ($($case:ident)*) => {$(
        mod $case {
            use super::*;

            #[divan::bench(args = SIZES)]
            fn run(bencher: Bencher<'_, '_>, n: usize) {
                calls(stringify!($case), n).bench_run(bencher);
            }

            #[divan::bench(args = SIZES)]
            fn prepared(bencher: Bencher<'_, '_>, n: usize) {
                calls(stringify!($case), n).bench_prepared(bencher);
            }
        }
    )*};
}

/// Eight steps on two tensors.
const CHAIN: [(&str, [usize; 2]); 8] = [
    ("mul", [0, 1]),
    ("add", [2, 1]),
    ("relu", [3, 3]),
    ("sub", [4, 0]),
    ("mul", [5, 5]),
    ("maximum", [6, 1]),
    ("add", [7, 0]),
    ("neg", [8, 8]),
];

/// A chain as one program, and as one call for each step.
mod chain {
    use super::*;

    #[divan::bench(args = SIZES)]
    fn fused(bencher: Bencher<'_, '_>, n: usize) {
        let value = |k: usize| if k < 2 { format!("%{k}") } else { format!("#{}", k - 2) };
        let steps = CHAIN.map(|(op, [x, y])| match op {
            "relu" | "neg" => format!("{op}({})", value(x)),
            _ => format!("{op}({},{})", value(x), value(y)),
        });
        let attrs = Attrs::new().with("program", steps.join(";").as_str());
        Call::new("fused", DType::F32, &[&[n], &[n]], attrs).bench_prepared(bencher);
    }

    #[divan::bench(args = SIZES)]
    fn one_by_one(bencher: Bencher<'_, '_>, n: usize) {
        let kernels = standard();
        let spec = TensorSpec::contiguous(DType::F32, &[n]).unwrap();
        let mut memory = vec![vec![0f32; n]; CHAIN.len() + 2];
        let at: Vec<*mut u8> = memory.iter_mut().map(|m| m.as_mut_ptr().cast()).collect();
        let step = |(k, (op, [x, y])): (usize, (&str, [usize; 2]))| {
            let operands = match op {
                "relu" | "neg" => vec![at[x], at[k + 2]],
                _ => vec![at[x], at[y], at[k + 2]],
            };
            let specs = vec![spec.clone(); operands.len()];
            let call = KernelSpec { operands: &specs, attrs: &Attrs::new() };
            (kernels.get("cpu", op).unwrap().prepare(call).unwrap(), operands)
        };
        let steps: Vec<_> = CHAIN.into_iter().enumerate().map(step).collect();
        let run = || {
            for (prepared, operands) in &steps {
                // SAFETY: the operands are memory of this call, and nothing else uses them.
                unsafe { prepared.run(operands, None) }.unwrap();
            }
        };
        run();
        bencher.bench_local(run);
    }
}

cases! {
    add add_ mul sub add_number mul_scalar add_row add_i32 add_bf16 relu tanh gelu exp eq addcmul cast clone
    fill
}
