//! Stream policies, a stream type, an op and a kernel from outside the workspace's crates: the
//! examples run.

#[path = "../../examples/custom_policy.rs"]
#[allow(dead_code, reason = "an example is a program of its own")]
mod custom_policy;
#[path = "../../examples/custom_stream_type.rs"]
#[allow(dead_code, reason = "an example is a program of its own")]
mod custom_stream_type;

#[test]
fn the_example_runs() {
    let report = custom_policy::run().unwrap();
    assert_eq!(report.result, [1.0, 4.0, 9.0]);
    assert_eq!(report.named, ["cpu:0 compute 7"]);
    assert_eq!(report.workers, 2);
}

#[test]
fn a_stream_type_from_outside_runs_through_the_api() {
    assert_eq!(custom_stream_type::call().unwrap(), (vec![1.0, 0.0, 3.0], 2));
}

#[test]
fn a_stream_type_from_outside_runs_in_a_trace_and_in_its_list() {
    let (report, list) = custom_stream_type::from_trace().unwrap();
    assert!(report.ok(), "{report:?}");
    let streams: Vec<String> = report.streams.iter().map(|s| s.key.to_string()).collect();
    assert!(streams.contains(&"cpu:0 background 0".to_owned()), "{streams:?}");
    let declared = "cpu:0 background 0 in-order runs compute\n";
    assert!(list.contains(declared), "{list}");
    custom_stream_type::verify(&list).unwrap();

    // The verifier judges by what the list's text says.
    let barrier = list.replace(declared, "cpu:0 background 0 in-order runs barrier\n");
    let refused = custom_stream_type::verify(&barrier).unwrap_err().to_string();
    assert!(refused.contains("WrongStream"), "{refused}");

    // The same type in a raw list.
    let raw = |work: &str| {
        format!(
            r#"{{"millstream": 1,
              "tensors": {{"x": {{"dtype": "f32", "values": [1, -2, 3]}}}},
              "instructions": [
                "millstream-list 1",
                "stream s0 cpu:0 background 0 in-order runs {work}",
                "arena a0 cpu:0",
                "external %0 \"x\" f32[3] in 12 bytes of a0",
                "OpCall s0:1 neg_ (%0 readwrite)"
              ],
              "outputs": {{"x": {{"dtype": "f32", "values": [-1, 2, -3]}}}}}}"#
        )
    };
    let report = custom_stream_type::run(&raw("compute")).unwrap();
    assert!(report.ok(), "{report:?}");
    let refused = custom_stream_type::run(&raw("compute, collective")).unwrap_err().to_string();
    assert!(refused.contains("background streams run compute here"), "{refused}");
}

#[test]
fn a_stream_type_without_a_policy_is_refused_before_anything_runs() {
    let trace = |ty: &str| {
        format!(
            r#"{{"millstream": 1, "streams": {{"a": {{"type": "{ty}"}}}}, "program": [{{"barrier": true}}]}}"#
        )
    };
    let refused = |ty| custom_stream_type::run(&trace(ty)).unwrap_err().to_string();
    for (ty, meant) in [("compte", "compute"), ("backgroud", "background")] {
        let said = refused(ty);
        assert!(said.contains(&format!("unknown stream type '{ty}'")), "{said}");
        assert!(said.contains(&format!("'{meant}'")), "{said}");
    }
    assert!(custom_stream_type::run(&trace("background")).unwrap().ok());
}
