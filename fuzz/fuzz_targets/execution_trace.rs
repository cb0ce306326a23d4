//! Imports bytes as an execution trace of PyTorch's, and makes lists of what could be imported.
//!
//! `cargo +nightly fuzz run execution_trace fuzz/corpus/execution_trace tests/traces/own`

#![no_main]

use libfuzzer_sys::fuzz_target;
use millstream::trace::{EtOptions, LoadOptions, load_bytes};

fuzz_target!(|bytes: &[u8]| {
    let et = EtOptions { structural: true, ..Default::default() };
    let options = LoadOptions { max_bytes: 1 << 22, max_items: 1 << 14, et };
    // As the reader of native traces has a target of its own.
    let mut trace = b"{\"schema\": \"1.1.1\", ".to_vec();
    trace.extend_from_slice(bytes);
    for bytes in [bytes, &trace] {
        if let Err(error) = load_bytes("fuzz", bytes, None, &options) {
            assert!(!error.to_string().is_empty());
        }
    }
});
