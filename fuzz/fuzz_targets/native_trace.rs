//! Loads bytes as a native trace, and materializes its small tensors.
//!
//! `cargo +nightly fuzz run native_trace fuzz/corpus/native_trace examples/traces`

#![no_main]

use libfuzzer_sys::fuzz_target;
use millstream_trace::{LoadOptions, load_bytes};

fuzz_target!(|bytes: &[u8]| {
    let options = LoadOptions { max_bytes: 1 << 24, max_items: 1 << 16, ..Default::default() };
    match load_bytes("fuzz", bytes, None, &options) {
        Ok(program) => {
            for tensor in program.tensors.iter().filter(|t| t.storage_bytes < 1 << 20) {
                let made = tensor.materialize().expect("a small tensor without a sidecar file");
                assert_eq!(made.len(), tensor.storage_bytes);
            }
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            if let Some(excerpt) = error.excerpt() {
                assert!(excerpt.text.get(excerpt.span.clone()).is_some());
            }
        }
    }
});
