//! Compares the kernels for NVIDIA devices, compiled for the host, with PyTorch's values: the same
//! reference values as for the host's kernels, by the rig of `gpu-check`. Calls that the values do
//! not cover are compared with the host's kernels.

use std::sync::{Arc, Mutex, OnceLock};

use anyhow::Result;
use millstream::ep::cuda::{CudaBackend, CudaConfig};
use millstream::ep::{Backend, Device};
use millstream_cuda_standin::compiles;
use millstream_gpu_check::ops::{self, large};
use millstream_kernels::cuda::Unsupported;
use millstream_kernels::{KernelCtx, KernelRegistry};
use millstream_testing::cases;
use millstream_types::DType;

millstream_testing::reference_tests!(run);

/// Runs an op's kernel for the device. If there is none, or it does not support the call, runs the
/// host's kernel and prints that.
fn run(op: &str, ctx: &KernelCtx<'_>) -> Result<()> {
    let host = kernels().get("cpu", op).expect("a kernel");
    if kernels().get("cuda", op).is_none() || !compiles() {
        println!("{op}: by the host");
        return host.run(ctx);
    }
    // Kernels are compiled for each dtype.
    let usual = [DType::F32, DType::I64, DType::Bool];
    let is_usual = (0..ctx.operands())
        .map(|k| ctx.operand(k))
        .collect::<Result<Vec<_>>>()?
        .iter()
        .all(|x| usual.contains(&x.dtype));
    if !is_usual && !cases(false, true) {
        return host.run(ctx);
    }
    match run_on_device(op, ctx) {
        Err(error) if error.is::<Unsupported>() => {
            println!("{op}: by the host: {error}");
            host.run(ctx)
        }
        result => result,
    }
}

fn run_on_device(op: &str, ctx: &KernelCtx<'_>) -> Result<()> {
    static ALONE: Mutex<Option<Arc<dyn Device>>> = Mutex::new(None);
    let device = {
        let mut device = ALONE.lock().expect("no test has panicked here");
        match &*device {
            Some(device) => device.clone(),
            None => device.insert(CudaBackend::new(CudaConfig::default()).open(0)?).clone(),
        }
    };
    ops::run(kernels(), &device, op, ctx)
}

fn kernels() -> &'static KernelRegistry {
    static KERNELS: OnceLock<KernelRegistry> = OnceLock::new();
    KERNELS.get_or_init(millstream_kernels::standard)
}

/// Each third case, or all.
#[test]
fn large_calls_agree_with_the_host() {
    if !compiles() {
        return println!("skipped: no C++ compiler");
    }
    let wrong: Vec<String> = large::cases(7)
        .iter()
        .step_by(cases(3, 1))
        .filter_map(|case| case.check(&run_on_device).err().map(|why| format!("{case}: {why}")))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn parts_of_random_tensors_have_the_bits_of_the_whole() {
    millstream_testing::kernels::check_random_parts(&run);
}
