//! Conversions of elements that follow one another in memory.

use half::f16;
use half::slice::HalfFloatSliceExt;
use millstream_types::DType;

use super::element::{Element, cast};
#[cfg(target_arch = "x86_64")]
use super::vectorised::has_avx2;

/// Converts elements that follow one another.
///
/// # Safety
/// `count` aligned elements are valid for reads from `from`, and outside of `to`, which is valid
/// for writes of as many.
pub(crate) unsafe fn convert_dense<S: Element, T: Element>(
    from: *const S,
    to: *mut T,
    count: usize,
) {
    // The crate `half` uses the processor's own conversions, which give the same bits.
    if S::DTYPE == DType::F32 && T::DTYPE == DType::F16 {
        // SAFETY: guaranteed by the caller; these are the types of the elements.
        return unsafe {
            let from = std::slice::from_raw_parts(from.cast::<f32>(), count);
            std::slice::from_raw_parts_mut(to.cast::<f16>(), count).convert_from_f32_slice(from);
        };
    }
    if S::DTYPE == DType::F16 && T::DTYPE == DType::F32 {
        // SAFETY: as above.
        return unsafe {
            let to = std::slice::from_raw_parts_mut(to.cast::<f32>(), count);
            std::slice::from_raw_parts(from.cast::<f16>(), count).convert_to_f32_slice(to);
        };
    }
    #[cfg(target_arch = "x86_64")]
    {
        if has_avx2() {
            // SAFETY: guaranteed by the caller; the processor has these instructions.
            return unsafe { convert_dense_avx2::<S, T>(from, to, count) };
        }
    }
    // SAFETY: guaranteed by the caller.
    unsafe { each(from, to, count) };
}

/// # Safety
/// As for `convert_dense`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn convert_dense_avx2<S: Element, T: Element>(from: *const S, to: *mut T, count: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { each(from, to, count) };
}

/// # Safety
/// As for `convert_dense`.
#[inline(always)]
unsafe fn each<S: Element, T: Element>(from: *const S, to: *mut T, count: usize) {
    for at in 0..count {
        // SAFETY: guaranteed by the caller.
        unsafe { to.add(at).write(cast(*from.add(at))) };
    }
}
