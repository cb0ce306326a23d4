//! Imports bytes as a PyTorch execution trace.
//!
//! Seeds: the uncompressed `et.json.gz` files of `tests/traces`.
//!
//! `cargo +nightly fuzz run execution_trace fuzz/corpus/execution_trace -- -max_len=8192`

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use millstream_trace::{EtOptions, LoadOptions, load_bytes};

/// The structural import skips nodes that cannot be executed, so that inputs get further.
static OPTIONS: LazyLock<LoadOptions> = LazyLock::new(|| {
    let et = EtOptions { structural: true, ..Default::default() };
    LoadOptions { max_bytes: 1 << 22, max_items: 1 << 14, et }
});

fuzz_target!(|bytes: &[u8]| {
    // The prefix selects this format: `native_trace` covers the reader of native traces.
    let mut trace = b"{\"schema\": \"1.1.1\", ".to_vec();
    trace.extend_from_slice(bytes);
    for bytes in [bytes, &trace] {
        if let Err(error) = load_bytes("fuzz", bytes, None, &OPTIONS) {
            assert!(!error.to_string().is_empty());
        }
    }
});
