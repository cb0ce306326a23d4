//! The errors of cuBLAS, with the numbers and names of `cublas_api.h`.

crate::code::codes! {
    "CUBLAS_STATUS_", "CUBLAS_STATUS_SUCCESS";
    NOT_INITIALIZED = 1, "the library was not initialized";
    ALLOC_FAILED = 3, "the resource allocation failed";
    INVALID_VALUE = 7, "an unsupported value or parameter was passed to the function";
    ARCH_MISMATCH = 8, "the device has an invalid compute capability";
    MAPPING_ERROR = 11, "an access to GPU memory space failed";
    EXECUTION_FAILED = 13, "the GPU program failed to execute";
    INTERNAL_ERROR = 14, "an internal operation failed";
    NOT_SUPPORTED = 15, "the functionality requested is not supported";
}
