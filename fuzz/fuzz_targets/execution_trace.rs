//! Imports bytes as an execution trace of PyTorch's.
//!
//! Seeds: the `et.json.gz` of `tests/traces`, unpacked.
//!
//! `cargo +nightly fuzz run execution_trace fuzz/corpus/execution_trace -- -max_len=8192`

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use millstream::trace::{EtOptions, LoadOptions, load_bytes};

/// Nodes that cannot be executed are left out, so that more is reached.
static OPTIONS: LazyLock<LoadOptions> = LazyLock::new(|| {
    let et = EtOptions { structural: true, ..Default::default() };
    LoadOptions { max_bytes: 1 << 22, max_items: 1 << 14, et }
});

fuzz_target!(|bytes: &[u8]| {
    // As the reader of native traces has a target of its own.
    let mut trace = b"{\"schema\": \"1.1.1\", ".to_vec();
    trace.extend_from_slice(bytes);
    for bytes in [bytes, &trace] {
        if let Err(error) = load_bytes("fuzz", bytes, None, &OPTIONS) {
            assert!(!error.to_string().is_empty());
        }
    }
});
