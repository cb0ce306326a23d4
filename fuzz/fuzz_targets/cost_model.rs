//! Parses text as a cost model, and predicts the time of a list with every model that parses.
//!
//! `cargo +nightly fuzz run cost_model fuzz/corpus/cost_model examples/models`

#![no_main]

use libfuzzer_sys::fuzz_target;
use millstream::instructions::text::parse_list;
use millstream_explore::predict::{Model, predict};

const LIST: &str = "millstream-list 1
stream s0 sim:0 compute 0 in-order
stream s1 cpu:0 compute 0 in-order
arena a0 sim:0
external %0 \"x\" f32[4,4] in 64 bytes of a0
external %1 \"y\" f32[4,4] in 64 bytes of a0

OpCall s0:1 matmul (%0 read, %0 read, %1 write)
StreamWaitEvent s1:1 until s0:1 by-host
OpCall s1:2 relu (%1 read, %0 write)
";

fuzz_target!(|text: &str| {
    if let Ok(model) = Model::parse(text) {
        let list = parse_list(LIST).expect("a list");
        if let Ok(predicted) = predict("a list", &list, &model) {
            assert!(!format!("{predicted:?}").is_empty());
        }
    }
});
