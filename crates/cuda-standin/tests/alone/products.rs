//! Tests of matrix products: the exact calls, a failure of each, and refused products.

use std::process::Command;

use libloading::{Library, Symbol};
use millstream::ep::cuda::CudaConfig;
use millstream::{DType, DeviceId, DriverKind, Machine, Result, Stream, Tensor, TensorSpec};
use millstream_backoff::wait_until;
use millstream_cuda_standin::control::Failure;
use millstream_cuda_standin::{code, status};

use crate::{machine, no_violations, nothing_is_open, read, stand_in};

const CUDA: DeviceId = DeviceId::cuda(0);

fn matrix(m: &Machine, on: &Stream, shape: &[usize], values: &[f32]) -> Result<Tensor> {
    let spec = TensorSpec::contiguous(DType::F32, shape)?;
    m.upload(on, spec, values.iter().flat_map(|v| v.to_ne_bytes()).collect())
}

fn call(m: &Machine, op: &str, inputs: &[&Tensor], on: &Stream) -> Result<Tensor> {
    Ok(m.call(op, inputs).on(on)?.remove(0))
}

/// Two products on one stream and one on another.
fn program(m: &Machine) -> Vec<Result<Vec<f32>>> {
    let outputs = (|| {
        let (s, t) = (m.compute(&CUDA, 0)?, m.compute(&CUDA, 1)?);
        let x = matrix(m, &s, &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?;
        let y = matrix(m, &s, &[3, 1], &[1.0, 0.0, -1.0])?;
        let a = call(m, "matmul", &[&x, &y], &s)?;
        let b = call(m, "addmm", &[&a, &x, &y], &s)?;
        let c = call(m, "matmul", &[&x, &y], &t)?;
        Ok(vec![read(&a), read(&b), read(&c)])
    })();
    outputs.unwrap_or_else(|error| vec![Err(error)])
}

const EXPECTED: [[f32; 2]; 3] = [[-2.0, -2.0], [-4.0, -4.0], [-2.0, -2.0]];

fn is_right(outputs: &[Result<Vec<f32>>]) -> bool {
    outputs.len() == 3 && outputs.iter().zip(EXPECTED).all(|(o, e)| *o == Ok(e.to_vec()))
}

/// Checks the calls of the library: one handle and one workspace for each stream.
#[test]
fn the_calls() {
    let turn = stand_in().turn();
    let m = machine(DriverKind::Inline, CudaConfig::default());
    assert!(is_right(&program(&m)));
    drop(m);
    no_violations();
    nothing_is_open();
    let is_shown = |call: &&String| call.starts_with("cublas") || call.contains("4194304) = m");
    let mut calls: Vec<String> = turn.calls().iter().filter(is_shown).cloned().collect();
    // Other allocations depend on the kernels loaded before, so workspaces are renumbered.
    let workspace = |call: &String| call.split_once("(4194304) = ").map(|(_, m)| m.to_owned());
    let workspaces: Vec<String> = calls.iter().filter_map(workspace).collect();
    for (k, block) in workspaces.iter().enumerate() {
        for call in &mut calls {
            *call = call.replace(&format!("= {block}"), &format!("= w{k}"));
            *call = call.replace(&format!(" {block},"), &format!(" w{k},"));
        }
    }
    insta::assert_snapshot!(calls.join("\n"), @r"
    cublasCreate_v2() = b0
    cuMemAlloc_v2(4194304) = w0
    cublasSetStream_v2(b0, s2)
    cublasSetWorkspace_v2(b0, w0, 4194304)
    cublasSetMathMode(b0, 16)
    cublasGemmEx_64(NN 1x2x3, f32, s2)
    cublasGemmEx_64(NN 1x2x3, f32, s2)
    cublasCreate_v2() = b1
    cuMemAlloc_v2(4194304) = w1
    cublasSetStream_v2(b1, s3)
    cublasSetWorkspace_v2(b1, w1, 4194304)
    cublasSetMathMode(b1, 16)
    cublasGemmEx_64(NN 1x2x3, f32, s3)
    cublasDestroy_v2(b0)
    cublasDestroy_v2(b1)
    ");
}

#[test]
fn tf32_is_configurable() {
    for (tf32, by) in [(false, 0), (true, 3)] {
        let turn = stand_in().turn();
        let m = machine(DriverKind::Inline, CudaConfig { tf32, ..CudaConfig::default() });
        assert!(is_right(&program(&m)));
        drop(m);
        assert_eq!(turn.calls().iter().filter(|call| call.contains("by tf32")).count(), by);
    }
}

/// Each call fails once at each of its positions: the error names it, and the machine continues.
#[test]
fn every_call_fails_once() {
    for (call, code, name) in [
        ("cublasCreate_v2", status::NOT_INITIALIZED, "CUBLAS_STATUS_NOT_INITIALIZED"),
        ("cublasSetStream_v2", status::INTERNAL_ERROR, "CUBLAS_STATUS_INTERNAL_ERROR"),
        ("cublasSetWorkspace_v2", status::INVALID_VALUE, "CUBLAS_STATUS_INVALID_VALUE"),
        ("cublasSetMathMode", status::INVALID_VALUE, "CUBLAS_STATUS_INVALID_VALUE"),
        ("cublasGemmEx_64", status::EXECUTION_FAILED, "CUBLAS_STATUS_EXECUTION_FAILED"),
        ("cublasGemmEx_64", status::NOT_SUPPORTED, "CUBLAS_STATUS_NOT_SUPPORTED"),
    ] {
        for after in 0..2 {
            let turn = stand_in().turn();
            let m = machine(DriverKind::Threaded, CudaConfig::default());
            turn.fail(Failure::once(call, after, code));
            let outputs = program(&m);
            let errors: Vec<String> =
                outputs.iter().filter_map(|o| o.as_ref().err()).map(ToString::to_string).collect();
            assert!(!errors.is_empty(), "{call} {after}");
            for error in errors {
                assert!(error.contains(&format!("{call}: {name}: ")), "{call} {after}: {error}");
            }
            let _ = m.synchronize();
            m.clear_failures();
            assert!(is_right(&program(&m)), "{call} {after}");
            drop(m);
            no_violations();
            nothing_is_open();
        }
    }
}

/// The device is lost: the library reports only that the product failed, and nothing hangs.
#[test]
fn the_device_is_lost() {
    for call in ["cublasCreate_v2", "cublasSetWorkspace_v2", "cublasGemmEx_64"] {
        let turn = stand_in().turn();
        let m = machine(DriverKind::Threaded, CudaConfig::default());
        turn.fail(Failure::lost(call, 0, code::LAUNCH_FAILED));
        let outputs = program(&m);
        assert!(outputs.iter().any(|output| output.is_err()), "{call}: {outputs:?}");
        drop(m);
        no_violations();
    }
}

/// Without the library, a product fails with the places that were searched; other ops run. In a
/// process of its own, because a process searches for the library once.
#[test]
fn without_the_library() {
    const ALONE: &str = "MILLSTREAM_TEST_WITHOUT_CUBLAS";
    if std::env::var_os(ALONE).is_none() {
        let mut test = Command::new(std::env::current_exe().unwrap());
        test.args(["--exact", "products::without_the_library"]);
        test.env(ALONE, "1").env("MILLSTREAM_CUBLAS", "/nowhere/libcublas.so.12");
        let output = test.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    let _turn = stand_in().turn();
    let m = machine(DriverKind::Inline, CudaConfig::default());
    let error = program(&m).remove(0).unwrap_err().to_string();
    for text in [
        "the library of matrix products, libcublas.so.12, was not found",
        "/nowhere/libcublas.so.12",
    ] {
        assert!(error.contains(text), "{error}");
    }
    m.clear_failures();
    let s = m.compute(&CUDA, 0).unwrap();
    let x = matrix(&m, &s, &[2], &[1.0, -2.0]).unwrap();
    assert_eq!(read(&call(&m, "relu", &[&x], &s).unwrap()).unwrap(), [1.0, 0.0]);
}

/// The library's functions, and a stream, a handle and memory to call them with.
struct Blas {
    library: Library,
    handle: u64,
    stream: u64,
    /// 1 MiB.
    memory: u64,
}

type Gemm = extern "C" fn(
    u64,
    i32,
    i32,
    i64,
    i64,
    i64,
    *const f32,
    u64,
    i32,
    i64,
    u64,
    i32,
    i64,
    *const f32,
    u64,
    i32,
    i64,
    i32,
    i32,
) -> i32;

impl Blas {
    fn open() -> Blas {
        // SAFETY: the stand-in is a library without constructors.
        let library = unsafe { Library::new("libcublas.so.12") }.unwrap();
        let mut blas = Blas { library, handle: 0, stream: 0, memory: 0 };
        let (mut context, mut stream, mut memory, mut handle) = (0u64, 0u64, 0u64, 0u64);
        assert_eq!(blas.call::<extern "C" fn(u32) -> u32>("cuInit")(0), 0);
        type Retain = extern "C" fn(*mut u64, i32) -> u32;
        assert_eq!(blas.call::<Retain>("cuDevicePrimaryCtxRetain")(&raw mut context, 0), 0);
        assert_eq!(blas.call::<extern "C" fn(u64) -> u32>("cuCtxSetCurrent")(context), 0);
        type Make = extern "C" fn(*mut u64, u32, i32) -> u32;
        assert_eq!(blas.call::<Make>("cuStreamCreateWithPriority")(&raw mut stream, 1, 0), 0);
        type Allocate = extern "C" fn(*mut u64, usize) -> u32;
        assert_eq!(blas.call::<Allocate>("cuMemAlloc_v2")(&raw mut memory, 1 << 20), 0);
        type Create = extern "C" fn(*mut u64) -> i32;
        assert_eq!(blas.call::<Create>("cublasCreate_v2")(&raw mut handle), 0);
        (blas.handle, blas.stream, blas.memory) = (handle, stream, memory);
        blas
    }

    fn call<F>(&self, name: &str) -> Symbol<'_, F> {
        // SAFETY: the tests name the functions by their types.
        unsafe { self.library.get(name.as_bytes()) }.unwrap()
    }

    fn stream(&self) {
        let set = self.call::<extern "C" fn(u64, u64) -> i32>("cublasSetStream_v2");
        assert_eq!(set(self.handle, self.stream), 0);
    }

    fn workspace(&self, at: u64, bytes: usize) -> i32 {
        let set = self.call::<extern "C" fn(u64, u64, usize) -> i32>("cublasSetWorkspace_v2");
        set(self.handle, at, bytes)
    }

    /// Computes the product of a 2 by 3 and a 3 by 2 matrix, column-major, at these offsets in the
    /// memory.
    fn gemm(&self, [a, b, c]: [u64; 3], leading: i64) -> i32 {
        let [one, zero] = [1.0f32, 0.0];
        let gemm = self.call::<Gemm>("cublasGemmEx_64");
        let [a, b, c] = [a, b, c].map(|at| self.memory + at);
        let (h, f) = (self.handle, 0);
        gemm(
            h,
            0,
            0,
            2,
            2,
            3,
            &raw const one,
            a,
            f,
            leading,
            b,
            f,
            3,
            &raw const zero,
            c,
            f,
            2,
            68,
            -1,
        )
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        self.call::<extern "C" fn(u64) -> i32>("cublasDestroy_v2")(self.handle);
        self.call::<extern "C" fn(u64) -> u32>("cuStreamDestroy_v2")(self.stream);
        wait_until(|| self.call::<extern "C" fn(u64) -> u32>("cuMemFree_v2")(self.memory) == 0);
        self.call::<extern "C" fn(i32) -> u32>("cuDevicePrimaryCtxRelease_v2")(0);
    }
}

/// A wrong call, its status, and a part of the violation's text; empty for an error of the library.
type Wrong = (fn(&Blas) -> i32, u32, &'static str);

#[test]
fn undefined_calls_are_refused() {
    let wrong: [Wrong; 9] = [
        (|b| b.gemm([1024, 2048, 4096], 2), status::NOT_INITIALIZED, "no stream"),
        (
            |b| {
                b.stream();
                b.gemm([1024, 2048, 4096], 2)
            },
            status::NOT_INITIALIZED,
            "no workspace",
        ),
        (|b| b.workspace(b.memory + 8, 1 << 16), status::INVALID_VALUE, ""),
        (|b| b.workspace(b.memory, 1 << 10), status::INVALID_VALUE, "too few"),
        (|b| b.workspace(b.memory, 2 << 20), status::INVALID_VALUE, "exceed its"),
        (|b| ready(b).gemm([1024, 2048, 4096], 1), status::INVALID_VALUE, ""),
        (|b| ready(b).gemm([1024, 2048, 2052], 2), status::INVALID_VALUE, "overlaps matrix 1"),
        (|b| ready(b).gemm([(1 << 20) - 8, 0, 4096], 2), status::EXECUTION_FAILED, "exceed its"),
        (|b| ready(b).gemm([1026, 2048, 4096], 2), status::INVALID_VALUE, "not aligned"),
    ];
    for (wrong, status, text) in wrong {
        let turn = stand_in().turn();
        let blas = Blas::open();
        assert_eq!(wrong(&blas), status as i32, "{text}");
        let violations = turn.violations();
        match text {
            "" => assert!(violations.is_empty(), "{violations:?}"),
            _ => assert!(violations.len() == 1 && violations[0].contains(text), "{violations:?}"),
        }
    }
}

/// Sets the handle's stream and workspace.
fn ready(blas: &Blas) -> &Blas {
    blas.stream();
    assert_eq!(blas.workspace(blas.memory + (1 << 18), 1 << 18), 0);
    blas
}

#[test]
fn a_destroyed_handle_and_one_workspace_for_two_streams() {
    let turn = stand_in().turn();
    let mut blas = Blas::open();
    ready(&blas);
    let (first, first_stream) = (blas.handle, blas.stream);
    let mut other = 0u64;
    let create = blas.call::<extern "C" fn(*mut u64) -> i32>("cublasCreate_v2");
    assert_eq!(create(&raw mut other), 0);
    let mut stream = 0u64;
    type Make = extern "C" fn(*mut u64, u32, i32) -> u32;
    assert_eq!(blas.call::<Make>("cuStreamCreateWithPriority")(&raw mut stream, 1, 0), 0);
    (blas.handle, blas.stream) = (other, stream);
    blas.stream();
    assert_eq!(blas.workspace(blas.memory + (1 << 18), 1 << 18), status::INVALID_VALUE as i32);
    assert!(turn.violations()[0].contains("on another stream"), "{:?}", turn.violations());
    let destroy = blas.call::<extern "C" fn(u64) -> i32>("cublasDestroy_v2");
    assert_eq!(destroy(other), 0);
    assert_eq!(blas.gemm([1024, 2048, 4096], 2), status::NOT_INITIALIZED as i32);
    assert!(turn.violations()[1].contains("no such handle"), "{:?}", turn.violations());
    assert_eq!(blas.call::<extern "C" fn(u64) -> u32>("cuStreamDestroy_v2")(stream), 0);
    (blas.handle, blas.stream) = (first, first_stream);
}
