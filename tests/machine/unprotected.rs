//! The machine provides waits and safe memory reuse, unless a program gives them up, which is
//! unsafe.
//!
//! The program: an add on the default stream; a convolution of its result and a second add on
//! another stream; a release of the first result; a third op on the default stream, which gets the
//! released memory.

use millstream::ep::sim::{Completion as When, SimStreamId};
use millstream::instructions::{Body, InstructionList};
use millstream::*;
use millstream_testing::machine::*;

/// The stream whose commands the device completes first, as far as they can run.
#[derive(Clone, Copy, Debug)]
enum First {
    Default,
    Side,
}

/// The ids of the streams on the device, in the order of their first commands. The stream of the
/// uploads has id 0.
const DEFAULT: SimStreamId = on_sim(1);
const SIDE: SimStreamId = on_sim(2);

fn tensor(m: &Machine, shape: &[usize], values: &[f32]) -> Tensor {
    m.upload(&m.current_stream().unwrap(), f32_spec(shape), bytes(values)).unwrap()
}

/// Runs the program, which states no order.
fn program(m: &Machine, side: &Stream, x: &Tensor, weight: &Tensor) -> (Tensor, Tensor) {
    let run = |op, inputs: &[&Tensor]| m.call(op, inputs).run().unwrap().remove(0);
    let a = run("add", &[x, x]);
    let d = with_stream(side, || {
        let c = run("convolution", &[&a, weight]);
        run("add", &[&c, &c])
    });
    drop(a);
    (d, run("mul", &[x, x]))
}

const RIGHT: [f32; 4] = [8.0, 16.0, 24.0, 32.0];

/// Runs the program on a device that completes commands in a fixed order. `commands` is the number
/// of commands that the device gets.
fn stepped(
    driver: DriverKind,
    protection: Protection,
    first: First,
    commands: u64,
) -> (Vec<f32>, InstructionList) {
    let (config, control) = by_hand_config();
    let config = config.driver(driver).protection(protection).default_device(SIM);
    let m = Machine::new(config).unwrap();
    control.switch(When::IssueOrder);
    let side = m.create_stream(&SIM).unwrap();
    let x = tensor(&m, &[1, 1, 4], &[1.0, 2.0, 3.0, 4.0]);
    let weight = tensor(&m, &[1, 1, 1], &[2.0]);
    m.synchronize().unwrap();
    // The memory of the first result held sevens before.
    let sevens = m.empty(&m.current_stream().unwrap(), f32_spec(&[1, 1, 4])).unwrap();
    m.call("fill", &[&sevens]).attr("value", 7.0).run().unwrap();
    m.synchronize().unwrap();
    drop(sevens);
    m.start_recording(&[("x", &x), ("weight", &weight)]).unwrap();
    let had = control.stats(0).unwrap();
    control.switch(When::ByHand);
    let (d, taken) = program(&m, &side, &x, &weight);
    control.wait_for_commands(had.works + had.records + had.waits + commands, LONG).unwrap();
    let order = match first {
        First::Default => [DEFAULT, SIDE],
        First::Side => [SIDE, DEFAULT],
    };
    while order.iter().any(|&stream| {
        let mut moved = false;
        while control.step(stream).unwrap() {
            moved = true;
        }
        moved
    }) {}
    control.switch(When::IssueOrder);
    m.synchronize().unwrap();
    let list = m.finish_recording().unwrap();
    assert_eq!(read(&taken), [1.0, 4.0, 9.0, 16.0]);
    (read(&d), list)
}

/// Returns the offsets of the allocated tensors, in program order.
fn offsets(list: &InstructionList) -> Vec<u64> {
    let begun = list.instructions.iter().filter_map(|i| match &i.body {
        Body::AllocateTensor { placement, .. } => Some(placement.offset),
        _ => None,
    });
    begun.collect()
}

#[test]
fn with_both_protections_the_result_is_right() {
    for driver in DRIVERS {
        for first in [First::Default, First::Side] {
            // Three commands on the default stream, with a record; three on the other, with a wait.
            let (d, list) = stepped(driver, Protection::default(), first, 6);
            assert_eq!(d, RIGHT, "{first:?} first");
            checked(&list);
            let offsets = offsets(&list);
            assert!(!offsets[1..].contains(&offsets[0]), "reused while in use: {offsets:?}");
        }
    }
}

#[test]
fn with_both_protections_the_host_is_right_too() {
    for driver in DRIVERS {
        let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        let side = m.create_stream(&CPU).unwrap();
        let x = tensor(&m, &[1, 1, 4], &[1.0, 2.0, 3.0, 4.0]);
        let weight = tensor(&m, &[1, 1, 1], &[2.0]);
        for _ in 0..100 {
            let (d, taken) = program(&m, &side, &x, &weight);
            assert_eq!((read(&d), read(&taken)), (RIGHT.into(), vec![1.0, 4.0, 9.0, 16.0]));
        }
    }
}

#[test]
fn without_protection_the_result_is_wrong() {
    // SAFETY: the commands of the simulated device run on one thread, the test's.
    let none = unsafe { Protection::default().without_waits().without_memory() };
    for driver in DRIVERS {
        // The third op overwrites what the convolution has not read: four times its squares.
        let (late, list) = stepped(driver, none, First::Default, 4);
        assert_eq!(late, [4.0, 16.0, 36.0, 64.0]);
        // The convolution reads what was there before the first add: four times seven.
        let (early, _) = stepped(driver, none, First::Side, 4);
        assert_eq!(early, [28.0; 4]);
        let offsets = offsets(&list);
        assert_eq!(offsets[0], offsets[3], "the third op reuses the memory of the first");
        let found = millstream_verify::check(list).unwrap_err();
        assert!(!found.is_empty());
    }
}

/// Each switch removes one protection and leaves the other.
#[test]
fn one_protection_holds_without_the_other() {
    // SAFETY: as above.
    let (no_waits, no_memory) =
        unsafe { (Protection::default().without_waits(), Protection::default().without_memory()) };
    for driver in DRIVERS {
        // Without waits, but with safe memory: right if the default stream is first.
        assert_eq!(stepped(driver, no_waits, First::Default, 4).0, RIGHT);
        assert_eq!(stepped(driver, no_waits, First::Side, 4).0, [28.0; 4]);
        // With waits, but with reused memory: right if the other stream is not late.
        assert_eq!(stepped(driver, no_memory, First::Default, 6).0, [4.0, 16.0, 36.0, 64.0]);
    }
}
