//! The errors of cuBLAS, with the numbers and names of `cublas_api.h`.

macro_rules! statuses {
    ($($name:ident = $number:literal, $meaning:literal;)*) => {
        $(
            #[doc = $meaning]
            pub const $name: u32 = $number;
        )*

        /// Returns the name in `cublas_api.h` and the description, each with a final zero.
        pub(crate) fn name_and_meaning(status: u32) -> Option<(&'static str, &'static str)> {
            match status {
                0 => Some(("CUBLAS_STATUS_SUCCESS\0", "no error\0")),
                $($number => Some((
                    concat!("CUBLAS_STATUS_", stringify!($name), "\0"),
                    concat!($meaning, "\0"),
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
