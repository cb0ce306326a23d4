//! Misuse is refused when the list is built, with the origin of the call. A refused call emits
//! nothing.

use millstream::*;
use millstream_testing::machine::*;

/// Returns the error's text without its origin, which must be in this file.
#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T>) -> String {
    let error = result.unwrap_err();
    assert!(!error.is_runtime(), "{error}");
    let text = error.to_string();
    let here = concat!(file!(), ":");
    let rest = text.strip_prefix(here).unwrap_or_else(|| panic!("no origin: {text}"));
    let (line, words) = rest.split_once(": ").unwrap();
    line.parse::<u32>().unwrap();
    words
        .replace(here, "HERE:")
        .split("HERE:")
        .enumerate()
        .map(|(k, part)| {
            if k == 0 {
                part.to_owned()
            } else {
                format!("HERE{}", part.trim_start_matches(|c: char| c.is_ascii_digit()))
            }
        })
        .collect()
}

#[test]
fn of_ops() {
    let m = threaded();
    let s = cpu(&m, 0);
    let x = upload(&s, &m, &[1.0, -2.0]);
    let y = m.upload(&s, f32_spec(&[3]), vec![0; 12]).unwrap();
    let z = m.upload(&s, TensorSpec::contiguous(DType::Bool, &[2]).unwrap(), vec![0; 2]).unwrap();
    m.synchronize().unwrap();
    let before = m.stats().unwrap();
    let errors = [
        refused(m.call("rleu", &[&x]).on(&s)),
        refused(m.call("zzz", &[&x]).on(&s)),
        refused(m.call("relu", &[&x, &x]).on(&s)),
        refused(m.call("add", &[&x]).on(&s)),
        refused(m.call("add", &[&x, &y]).on(&s)),
        refused(m.call("relu", &[&z]).on(&s)),
        refused(m.call("matmul", &[&x, &y]).on(&s)),
        refused(m.call("add", &[&x, &x]).attr("alhpa", 1.0).on(&s)),
        refused(m.call("fill", &[&x]).on(&s)),
        refused(m.call("relu", &[&x]).out(&[&y]).on(&s)),
        refused(m.call("relu", &[&x]).out(&[]).on(&s)),
        refused(m.call("slice", &[&x]).out(&[&x]).on(&s)),
        refused(m.call("relu", &[&x]).on(&sim(&m, 0))),
    ];
    insta::assert_snapshot!(errors.join("\n"), @r#"
    unknown op 'rleu'; did you mean 'relu'?
    unknown op 'zzz'
    relu: expected 1 operand(s) (x), got 2
    add: other: expected this number or 2 tensors, got 1 tensor(s) and no number
    add: invalid shapes: [2] and [3] do not broadcast: dimension 0 is 2 and 3
    relu: invalid dtype: expected numbers, got bool[2]
    matmul: expected equal inner dimensions, got 2 and 3 in [2] by [3]
    add: unknown argument 'alhpa'; did you mean 'alpha'?
    fill: value: missing; this argument is required
    relu: result 0 is f32[2], the tensor given for it f32[3]
    relu: it has 1 result(s), 0 tensor(s) given
    slice: its results cannot be written to given tensors: they are views, changes in place, or of a size known only afterwards
    relu: %0 lies on cpu:0, and sim:0 compute 0 works on sim:0; copy it first, by the op copy on sim:0 host2device 0
    "#);
    assert_eq!(m.stats().unwrap(), before, "a refused call has emitted something");
}

#[test]
fn of_tensors() {
    let (m, other) = (threaded(), threaded());
    let s = cpu(&m, 0);
    let x = upload(&s, &m, &[1.0, -2.0]);
    let gone = upload(&s, &m, &[1.0]);
    gone.release().unwrap();
    let foreign = upload(&cpu(&other, 0), &other, &[1.0]);
    let errors = [
        refused(m.call("relu", &[&gone]).on(&s)),
        refused(gone.read()),
        refused(gone.release()),
        refused(gone.access(Access::Read, |_| Ok(()))),
        refused(m.critical_section(&[&gone])),
        refused(m.critical_section(&[])),
        refused(m.call("add", &[&x, &foreign]).on(&s)),
        refused(m.upload(&s, f32_spec(&[2]), vec![0; 7])),
        refused(m.empty_in(&s, f32_spec(&[2]), 7)),
    ];
    // Tensor ids depend on the machine's free slots.
    let text = errors.join("\n").replace(&gone.tensor_ref().id.to_string(), "GONE");
    insta::assert_snapshot!(text, @r#"
    GONE is used after its release at HERE
    GONE is used after its release at HERE
    GONE is used after its release at HERE
    GONE is used after its release at HERE
    GONE is used after its release at HERE
    invalid critical section: a critical section holds at least one tensor
    the tensor belongs to another machine
    invalid data: f32[2]: expected 8 bytes, got 7
    invalid storage: f32[2] spans 8 bytes of 7
    "#);
    m.synchronize().unwrap();
    assert_eq!(m.pending_callbacks(), 0);
}

/// A stale handle does not reach the new owner of its slot.
#[test]
fn of_a_handle_whose_slot_was_reused() {
    let m = threaded();
    let s = cpu(&m, 0);
    let old = upload(&s, &m, &[1.0]);
    old.release().unwrap();
    m.synchronize().unwrap();
    let next: Vec<Tensor> = (0..8).map(|k| upload(&s, &m, &[k as f32])).collect();
    assert!(next.iter().any(|t| t.tensor_ref().id == old.tensor_ref().id));
    assert!(matches!(old.read().unwrap_err().without_place(), Error::Released { .. }));
    drop(old);
    assert_eq!(read(&next[0]), [0.0]);
}

/// Two machines can have equal stream numbers. Each machine refuses the streams and events of the
/// other.
#[test]
fn of_another_machines_streams_and_events() {
    let (m, other) = (threaded(), threaded());
    let (s, foreign) = (cpu(&m, 0), cpu(&other, 0));
    let x = upload(&s, &m, &[1.0]);
    let event = foreign.record_event().unwrap();
    let errors = [
        refused(m.call("relu", &[&x]).on(&foreign)),
        refused(m.empty(&foreign, f32_spec(&[1]))),
        refused(m.upload(&foreign, f32_spec(&[1]), vec![0; 4])),
        refused(m.event().record_on(&foreign)),
        refused(s.wait_stream(&foreign)),
        refused(s.wait_event(&event)),
        refused(foreign.touch(&[&x])),
    ];
    insta::assert_snapshot!(errors.join("\n"), @r#"
    the stream belongs to another machine
    the stream belongs to another machine
    the stream belongs to another machine
    the stream belongs to another machine
    the stream belongs to another machine
    the event belongs to another machine
    the tensor belongs to another machine
    "#);
}

#[test]
fn of_streams_and_devices() {
    let m = threaded();
    let errors = [
        m.compute(&DeviceId::new("sin", 0).unwrap(), 0).unwrap_err(),
        m.compute(&DeviceId::sim(7), 0).unwrap_err(),
        m.compute(&DeviceId::cpu(1), 0).unwrap_err(),
        m.call("ad", &[]).run().unwrap_err().without_place().clone(),
        m.finish_recording().unwrap_err(),
    ];
    let text: Vec<String> = errors.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(text.join("\n"), @r#"
    unknown device kind 'sin'; did you mean 'sim'?
    device sim:7: there are 1 devices of this kind
    device cpu:1: there are 1 devices of this kind
    unknown op 'ad'; did you mean 'add'?
    invalid list: no recording was begun
    "#);
}

#[test]
fn of_recordings() {
    let m = threaded();
    let x = upload(&cpu(&m, 0), &m, &[1.0]);
    m.start_recording(&[("x", &x)]).unwrap();
    let text = refused(m.start_recording(&[]));
    assert_eq!(text, "invalid list: a recording is under way; finish it first");
    call(&m, "relu", &[&x], &cpu(&m, 0));
    let list = listing(&m.finish_recording().unwrap());
    assert!(list.contains("external %0 \"x\"") && list.contains("OpCall"), "{list}");
    m.start_recording(&[]).unwrap();
}

/// A stream refuses an instruction that the table does not allow on it, before anything is emitted.
#[test]
fn of_streams_of_other_types() {
    let m = inline();
    let x = upload(&cpu(&m, 0), &m, &[1.0]);
    let prepared = m.prepare("neg_", &[&x], Attrs::new()).unwrap();
    for ty in [StreamType::BARRIER, StreamType::CRITICAL_SECTION, StreamType::LAZY_JOB_LAUNCHER] {
        let stream = m.stream(&StreamKey::new(CPU, ty, 0)).unwrap();
        let engine = m.dependency_engine().unwrap();
        let var = engine.var().unwrap();
        let before = m.stats().unwrap();
        let of_batch = m.batch().call(&prepared, &stream);
        let refusals = [
            refused(m.call("relu", &[&x]).on(&stream)),
            refused(m.call("neg_", &[&x]).on(&stream)),
            refused(m.call("unsqueeze", &[&x]).attr("dim", 0).on(&stream)),
            refused(with_stream(&stream, || x.relu())),
            refused(with_stream(&stream, || x.add_(1.0))),
            refused(prepared.on(&stream)),
            refused(of_batch),
            refused(m.upload(&stream, f32_spec(&[1]), bytes(&[1.0]))),
            refused(m.empty(&stream, f32_spec(&[1]))),
            refused(x.copy_to(&stream)),
            refused(engine.push(|| ()).writes(&[&var]).on(&stream).spawn()),
            refused(m.record(|r| {
                let (x, s) = (r.bind(&x)?, r.stream(stream.key())?);
                r.call("relu", &[x]).on(s).map(drop)
            })),
            refused(m.record(|r| {
                let (x, s) = (r.bind(&x)?, r.stream(stream.key())?);
                r.read(&x, s).map(drop)
            })),
            refused(m.record(|r| {
                let (x, s) = (r.bind(&x)?, r.stream(stream.key())?);
                r.access(&x, Access::Read, s, |_| Ok(())).map(drop)
            })),
        ];
        for text in refusals {
            assert!(text.contains(&format!("{ty} 0: expected one of type")), "{text}");
        }
        assert_eq!(m.stats().unwrap(), before, "a refused call has emitted something");
    }
    assert_eq!(read(&x), [1.0]);
}
