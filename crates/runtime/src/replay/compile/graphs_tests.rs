//! Which tapes become graphs, by hand-made tapes.

use millstream_types::{Access, DType, DeviceId, Origin, StreamKey, TensorId, TensorSpec};

use super::graphs::plan;
use crate::profile::recording::StepSource;
use crate::tapes::graph::CaptureStep;
use crate::tapes::tape::{Action, Address, StepCall, StepOperand, Tape};

/// A step of a tape.
#[derive(Clone, Copy)]
enum Do {
    Call,
    Record,
    /// Waits for a number of steps of a tape.
    Wait(u16, u32),
    Read,
}

fn tape(device: DeviceId, steps: &[Do]) -> Tape {
    let operand = StepOperand {
        tensor: TensorId(0),
        storage: 0,
        access: Access::Write,
        address: Address { base: 3, offset: 0 },
        spec: TensorSpec::contiguous(DType::F32, &[1]).unwrap().into(),
    };
    let call = StepCall {
        kind: "OpCall",
        op: None,
        operands: [operand].into(),
        attrs: None,
        given: None,
        workspace: None,
        origin: Origin::Unknown,
        number: None,
    };
    let action = |step: &Do| match *step {
        Do::Call => Action::Call { kernel: None, first: 0, count: 0, call: 0 },
        Do::Record => Action::Record { event: 0, call: 0 },
        Do::Wait(tape, steps) => Action::Wait { tape, steps },
        Do::Read => Action::Read { call: 0, into: 0 },
    };
    let source = StepSource { instruction: 0, inner: None, awaits: None };
    Tape {
        key: StreamKey::compute(device.clone(), 0),
        on_host: (device.kind() == "cpu").then_some(0),
        steps: steps.iter().map(action).collect(),
        publishes: steps.iter().map(|_| false).collect(),
        addresses: Box::default(),
        sources: steps.iter().map(|_| source).collect(),
        calls: Box::new([call]),
    }
}

/// Returns the plan of each device: the steps of its capture, or the reason why there is none.
fn planned(tapes: &[(DeviceId, &[Do])]) -> Vec<Result<Vec<CaptureStep>, String>> {
    let tapes: Vec<Tape> =
        tapes.iter().map(|(device, steps)| tape(device.clone(), steps)).collect();
    let plans = plan(&tapes, &[], |device| device.kind() == "cuda");
    plans.into_iter().map(|plan| plan.capture.map(|capture| capture.steps)).collect()
}

const ONE: DeviceId = DeviceId::cuda(0);
const OTHER: DeviceId = DeviceId::cuda(1);
const HOST: DeviceId = DeviceId::cpu(0);

#[test]
fn streams_fork_and_join() {
    use CaptureStep::{Call, Record, Wait};
    let planned = planned(&[
        (ONE, &[Do::Call, Do::Wait(1, 2), Do::Call]),
        (ONE, &[Do::Call, Do::Record, Do::Call]),
    ]);
    let expected = [
        Record { tape: 0, position: 0 },
        Wait { tape: 1, position: 0 },
        Call { tape: 0, step: 0 },
        Call { tape: 1, step: 0 },
        Record { tape: 1, position: 1 },
        Call { tape: 1, step: 2 },
        Wait { tape: 0, position: 1 },
        Call { tape: 0, step: 2 },
        // The first stream has not waited for the other's last call.
        Record { tape: 1, position: 2 },
        Wait { tape: 0, position: 2 },
    ];
    assert_eq!(planned, [Ok(expected.to_vec())]);
}

#[test]
fn a_stream_that_was_waited_for_to_its_end_has_joined() {
    let planned = planned(&[(ONE, &[Do::Call, Do::Wait(1, 1)]), (ONE, &[Do::Call])]);
    let last = planned[0].as_ref().unwrap().last();
    assert_eq!(last, Some(&CaptureStep::Wait { tape: 0, position: 1 }));
    assert_eq!(planned[0].as_ref().unwrap().len(), 6);
}

#[test]
fn tapes_that_are_no_graph() {
    let reason = |tapes: &[(DeviceId, &[Do])]| planned(tapes).remove(0).unwrap_err();
    assert_eq!(reason(&[(ONE, &[Do::Call, Do::Record])]), "fewer than 2 calls need no graph");
    assert_eq!(reason(&[(ONE, &[Do::Call, Do::Read])]), "tape 0, step 2: a read by the host");
    let amid = reason(&[(ONE, &[Do::Call, Do::Wait(1, 1), Do::Call]), (HOST, &[Do::Call])]);
    assert_eq!(amid, "tape 0, step 2: waits for tape 1 amid calls");
    assert!(planned(&[(HOST, &[Do::Call, Do::Call])]).is_empty());
}

/// A graph may come after steps of other tapes, unless these come after a step of its own.
#[test]
fn waits_before_the_calls() {
    let calls = &[Do::Call, Do::Call];
    let after = &[Do::Wait(2, 1), Do::Call, Do::Call];
    assert!(planned(&[(ONE, calls), (ONE, after), (HOST, &[Do::Call])])[0].is_ok());
    let cyclic = planned(&[(ONE, calls), (ONE, after), (HOST, &[Do::Wait(0, 1), Do::Call])]);
    assert!(cyclic[0].as_ref().unwrap_err().contains("comes after calls of its own"));
}

/// Two graphs that each wait for a single call of the other would wait for ever.
#[test]
fn graphs_do_not_wait_for_each_other() {
    let planned = planned(&[
        (ONE, &[Do::Wait(2, 1), Do::Call, Do::Call]),
        (ONE, &[Do::Call]),
        (OTHER, &[Do::Call]),
        (OTHER, &[Do::Wait(1, 1), Do::Call, Do::Call]),
    ]);
    assert!(planned.iter().all(Result::is_err), "{planned:?}");
}
