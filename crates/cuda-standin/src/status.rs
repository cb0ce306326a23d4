//! The answers of cuBLAS, by the numbers and names of `cublas_api.h`.

macro_rules! statuses {
    ($($name:ident = $number:literal, $words:literal;)*) => {
        $(
            #[doc = $words]
            pub const $name: u32 = $number;
        )*

        /// The name in `cublas_api.h`, with the zero that ends it, and what it means.
        pub(crate) fn words(status: u32) -> Option<(&'static str, &'static str)> {
            match status {
                0 => Some(("CUBLAS_STATUS_SUCCESS\0", "no error\0")),
                $($number => Some((
                    concat!("CUBLAS_STATUS_", stringify!($name), "\0"),
                    concat!($words, "\0"),
                )),)*
                _ => None,
            }
        }
    };
}

statuses! {
    NOT_INITIALIZED = 1, "the library was not initialized";
    ALLOC_FAILED = 3, "the resource allocation failed";
    INVALID_VALUE = 7, "an unsupported value or parameter was passed to the function";
    ARCH_MISMATCH = 8, "the device has an invalid compute capability";
    MAPPING_ERROR = 11, "an access to GPU memory space failed";
    EXECUTION_FAILED = 13, "the GPU program failed to execute";
    INTERNAL_ERROR = 14, "an internal operation failed";
    NOT_SUPPORTED = 15, "the functionality requested is not supported";
}
