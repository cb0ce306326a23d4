//! A stream's handle: its workspace, and its products.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

use anyhow::{Result, bail};

use millstream_types::DType;

use super::Gemm;
use super::library::{Library, Raw};
use crate::cuda::driver::{Context, DeviceBlock, RawStream};

/// Sums of f16 and bf16 are not rounded before they are whole.
const DISALLOW_REDUCED_PRECISION_REDUCTION: c_int = 16;

/// `CUBLAS_GEMM_DEFAULT`: the library chooses the algorithm.
const DEFAULT: c_int = -1;

/// A handle, for one stream.
pub(in crate::cuda) struct Handle {
    raw: Raw,
    library: &'static Library,
    context: Arc<Context>,
    /// Not needed once the handle is gone, so after it.
    workspace: Option<DeviceBlock>,
}

// SAFETY: a handle may be used from any thread, by one at a time: every use borrows it mutably.
unsafe impl Send for Handle {}

/// The bytes of workspace that cuBLAS recommends for a compute capability.
///
/// Source: <https://docs.nvidia.com/cuda/cublas/>, "cublasSetWorkspace".
fn workspace(capability: (i32, i32)) -> usize {
    if capability.0 >= 9 { 32 << 20 } else { 4 << 20 }
}

/// `cudaDataType_t`.
fn data_type(dtype: DType) -> Result<c_int> {
    Ok(match dtype {
        DType::F32 => 0,
        DType::F64 => 1,
        DType::F16 => 2,
        DType::BF16 => 14,
        other => bail!("cuBLAS multiplies no {other} here"),
    })
}

/// `cublasComputeType_t`: f64, f32, or f32 with factors in TF32.
fn compute_type(dtype: DType, tf32: bool) -> c_int {
    match (dtype, tf32) {
        (DType::F64, _) => 70,
        (DType::F32, true) => 77,
        _ => 68,
    }
}

impl Handle {
    /// The handle of a stream.
    ///
    /// # Errors
    /// There is no library, no memory, or the device is lost.
    pub(in crate::cuda) fn new(
        stream: &RawStream,
        driver: i32,
        capability: (i32, i32),
    ) -> Result<Handle> {
        let library = Library::get(driver)?;
        let context = stream.context().clone();
        context.enter()?;
        let mut raw = null_mut();
        // SAFETY: the context is the thread's; the library writes a handle.
        library.check("cublasCreate_v2", unsafe { (library.create)(&raw mut raw) })?;
        // From here on a failure destroys it.
        let mut handle = Handle { raw, library, context, workspace: None };
        let bytes = workspace(capability);
        let block = DeviceBlock::new(handle.context.clone(), bytes)?;
        // SAFETY: handle and stream are alive; whoever holds the stream drops the handle first.
        let code = unsafe { (library.set_stream)(raw, stream.raw()) };
        library.check("cublasSetStream_v2", code)?;
        let address = block.address() as *mut c_void;
        handle.workspace = Some(block);
        // After the stream, which makes it forget the workspace.
        // SAFETY: the block is as long as said, and lives as long as the handle.
        let code = unsafe { (library.set_workspace)(raw, address, bytes) };
        library.check("cublasSetWorkspace_v2", code)?;
        // SAFETY: the handle is alive.
        let code = unsafe { (library.set_math)(raw, DISALLOW_REDUCED_PRECISION_REDUCTION) };
        library.check("cublasSetMathMode", code)?;
        Ok(handle)
    }

    /// Launches a product on the handle's stream.
    ///
    /// # Errors
    /// The library's, or matrices that it does not multiply.
    ///
    /// # Safety
    /// The matrices are valid until the product has run, and it is ordered against all other uses of
    /// them. No element of `out` is named twice or is one of `x` or `y`.
    pub(in crate::cuda) unsafe fn gemm(&mut self, gemm: &Gemm, tf32: bool) -> Result<()> {
        gemm.check()?;
        if gemm.is_empty() {
            return Ok(());
        }
        self.context.enter()?;
        let Gemm { x, y, out, .. } = gemm;
        let compute = compute_type(x.dtype, tf32);
        // In the type that is computed in, on the host; read before the call returns.
        let wide = [gemm.alpha, gemm.beta];
        let narrow = wide.map(|v| v as f32);
        let factors: [*const c_void; 2] = match x.dtype {
            DType::F64 => wide.each_ref().map(|v| std::ptr::from_ref(v).cast()),
            _ => narrow.each_ref().map(|v| std::ptr::from_ref(v).cast()),
        };
        // The library counts by columns: what lies row after row is the transposed matrix to it, so
        // for such a result it is asked for outᵀ = yᵀ xᵀ.
        let (a, b, m, n) = match out.by_columns {
            true => (x, y, gemm.m, gemm.n),
            false => (y, x, gemm.n, gemm.m),
        };
        let turned = [a, b].map(|of| c_int::from(of.by_columns != out.by_columns));
        let [m, n, k, batch] = [m, n, gemm.k, gemm.batch].map(|length| length as i64);
        let [a, b, c] = [a, b, out].map(|of| (of.data.cast(), of.leading as i64, of.step as i64));
        let [factor, kept] = factors;
        let types = (data_type(x.dtype)?, data_type(out.dtype)?);
        // One product may be cut in ways in which several are not.
        if batch == 1 {
            // SAFETY: the caller's promise; the dimensions are those of the matrices.
            let code = unsafe {
                (self.library.gemm)(
                    self.raw, turned[0], turned[1], m, n, k, factor, a.0, types.0, a.1, b.0,
                    types.0, b.1, kept, c.0, types.1, c.1, compute, DEFAULT,
                )
            };
            return Ok(self.library.check("cublasGemmEx_64", code)?);
        }
        // SAFETY: as above.
        let code = unsafe {
            (self.library.gemm_batch)(
                self.raw, turned[0], turned[1], m, n, k, factor, a.0, types.0, a.1, a.2, b.0,
                types.0, b.1, b.2, kept, c.0, types.1, c.1, c.2, batch, compute, DEFAULT,
            )
        };
        Ok(self.library.check("cublasGemmStridedBatchedEx_64", code)?)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let destroy = || {
            // SAFETY: made by this value, destroyed once.
            let code = unsafe { (self.library.destroy)(self.raw) };
            self.library.check("cublasDestroy_v2", code)
        };
        self.context.destroy(destroy);
    }
}
