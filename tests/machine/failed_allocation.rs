//! After a failed allocation, a later call requests memory from the device again.

use millstream::ep::faults::{Fault, FaultPlan};
use millstream::ep::sim::Completion as When;
use millstream::*;
use millstream_testing::machine::*;

#[test]
fn the_limit_is_not_lowered_for_good() {
    let plan = FaultPlan::starting_at(Fault::Allocation, 2);
    let (config, control) = faulty_config(plan.clone());
    let m = Machine::new(config).unwrap();
    control.switch(When::IssueOrder);
    let s = sim(&m, 0);
    let first = m.empty(&s, f32_spec(&[128])).unwrap();
    for _ in 0..3 {
        let error = m.empty(&s, f32_spec(&[128])).unwrap_err();
        assert!(matches!(error.without_place(), Error::OutOfMemory { .. }), "{error}");
    }
    plan.disarm();
    let second = m.empty(&s, f32_spec(&[128])).unwrap();
    drop((first, second));
}
