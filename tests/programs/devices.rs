//! Programs whose tensors lie on several devices.

use millstream_runner::run;

use super::files::parse;
use super::run_trace::{assert_ok, ways};

/// A call without a stream runs where its operands lie. Operands of two devices are refused with
/// both, and with the stream of the copy.
#[test]
fn calls_without_a_stream_run_on_the_device_of_their_operands() {
    let text = |last: &str| {
        format!(
            r#"{{
  "millstream": 1,
  "streams": {{"in": {{"device": "sim:0", "type": "host2device"}}}},
  "tensors": {{
    "near": {{"dtype": "f32", "values": [1, -2], "device": "cpu:0"}},
    "far": {{"dtype": "f32", "values": [-3, 4], "device": "sim:0"}}
  }},
  "program": [
    {{"op": "relu", "in": "near", "out": "a"}},
    {{"op": "relu", "in": "far", "out": "b"}},
    {{"op": "neg", "in": "b", "out": "c"}},
    {{"op": "copy", "in": "a", "out": "there", "stream": "in"}},
    {{"op": "add", "in": ["there", "c"], "out": "d"}}{last}
  ],
  "outputs": {{"a": {{"values": [1, 0]}}, "d": {{"values": [1, -4]}}}}
}}"#
        )
    };
    for options in ways() {
        for replayed in [false, true] {
            assert_ok(&run(parse(&text("")), &options.clone().replay(replayed)).unwrap());
        }
        let mixed = parse(&text(r#", {"op": "add", "in": ["near", "far"], "out": "e"}"#));
        let refused = run(mixed, &options).unwrap_err();
        assert!(!refused.runtime);
        let refused = refused.to_string();
        for part in ["cpu:0", "sim:0", "copy it first, by the op copy on sim:0 "] {
            assert!(refused.contains(part), "{refused}");
        }
    }
}
