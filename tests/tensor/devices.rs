//! Devices and streams of calls: those of the first operand, unless a scope says otherwise.

use millstream::ep::sim::Completion::IssueOrder;
use millstream::*;
use millstream_testing::machine::*;

use super::floats;

#[track_caller]
fn stream(x: &Tensor) -> String {
    x.stream().unwrap().key().to_string()
}

#[test]
fn a_call_follows_its_first_operand() {
    let (m, hand) = by_hand();
    hand.switch(IssueOrder);
    let side = cpu(&m, 4);
    let (x, y) = (floats(&m, &[2], &[1.0, 2.0]), Tensor::ones(2, DType::F32, &side).unwrap());
    assert_eq!(stream(&(&x + &y).unwrap()), "cpu:0 compute 0");
    assert_eq!(stream(&(&y + &x).unwrap()), "cpu:0 compute 4");
    let far = x.to(&SIM).unwrap();
    assert_eq!(far.device(), &SIM);
    assert_eq!(stream(&far.neg().unwrap()), "sim:0 compute 0");
    assert_eq!(far.neg().unwrap().to_vec::<f32>().unwrap(), [-1.0, -2.0]);
    // The tensor itself, where it is there.
    assert_eq!(x.to(&CPU).unwrap().tensor_ref(), x.tensor_ref());
}

#[test]
fn a_scope_applies_to_its_device_alone() {
    let (m, hand) = by_hand();
    hand.switch(IssueOrder);
    let x = floats(&m, &[2], &[1.0, 2.0]);
    let far = x.to(&SIM).unwrap();
    let (host, device) = (cpu(&m, 2), sim(&m, 3));
    with_stream(&host, || {
        with_stream(&device, || {
            assert_eq!(stream(&x.neg().unwrap()), "cpu:0 compute 2");
            assert_eq!(stream(&far.neg().unwrap()), "sim:0 compute 3");
        });
        assert_eq!(stream(&far.neg().unwrap()), "sim:0 compute 0");
    });
}

#[test]
fn operands_on_two_devices_are_refused() {
    let (m, _hand) = by_hand();
    let x = floats(&m, &[2], &[1.0, 2.0]);
    let far = x.to(&SIM).unwrap();
    let error = (&x + &far).unwrap_err().to_string();
    for part in ["devices.rs", "f32[2] on cpu:0", "f32[2] on sim:0", "x.to(y.device())?"] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn operands_of_two_machines_are_refused() {
    let (m, n) = (inline(), inline());
    let (x, y) = (floats(&m, &[2], &[1.0, 2.0]), floats(&n, &[2], &[1.0, 2.0]));
    let error = (&x + &y).unwrap_err();
    assert!(matches!(error.without_place(), Error::Foreign { .. }), "{error}");
}
