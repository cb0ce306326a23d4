//! Functions that are also compiled for AVX2 and AVX-512, of which the best that the processor has
//! is chosen at run time.

/// Returns whether the processor has AVX2 and fused multiply-adds.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

/// Returns whether the processor has the parts of AVX-512 that `vectorised!` uses.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && has_avx2()
}

/// Defines functions of one type parameter whose loops are compiled for each instruction set. All
/// give the same bits: the compiler neither reorders sums nor fuses products into them. Functions
/// that they call must be inlined (`#[inline(always)]`) to be compiled with them.
macro_rules! vectorised {
    ($(
        $(#[$doc:meta])*
        $vis:vis fn $name:ident<$t:ident: $bound:path>(
            $($arg:ident: $ty:ty),* $(,)?
        ) $(-> $ret:ty)? $body:block
    )*) => {$(
        $(#[$doc])*
        $vis fn $name<$t: $bound>($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            fn plain<$t: $bound>($($arg: $ty),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2<$t: $bound>($($arg: $ty),*) $(-> $ret)? {
                plain::<$t>($($arg),*)
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,avx512f,avx512dq,avx512bw,avx512vl")]
            fn avx512<$t: $bound>($($arg: $ty),*) $(-> $ret)? {
                plain::<$t>($($arg),*)
            }

            #[cfg(target_arch = "x86_64")]
            {
                if crate::cpu::vectorised::has_avx512() {
                    // SAFETY: the processor has these instructions.
                    return unsafe { avx512::<$t>($($arg),*) };
                }
                if crate::cpu::vectorised::has_avx2() {
                    // SAFETY: the processor has these instructions.
                    return unsafe { avx2::<$t>($($arg),*) };
                }
            }
            plain::<$t>($($arg),*)
        }
    )*};
}
pub(crate) use vectorised;
