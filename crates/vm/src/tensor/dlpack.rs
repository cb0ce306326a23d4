//! Tensors in host memory for other libraries, by DLPack's `DLManagedTensor`.
//!
//! Source: <https://dmlc.github.io/dlpack/latest/c_api.html>. The structure is that before version
//! 1, which PyTorch, NumPy, JAX and CuPy accept in a capsule called `dltensor`.

use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use millstream_types::{Access, DType, Error, Result, TensorSpec};

use crate::api::handle::Tensor;
use crate::emission::origin;

use super::Place;

/// The number of host memory among DLPack's kinds of devices.
const CPU: i32 = 1;

#[repr(C)]
struct Device {
    kind: i32,
    index: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Type {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct Described {
    data: *mut c_void,
    device: Device,
    rank: i32,
    dtype: Type,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct Managed {
    tensor: Described,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

/// What an exported tensor needs for as long as it is used.
struct Kept {
    _tensor: Tensor,
    /// The lengths, and the strides in elements.
    shape: Vec<i64>,
    strides: Vec<i64>,
}

/// The numbers of the kinds of elements: signed integers, unsigned ones, floats, bfloat16, bool,
/// complex numbers.
const CODES: [u8; 6] = [0, 1, 2, 4, 6, 5];

const fn type_of(dtype: DType) -> Type {
    let code = match dtype {
        DType::I64 | DType::I32 | DType::I16 | DType::I8 => CODES[0],
        DType::U8 => CODES[1],
        DType::F64 | DType::F32 | DType::F16 => CODES[2],
        DType::BF16 => CODES[3],
        DType::Bool => CODES[4],
        DType::C64 | DType::C128 => CODES[5],
    };
    Type { code, bits: 8 * dtype.size() as u8, lanes: 1 }
}

fn dtype_of(of: Type) -> Option<DType> {
    let same = |dtype: &DType| {
        let known = type_of(*dtype);
        (known.code, known.bits, known.lanes) == (of.code, of.bits, of.lanes)
    };
    DType::ALL.into_iter().find(same)
}

fn invalid(message: impl Into<String>) -> Error {
    Error::Invalid { what: "DLPack tensor", message: message.into() }
}

/// A tensor lent to another library. It keeps the tensor's memory until it is dropped, or until
/// the library that got it calls its deleter.
pub struct DlPack(NonNull<Managed>);

// SAFETY: what the structure points to is only read, and its context, a `Kept`, is `Send`.
unsafe impl Send for DlPack {}

impl DlPack {
    /// Returns the address of the `DLManagedTensor`, whose deleter the caller has to call.
    pub fn into_raw(self) -> *mut c_void {
        let raw = self.0.as_ptr().cast();
        std::mem::forget(self);
        raw
    }
}

impl Drop for DlPack {
    fn drop(&mut self) {
        // SAFETY: the structure is that of `Tensor::to_dlpack`, and nothing uses it after this.
        unsafe { delete(self.0.as_ptr()) };
    }
}

impl fmt::Debug for DlPack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DlPack")
    }
}

/// # Safety
/// `managed` comes from `Tensor::to_dlpack`, and is not used after this.
unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: both were made by `Box::into_raw`, and the caller gives them up.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Kept>()));
    }
}

