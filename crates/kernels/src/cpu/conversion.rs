//! Conversions of elements that follow one another in memory, and of small matrices.

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

/// The distances between rows and between columns of a matrix, in elements.
pub(crate) type Steps = [isize; 2];

/// Returns the steps of a dense matrix whose lines run as those of a matrix with these steps.
pub(crate) fn dense_steps(like: Steps, [rows, columns]: [usize; 2]) -> Steps {
    if like[0] == 1 && like[1] != 1 { [1, rows as isize] } else { [columns as isize, 1] }
}

/// Converts a matrix of this many rows and columns.
///
/// # Safety
/// With their steps, the elements of `from` are valid for reads and those of `to` for writes, and
/// the two do not overlap.
pub(crate) unsafe fn convert_block<S: Element, T: Element>(
    [rows, columns]: [usize; 2],
    (from, [from_row, from_column]): (*const S, Steps),
    (to, [to_row, to_column]): (*mut T, Steps),
) {
    // Along the lines of the dense side.
    let (lines, count, from_line, to_line, from_step, to_step) =
        if to_row == 1 && to_column != 1 || from_row == 1 && from_column != 1 {
            (columns, rows, from_column, to_column, from_row, to_row)
        } else {
            (rows, columns, from_row, to_row, from_column, to_column)
        };
    for line in 0..lines as isize {
        let from = from.wrapping_offset(line * from_line);
        let to = to.wrapping_offset(line * to_line);
        // SAFETY: guaranteed by the caller.
        unsafe {
            if from_step == 1 && to_step == 1 {
                convert_dense(from, to, count);
                continue;
            }
            for at in 0..count as isize {
                let (from, to) =
                    (from.wrapping_offset(at * from_step), to.wrapping_offset(at * to_step));
                to.write(cast(from.read()));
            }
        }
    }
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
