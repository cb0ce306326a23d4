//! The cuBLAS handle of a stream: its workspace and its matrix products.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

use anyhow::{Result, bail};

use millstream_types::DType;

use super::library::{CublasLibrary, RawHandle};
use super::{Gemm, Matrices};
use crate::cuda::driver::{Context, DeviceBlock, RawStream};

/// Math mode: sums of f16 and bf16 are rounded only once, at their end.
const DISALLOW_REDUCED_PRECISION_REDUCTION: c_int = 16;

/// `CUBLAS_GEMM_DEFAULT`: the library chooses the algorithm.
const DEFAULT: c_int = -1;

/// The handle of one stream.
pub(in crate::cuda) struct Handle {
    raw: RawHandle,
    library: &'static CublasLibrary,
    context: Arc<Context>,
    /// Dropped after the handle, which uses it.
    workspace: Option<DeviceBlock>,
}

// SAFETY: any thread may use a handle, one at a time: every use borrows it mutably.
unsafe impl Send for Handle {}

/// Returns the bytes of workspace that cuBLAS recommends for a compute capability.
///
/// Source: <https://docs.nvidia.com/cuda/cublas/>, "cublasSetWorkspace".
fn workspace(capability: (i32, i32)) -> usize {
    if capability.0 >= 9 { 32 << 20 } else { 4 << 20 }
}

/// Returns the `cudaDataType_t` of a dtype.
fn data_type(dtype: DType) -> Result<c_int> {
    Ok(match dtype {
        DType::F32 => 0,
        DType::F64 => 1,
        DType::F16 => 2,
        DType::BF16 => 14,
        other => bail!("cuBLAS products support f16, bf16, f32 and f64, not {other}"),
    })
}

/// Returns the `cublasComputeType_t`: f64, f32, or f32 with factors in TF32.
fn compute_type(dtype: DType, tf32: bool) -> c_int {
    match (dtype, tf32) {
        (DType::F64, _) => 70,
        (DType::F32, true) => 77,
        _ => 68,
    }
}

impl Handle {
    /// Creates the handle of a stream.
    ///
    /// # Errors
    /// The library is missing, the device is out of memory, or the device is lost.
    pub(in crate::cuda) fn new(
        stream: &RawStream,
        driver: i32,
        capability: (i32, i32),
    ) -> Result<Handle> {
        let library = CublasLibrary::get(driver)?;
        let context = stream.context().clone();
        context.enter()?;
        let mut raw = null_mut();
        // SAFETY: the context is current; the library writes a handle.
        library.check("cublasCreate_v2", unsafe { (library.create)(&raw mut raw) })?;
        // Constructed now, so that an error below destroys the handle.
        let mut handle = Handle { raw, library, context, workspace: None };
        let bytes = workspace(capability);
        let block = DeviceBlock::new(handle.context.clone(), bytes)?;
        // SAFETY: handle and stream are alive; `NativeStream` drops the handle before the stream.
        let code = unsafe { (library.set_stream)(raw, stream.raw()) };
        library.check("cublasSetStream_v2", code)?;
        let address = block.address() as *mut c_void;
        handle.workspace = Some(block);
        // After `set_stream`, which resets the workspace.
        // SAFETY: the block is `bytes` long, and lives as long as the handle.
        let code = unsafe { (library.set_workspace)(raw, address, bytes) };
        library.check("cublasSetWorkspace_v2", code)?;
        // SAFETY: the handle is alive.
        let code = unsafe { (library.set_math)(raw, DISALLOW_REDUCED_PRECISION_REDUCTION) };
        library.check("cublasSetMathMode", code)?;
        Ok(handle)
    }

    /// Launches a matrix product on the handle's stream.
    ///
    /// # Errors
    /// The library's error, or it does not support the matrices.
    ///
    /// # Safety
    /// The matrices are valid until the product has run, and the product is ordered against all
    /// other uses of them. The elements of `out` are distinct, and none is in `x` or `y`.
    pub(in crate::cuda) unsafe fn gemm(&mut self, gemm: &Gemm, tf32: bool) -> Result<()> {
        gemm.check()?;
        if gemm.is_empty() {
            return Ok(());
        }
        self.context.enter()?;
        let Gemm { x, y, out, .. } = gemm;
        let compute = compute_type(x.dtype, tf32);
        // In the type of the computation, on the host. The call reads them before it returns.
        let wide = [gemm.alpha, gemm.beta];
        let narrow = wide.map(|v| v as f32);
        let [alpha, beta]: [*const c_void; 2] = match x.dtype {
            DType::F64 => wide.each_ref().map(|v| std::ptr::from_ref(v).cast()),
            _ => narrow.each_ref().map(|v| std::ptr::from_ref(v).cast()),
        };
        // The library expects column-major matrices and reads a row-major one as its transpose.
        // For a row-major result it therefore computes outᵀ = yᵀ xᵀ.
        let (a, b, m, n) = match out.column_major {
            true => (x, y, gemm.m, gemm.n),
            false => (y, x, gemm.n, gemm.m),
        };
        let [transpose_a, transpose_b] =
            [a, b].map(|matrix| c_int::from(matrix.column_major != out.column_major));
        let [m, n, k, batch] = [m, n, gemm.k, gemm.batch].map(|length| length as i64);
        let [a, b, c] = [a, b, out].map(|matrices| {
            let Matrices { data, leading_dimension, batch_stride, .. } = *matrices;
            (data.cast(), leading_dimension as i64, batch_stride as i64)
        });
        let types = (data_type(x.dtype)?, data_type(out.dtype)?);
        // The library may split one product in more ways than a batch, so one has its own call.
        if batch == 1 {
            // SAFETY: guaranteed by the caller; the dimensions are those of the matrices.
            let code = unsafe {
                (self.library.gemm)(
                    self.raw,
                    transpose_a,
                    transpose_b,
                    m,
                    n,
                    k,
                    alpha,
                    a.0,
                    types.0,
                    a.1,
                    b.0,
                    types.0,
                    b.1,
                    beta,
                    c.0,
                    types.1,
                    c.1,
                    compute,
                    DEFAULT,
                )
            };
            return Ok(self.library.check("cublasGemmEx_64", code)?);
        }
        // SAFETY: as above.
        let code = unsafe {
            (self.library.gemm_batch)(
                self.raw,
                transpose_a,
                transpose_b,
                m,
                n,
                k,
                alpha,
                a.0,
                types.0,
                a.1,
                a.2,
                b.0,
                types.0,
                b.1,
                b.2,
                beta,
                c.0,
                types.1,
                c.1,
                c.2,
                batch,
                compute,
                DEFAULT,
            )
        };
        Ok(self.library.check("cublasGemmStridedBatchedEx_64", code)?)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let destroy = || {
            // SAFETY: created by this value, and destroyed once.
            let code = unsafe { (self.library.destroy)(self.raw) };
            self.library.check("cublasDestroy_v2", code)
        };
        self.context.destroy(destroy);
    }
}