impl Tensor {
    /// Lends the tensor's memory to another library, without a copy. Blocks until the elements are
    /// computed. The machine does not know of the library's uses: make no calls that write the
    /// tensor while it has it.
    ///
    /// # Errors
    /// The tensor lies in no host memory, or the failure that poisoned it.
    #[track_caller]
    pub fn to_dlpack(&self) -> Result<DlPack> {
        let origin = origin::caller();
        let address: Arc<Mutex<usize>> = Arc::default();
        let found = address.clone();
        let accessed = self.access_at(Access::Read, origin.clone(), move |blob| {
            *found.lock().unwrap_or_else(PoisonError::into_inner) = blob.address();
            Ok(())
        })?;
        accessed.wait_at(None, origin)?;
        let layout = &self.spec().layout;
        let ints = |list: &[usize]| list.iter().map(|&v| v as i64).collect::<Vec<i64>>();
        let (shape, strides) = (ints(layout.shape()), ints(layout.strides()));
        let mut kept = Box::new(Kept { _tensor: self.clone(), shape, strides });
        let address = *address.lock().unwrap_or_else(PoisonError::into_inner);
        let tensor = Described {
            data: address as *mut c_void,
            device: Device { kind: CPU, index: 0 },
            rank: self.rank() as i32,
            dtype: type_of(self.dtype()),
            shape: kept.shape.as_mut_ptr(),
            strides: kept.strides.as_mut_ptr(),
            byte_offset: 0,
        };
        let context = Box::into_raw(kept).cast();
        let managed = Box::new(Managed { tensor, context, deleter: Some(delete) });
        Ok(DlPack(NonNull::from(Box::leak(managed))))
    }

    /// Returns a copy of another library's tensor in host memory, and calls its deleter. A machine
    /// plans all of its memory, so the elements are copied once.
    ///
    /// # Safety
    /// `managed` is the address of a `DLManagedTensor`, whose memory is valid and not written
    /// during this call, and which nothing uses after it.
    ///
    /// # Errors
    /// The tensor lies in other memory, has a dtype that Millstream lacks or negative strides, or
    /// the memory is used up. The deleter is called in any case.
    #[track_caller]
    pub unsafe fn from_dlpack(managed: *mut c_void, place: impl Place) -> Result<Tensor> {
        /// Calls the deleter.
        struct Delete(*mut Managed);
        impl Drop for Delete {
            fn drop(&mut self) {
                // SAFETY: the caller's promise.
                unsafe {
                    if let Some(deleter) = (*self.0).deleter {
                        deleter(self.0);
                    }
                }
            }
        }
        let origin = origin::caller();
        let delete = Delete(managed.cast());
        // SAFETY: the caller's promise.
        let tensor = unsafe { &(*delete.0).tensor };
        let copy = || {
            let dtype = dtype_of(tensor.dtype).ok_or_else(|| {
                let Type { code, bits, lanes } = tensor.dtype;
                invalid(format!("no dtype has code {code}, {bits} bits and {lanes} lanes"))
            })?;
            if tensor.device.kind != CPU {
                return Err(invalid("it lies in no host memory; copy it there first"));
            }
            let rank = usize::try_from(tensor.rank).map_err(|_| invalid("a negative rank"))?;
            let read = |list: *const i64| -> Vec<i64> {
                // SAFETY: the caller's promise: the structure lists `rank` numbers.
                (0..rank).map(|k| unsafe { list.add(k).read() }).collect()
            };
            let lengths = |list: Vec<i64>| -> Result<Vec<usize>> {
                let number = |v: i64| usize::try_from(v).map_err(|_| invalid("a negative stride"));
                list.into_iter().map(number).collect()
            };
            let shape = lengths(read(tensor.shape))?;
            let dense = TensorSpec::contiguous(dtype, &shape)?;
            let strides = match tensor.strides.is_null() {
                true => dense.layout.strides().to_vec(),
                false => lengths(read(tensor.strides))?,
            };
            let size = dtype.size();
            let start = tensor.data.cast::<u8>().wrapping_add(tensor.byte_offset as usize);
            let mut bytes = Vec::with_capacity(dense.numel() * size);
            for number in 0..dense.numel() {
                let (mut at, mut rest) = (0, number);
                for (&length, &stride) in shape.iter().zip(&strides).rev() {
                    at += rest % length * stride;
                    rest /= length;
                }
                // SAFETY: the caller's promise: the memory holds the elements at their strides.
                let element = unsafe { std::slice::from_raw_parts(start.add(at * size), size) };
                bytes.extend_from_slice(element);
            }
            let stream = place.stream()?;
            place.machine().upload_at(&stream, dense, bytes, origin.clone())
        };
        copy().map_err(|e: Error| e.at(&origin))
    }
}
