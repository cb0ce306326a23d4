//! The dtypes of safetensors files, with the feature `safetensors`.

use safetensors::tensor::Dtype;

use crate::dtype::DType;

/// Returns the dtype that a safetensors file has for elements of this one. The format lacks c128:
/// its elements are pairs of f64 there, along one dimension more.
pub const fn in_safetensors(dtype: DType) -> Dtype {
    match dtype {
        DType::F32 => Dtype::F32,
        DType::F64 | DType::C128 => Dtype::F64,
        DType::C64 => Dtype::C64,
        DType::F16 => Dtype::F16,
        DType::BF16 => Dtype::BF16,
        DType::I64 => Dtype::I64,
        DType::I32 => Dtype::I32,
        DType::I16 => Dtype::I16,
        DType::I8 => Dtype::I8,
        DType::U8 => Dtype::U8,
        DType::U16 => Dtype::U16,
        DType::U32 => Dtype::U32,
        DType::U64 => Dtype::U64,
        DType::Bool => Dtype::BOOL,
    }
}

/// Returns the dtype of elements that a safetensors file holds; none if Millstream lacks it.
pub fn of_safetensors(dtype: Dtype) -> Option<DType> {
    DType::ALL.into_iter().find(|own| in_safetensors(*own) == dtype)
}
