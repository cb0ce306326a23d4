//! Conversions of elements that follow one another in memory.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    _MM_FROUND_TO_NEAREST_INT, _mm_loadu_si128, _mm_storeu_si128, _mm256_cvtph_ps, _mm256_cvtps_ph,
    _mm256_loadu_ps, _mm256_storeu_ps,
};

use half::f16;
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
    #[cfg(target_arch = "x86_64")]
    {
        if has_avx2() && is_x86_feature_detected!("f16c") {
            if S::DTYPE == DType::F32 && T::DTYPE == DType::F16 {
                // SAFETY: guaranteed by the caller; these are the types of the elements, and the
                // processor has these instructions.
                return unsafe { narrow(from.cast(), to.cast(), count) };
            }
            if S::DTYPE == DType::F16 && T::DTYPE == DType::F32 {
                // SAFETY: as above.
                return unsafe { widen(from.cast(), to.cast(), count) };
            }
        }
        if has_avx2() {
            // SAFETY: guaranteed by the caller; the processor has these instructions.
            return unsafe { convert_dense_avx2::<S, T>(from, to, count) };
        }
    }
    // SAFETY: guaranteed by the caller.
    unsafe { each(from, to, count) };
}

/// The elements that one instruction converts.
#[cfg(target_arch = "x86_64")]
const AT_ONCE: usize = 8;

/// Converts with the instructions of the processor, which give the bits of `half_float`.
///
/// # Safety
/// As for `convert_dense`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn narrow(from: *const f32, to: *mut f16, count: usize) {
    let whole = count - count % AT_ONCE;
    for at in (0..whole).step_by(AT_ONCE) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let values =
                _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(from.add(at)));
            _mm_storeu_si128(to.add(at).cast(), values);
        }
    }
    // SAFETY: as above.
    unsafe { each(from.add(whole), to.add(whole), count - whole) };
}

/// As `narrow`, to f32.
///
/// # Safety
/// As for `convert_dense`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn widen(from: *const f16, to: *mut f32, count: usize) {
    let whole = count - count % AT_ONCE;
    for at in (0..whole).step_by(AT_ONCE) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let values = _mm256_cvtph_ps(_mm_loadu_si128(from.add(at).cast()));
            _mm256_storeu_ps(to.add(at), values);
        }
    }
    // SAFETY: as above.
    unsafe { each(from.add(whole), to.add(whole), count - whole) };
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
