//! Tensors in host memory for other libraries and from them, by DLPack.
//!
//! Source: <https://dmlc.github.io/dlpack/latest/c_api.html>. The structure that is lent is
//! `DLManagedTensor`, which PyTorch, NumPy, JAX and CuPy accept in a capsule called `dltensor`.
//! Taken are that one and `DLManagedTensorVersioned`, of capsules called `dltensor_versioned`.

mod lent;
mod taken;

use std::ffi::c_void;

use millstream_types::{DType, Error};

pub use lent::DlPack;

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

/// The numbers of the kinds of elements: signed integers, unsigned ones, floats, bfloat16, bool,
/// complex numbers.
const CODES: [u8; 6] = [0, 1, 2, 4, 6, 5];

const fn type_of(dtype: DType) -> Type {
    let code = match dtype {
        DType::I64 | DType::I32 | DType::I16 | DType::I8 => CODES[0],
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => CODES[1],
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
