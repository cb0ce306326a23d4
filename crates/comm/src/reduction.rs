//! Reductions in the order of the ranks, whose bits depend on nothing else.
//!
//! Floats of 16 bits are computed in f32 and rounded once. Integers wrap. Complex numbers, of which
//! only sums and means are taken, are pairs of floats.

use bytemuck::Pod;
use half::{bf16, f16};
use millstream_ops::collective::ReduceOp;
use millstream_types::DType;

use crate::buffer::Buffer;
use crate::error::CommError;

/// How many elements are reduced at once: their sums stay in the fastest cache.
const CHUNK: usize = 1024;

/// An element, and the type of its sums.
trait Number: Pod {
    type Wide: Copy + PartialOrd;
    const ZERO: Self::Wide;

    fn widen(self) -> Self::Wide;
    /// Rounds to nearest, ties to even.
    fn narrow(wide: Self::Wide) -> Self;
    fn plus(a: Self::Wide, b: Self::Wide) -> Self::Wide;
    fn times(a: Self::Wide, b: Self::Wide) -> Self::Wide;
    fn over(total: Self::Wide, ranks: usize) -> Self::Wide;
}

macro_rules! number {
    ($($t:ty, $wide:ty, $zero:expr, $widen:expr, $narrow:expr,
        $plus:expr, $times:expr, $over:expr;)*) => {$(
        impl Number for $t {
            type Wide = $wide;
            const ZERO: $wide = $zero;

            fn widen(self) -> $wide {
                $widen(self)
            }
            fn narrow(wide: $wide) -> $t {
                $narrow(wide)
            }
            fn plus(a: $wide, b: $wide) -> $wide {
                $plus(a, b)
            }
            fn times(a: $wide, b: $wide) -> $wide {
                $times(a, b)
            }
            fn over(total: $wide, ranks: usize) -> $wide {
                $over(total, ranks)
            }
        }
    )*};
}

/// Converts nothing: the type computes in itself.
fn same<T>(v: T) -> T {
    v
}

/// Leaves the total of integers, which have no mean.
fn whole<T>(total: T, _: usize) -> T {
    total
}

number! {
    f32, f32, 0.0, same, same, |a, b| a + b, |a, b| a * b, |t, n| t / n as f32;
    f64, f64, 0.0, same, same, |a, b| a + b, |a, b| a * b, |t, n| t / n as f64;
    f16, f32, 0.0, f16::to_f32, f16::from_f32, |a, b| a + b, |a, b| a * b, |t, n| t / n as f32;
    bf16, f32, 0.0, bf16::to_f32, bf16::from_f32, |a, b| a + b, |a, b| a * b, |t, n| t / n as f32;
    i64, i64, 0, same, same, i64::wrapping_add, i64::wrapping_mul, whole;
    i32, i32, 0, same, same, i32::wrapping_add, i32::wrapping_mul, whole;
    i16, i16, 0, same, same, i16::wrapping_add, i16::wrapping_mul, whole;
    i8, i8, 0, same, same, i8::wrapping_add, i8::wrapping_mul, whole;
    u8, u8, 0, same, same, u8::wrapping_add, u8::wrapping_mul, whole;
}

/// Reduces equal numbers of elements of each rank, which are given in the order of the ranks: each
/// a buffer and the number of its first element. The results replace the elements of `reduced`.
///
/// # Errors
/// A rank gave other elements.
pub(crate) fn reduce(
    parts: &[(&Buffer, usize)],
    mut reduced: Buffer,
    reduction: ReduceOp,
) -> Result<Buffer, CommError> {
    let out = reduced.elements();
    for (part, first) in parts {
        if part.dtype() != out.dtype || part.numel() < first + out.numel {
            return Err(CommError::new(format!("expected elements for {out}, got {part:?}")));
        }
    }
    let is_sum = matches!(reduction, ReduceOp::Sum | ReduceOp::Mean);
    if out.dtype.is_complex() && !is_sum {
        let message = format!("expected a sum or a mean of complex numbers, got {reduction:?}");
        return Err(CommError::new(message));
    }
    let of_pairs: Vec<(&Buffer, usize)>;
    let parts = match out.dtype.is_complex() {
        true => {
            of_pairs = parts.iter().map(|(part, first)| (*part, 2 * first)).collect();
            &of_pairs[..]
        }
        false => parts,
    };
    let reduce = match out.dtype.part() {
        DType::F32 => reduce_as::<f32>,
        DType::F64 => reduce_as::<f64>,
        DType::F16 => reduce_as::<f16>,
        DType::BF16 => reduce_as::<bf16>,
        DType::I64 => reduce_as::<i64>,
        DType::I32 => reduce_as::<i32>,
        DType::I16 => reduce_as::<i16>,
        DType::I8 => reduce_as::<i8>,
        // A bool is a byte, 0 or 1, and only its minimum and maximum are taken.
        DType::U8 | DType::Bool => reduce_as::<u8>,
        DType::U16 | DType::U32 | DType::U64 | DType::C64 | DType::C128 => {
            return Err(CommError::new(format!("expected numbers with arithmetic, got {out}")));
        }
    };
    reduce(parts, reduction, &mut reduced);
    Ok(reduced)
}

fn reduce_as<T: Number>(parts: &[(&Buffer, usize)], reduction: ReduceOp, out: &mut Buffer) {
    let Some((first, others)) = parts.split_first() else { return };
    let mut total = [T::ZERO; CHUNK];
    for (k, out) in out.values_mut::<T>().chunks_mut(CHUNK).enumerate() {
        let count = out.len();
        let range = |first: usize| first + k * CHUNK..first + k * CHUNK + count;
        let total = &mut total[..count];
        for (total, value) in total.iter_mut().zip(&first.0.values::<T>()[range(first.1)]) {
            *total = value.widen();
        }
        for &(other, first) in others {
            let values = other.values::<T>()[range(first)].iter().map(|value| value.widen());
            let each = total.iter_mut().zip(values);
            match reduction {
                ReduceOp::Sum | ReduceOp::Mean => each.for_each(|(t, v)| *t = T::plus(*t, v)),
                ReduceOp::Product => each.for_each(|(t, v)| *t = T::times(*t, v)),
                ReduceOp::Min => each.for_each(|(t, v)| *t = if v < *t { v } else { *t }),
                ReduceOp::Max => each.for_each(|(t, v)| *t = if v > *t { v } else { *t }),
            }
        }
        for (out, total) in out.iter_mut().zip(total.iter()) {
            let total = match reduction {
                ReduceOp::Mean => T::over(*total, parts.len()),
                _ => *total,
            };
            *out = T::narrow(total);
        }
    }
}
