//! The example with a stream policy, an op and a kernel from outside the workspace's crates runs.

#[path = "../../examples/custom_policy.rs"]
#[allow(dead_code, reason = "an example is a program of its own")]
mod custom_policy;

#[test]
fn the_example_runs() {
    let report = custom_policy::run().unwrap();
    assert_eq!(report.result, [1.0, 4.0, 9.0]);
    assert_eq!(report.named, ["cpu:0 compute 7"]);
    assert_eq!(report.workers, 2);
}
