//! The driver's errors, with the numbers and names of `cuda.h`.

/// Defines the codes of a library's errors, with the beginning of their names, and
/// `name_and_meaning`.
macro_rules! codes {
    ($prefix:literal, $success:literal; $($name:ident = $number:literal, $meaning:literal;)*) => {
        $(
            #[doc = $meaning]
            pub const $name: u32 = $number;
        )*

        /// Returns the name in the library's header and the description, each with a final zero.
        pub(crate) fn name_and_meaning(code: u32) -> Option<(&'static str, &'static str)> {
            match code {
                0 => Some((concat!($success, "\0"), "no error\0")),
                $($number => {
                    let name = concat!($prefix, stringify!($name), "\0");
                    Some((name, concat!($meaning, "\0")))
                })*
                _ => None,
            }
        }
    };
}
pub(crate) use codes;

codes! {
    "CUDA_ERROR_", "CUDA_SUCCESS";
    INVALID_VALUE = 1, "invalid argument";
    OUT_OF_MEMORY = 2, "out of memory";
    NOT_INITIALIZED = 3, "initialization error";
    DEINITIALIZED = 4, "driver shutting down";
    STUB_LIBRARY = 34, "CUDA driver is a stub library";
    NO_DEVICE = 100, "no CUDA-capable device is detected";
    INVALID_DEVICE = 101, "invalid device ordinal";
    INVALID_IMAGE = 200, "device kernel image is invalid";
    INVALID_CONTEXT = 201, "invalid device context";
    PEER_ACCESS_UNSUPPORTED = 217, "peer access is not supported between these two devices";
    INVALID_HANDLE = 400, "invalid resource handle";
    ILLEGAL_STATE = 401, "the operation cannot be performed in the present state";
    NOT_FOUND = 500, "named symbol not found";
    NOT_READY = 600, "device not ready";
    ILLEGAL_ADDRESS = 700, "an illegal memory access was encountered";
    LAUNCH_OUT_OF_RESOURCES = 701, "too many resources requested for launch";
    PEER_ACCESS_ALREADY_ENABLED = 704, "peer access is already enabled";
    ASSERT = 710, "device-side assert triggered";
    TOO_MANY_PEERS = 711, "peer mapping resources exhausted";
    LAUNCH_FAILED = 719, "unspecified launch failure";
    NOT_SUPPORTED = 801, "operation not supported";
    STREAM_CAPTURE_UNSUPPORTED = 900, "operation not permitted when stream is capturing";
    STREAM_CAPTURE_INVALIDATED = 901, "operation failed due to a previous error during capture";
    STREAM_CAPTURE_MERGE = 902, "operation would result in a merge of separate capture sequences";
    STREAM_CAPTURE_UNMATCHED = 903, "capture was not ended in the same stream as it began";
    STREAM_CAPTURE_UNJOINED = 904, "capturing stream has unjoined work";
    STREAM_CAPTURE_ISOLATION = 905, "dependency created on uncaptured work in another stream";
    CAPTURED_EVENT = 907, "operation not permitted on an event last recorded in a capturing stream";
    STREAM_CAPTURE_WRONG_THREAD = 908, "attempt to terminate a thread-local capture sequence from \
        another thread";
    GRAPH_EXEC_UPDATE_FAILURE = 910, "the graph update was not performed because it included \
        changes which violated constraints specific to instantiated graph update";
    UNKNOWN = 999, "unknown error";
}

/// The code of a successful call.
pub const SUCCESS: u32 = 0;
