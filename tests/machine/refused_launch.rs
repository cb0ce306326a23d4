//! A refused launch poisons its output in stream order: an earlier write in flight does not heal
//! it.

use millstream::ep::faults::{Fault, FaultPlan};
use millstream::ep::sim::Completion as When;
use millstream::*;
use millstream_testing::machine::*;

#[test]
fn an_earlier_write_does_not_heal() {
    let plan = FaultPlan::once(Fault::LaunchRefused, 2);
    let (config, control) = faulty_config(plan.clone());
    let m = Machine::new(config).unwrap();
    let s = sim(&m, 0);
    let x = m.empty(&s, f32_spec(&[1])).unwrap();
    for value in [1.0, 2.0] {
        m.call("fill", &[&x]).attr("value", value).on(&s).unwrap();
    }
    assert_eq!(plan.triggered(), 1, "while the first fill is in flight");
    control.switch(When::IssueOrder);
    assert_eq!(failure(x.read().unwrap_err()).cause, types::Cause::Device);
}
