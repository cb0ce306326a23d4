//! Waits and memory are the machine's matter, unless a program takes them over, which is unsafe.
//!
//! An add on the default stream; a convolution of its result on another stream, and a second add;
//! the first result is released, and a third op on the default stream takes its memory over.

use millstream::ep::sim::{Completion as When, SimStreamId};
use millstream::instructions::{Body, InstructionList};
use millstream::*;
use millstream_testing::machine::*;

/// Which stream's commands the device completes first, as far as they can.
#[derive(Clone, Copy, Debug)]
enum First {
    Default,
    Side,
}

/// The numbers of the streams on the device, in the order of their first commands: after the one
/// that uploads.
const DEFAULT: SimStreamId = on_sim(1);
const SIDE: SimStreamId = on_sim(2);

fn tensor(m: &Machine, shape: &[usize], values: &[f32]) -> Tensor {
    m.upload(&m.current_stream().unwrap(), f32_spec(shape), bytes(values)).unwrap()
}

/// What the program says, without a word on order.
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

/// Runs the program on a device that completes commands in a fixed order. `commands` is how many it
/// is given.
fn stepped(
    driver: DriverKind,
    protection: Protection,
    first: First,
    commands: u64,
) -> (Vec<f32>, InstructionList) {
    let (config, hand) = by_hand_config();
    let config = config.driver(driver).protection(protection).default_device(SIM);
    let m = Machine::new(config).unwrap();
    hand.switch(When::IssueOrder);
    let side = m.create_stream(&SIM).unwrap();
    let x = tensor(&m, &[1, 1, 4], &[1.0, 2.0, 3.0, 4.0]);
    let weight = tensor(&m, &[1, 1, 1], &[2.0]);
    m.synchronize().unwrap();
    // The memory that the first result gets held sevens before.
    let sevens = m.empty(&m.current_stream().unwrap(), f32_spec(&[1, 1, 4])).unwrap();
    m.call("fill", &[&sevens]).attr("value", 7.0).run().unwrap();
    m.synchronize().unwrap();
    drop(sevens);
    m.start_recording(&[("x", &x), ("weight", &weight)]).unwrap();
    let had = hand.stats(0).unwrap();
    hand.switch(When::ByHand);
    let (d, taken) = program(&m, &side, &x, &weight);
    hand.wait_for_commands(had.works + had.records + had.waits + commands, LONG).unwrap();
    let order = match first {
        First::Default => [DEFAULT, SIDE],
        First::Side => [SIDE, DEFAULT],
    };
    while order.iter().any(|&stream| {
        let mut moved = false;
        while hand.step(stream).unwrap() {
            moved = true;
        }
        moved
    }) {}
    hand.switch(When::IssueOrder);
    m.synchronize().unwrap();
    let list = m.finish_recording().unwrap();
    assert_eq!(read(&taken), [1.0, 4.0, 9.0, 16.0]);
    (read(&d), list)
}

/// The offsets at which tensors begin, in program order.
fn offsets(list: &InstructionList) -> Vec<u64> {
    let begun = list.instructions.iter().filter_map(|i| match &i.body {
        Body::AllocateTensor { placement, .. } => Some(placement.offset),
        _ => None,
    });
    begun.collect()
}

#[test]
fn it_is_right_without_a_word_on_order() {
    for driver in DRIVERS {
        for first in [First::Default, First::Side] {
            // The three of the default stream with a record, and those of the other with a wait.
            let (d, list) = stepped(driver, Protection::default(), first, 6);
            assert_eq!(d, RIGHT, "{first:?} first");
            checked(&list);
            let offsets = offsets(&list);
            assert!(!offsets[1..].contains(&offsets[0]), "taken over while in use: {offsets:?}");
        }
    }
}

#[test]
fn so_it_is_on_the_host() {
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
fn with_both_switched_off_it_goes_wrong() {
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
        assert_eq!(offsets[0], offsets[3], "the third op takes over the first one's memory");
        let found = millstream_verify::check(list).unwrap_err();
        assert!(!found.is_empty());
    }
}

/// Each switch does what it says, and no more.
#[test]
fn with_one_switched_off_the_other_holds() {
    // SAFETY: as above.
    let (no_waits, no_memory) =
        unsafe { (Protection::default().without_waits(), Protection::default().without_memory()) };
    for driver in DRIVERS {
        // Without waits, but with memory of its own: right if the default stream comes first.
        assert_eq!(stepped(driver, no_waits, First::Default, 4).0, RIGHT);
        assert_eq!(stepped(driver, no_waits, First::Side, 4).0, [28.0; 4]);
        // With waits, but on memory that is taken over: right if the other stream is not late.
        assert_eq!(stepped(driver, no_memory, First::Default, 6).0, [4.0, 16.0, 36.0, 64.0]);
    }
}
