//! Reads bytes as a timeline of another program: Kineto's JSON, Chakra's messages and JSON.
//!
//! Seeds: `crates/timelines/tests/bugs` and `crates/timelines/tests/seeds`.
//!
//! `cargo +nightly fuzz run timeline fuzz/corpus/timeline crates/timelines/tests/bugs
//! crates/timelines/tests/seeds -- -max_len=8192`

#![no_main]

use libfuzzer_sys::fuzz_target;
use millstream_profile::columns;
use millstream_timelines::read_bytes;

fuzz_target!(|bytes: &[u8]| {
    // The first prefix selects Kineto's reader, the second one that of Chakra's messages.
    let prefixes: [&[u8]; 3] = [b"", b"{\"traceEvents\": [", b"\x07\x0a\x050.0.4"];
    for prefix in prefixes {
        let whole = [prefix, bytes].concat();
        match read_bytes("fuzz", whole) {
            Ok(timeline) => {
                let written = columns::write(&timeline.profile);
                assert!(columns::read(&written).is_ok());
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
});
