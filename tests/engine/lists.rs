//! Functions in recorded lists, and among ops.

use millstream_instructions::text::print_list;
use millstream_types::{DType, DeviceId, TensorSpec};
use millstream_vm::{DriverKind, Tensor};

use crate::{Log, machine};

/// Functions and ops that use a tensor are ordered with one another.
#[test]
fn a_variable_may_stand_for_a_tensor() {
    for driver in [DriverKind::Threaded, DriverKind::Inline, DriverKind::Simulated] {
        let machine = machine(driver);
        let engine = machine.dependency_engine().unwrap();
        let stream = machine.compute(&DeviceId::cpu(0), 0).unwrap();
        let spec = TensorSpec::contiguous(DType::F32, &[1]).unwrap();
        let x = machine.upload(&stream, spec, 1f32.to_ne_bytes().into()).unwrap();
        let (var, log) = (engine.var_of(&x).unwrap(), Log::new());
        for k in 0..10 {
            machine.call("add_", &[&x, &x]).on(&stream).unwrap();
            engine.push(log.note(k)).writes(&[&var]).spawn().unwrap();
        }
        // The read comes after the last function, which comes after the last op.
        assert_eq!(x.read().unwrap(), 1024f32.to_ne_bytes());
        assert_eq!(log.take(), (0..10).collect::<Vec<_>>(), "{driver:?}");
        engine.push(|| Err(anyhow::anyhow!("bad"))).writes(&[&var]).spawn().unwrap();
        assert!(x.read().is_err(), "the failure of a function poisons the tensor");
        assert!(engine.wait_for(&var).is_err());
    }
}

/// A recorded list names the functions, is the same in every run, and is proven as any list.
#[test]
fn lists_hold_functions() {
    let record = |driver| {
        let machine = machine(driver);
        machine.start_recording(&[]).unwrap();
        let engine = machine.dependency_engine().unwrap();
        let (a, b) = (engine.var().unwrap(), engine.var().unwrap());
        engine.push(|| ()).writes(&[&a]).name("read").spawn().unwrap();
        engine
            .push(|| ())
            .reads(&[&a])
            .overwrites(&[&b])
            .name("decode")
            .priority(2)
            .spawn()
            .unwrap();
        engine.delete(&a, || ()).unwrap();
        engine.wait_all().unwrap();
        let list = machine.finish_recording().unwrap();
        millstream_verify::check(list.clone()).unwrap();
        print_list(&list)
    };
    let text = record(DriverKind::Threaded);
    let calls = text.lines().filter_map(|line| line.strip_prefix("OpCall "));
    let calls: Vec<&str> = calls.filter_map(|line| line.split(" # ").next()).collect();
    assert_eq!(
        calls,
        [
            "s0:1 closure (%0 readwrite) {name=\"read\"}",
            "s0:2 closure (%0 read, %1 write) {name=\"decode\", overwrites=1, reads=1} priority 2",
            "s0:3 closure (%0 write) {name=\"delete\", overwrites=1}",
        ]
    );
    for driver in [DriverKind::Inline, DriverKind::Simulated] {
        assert_eq!(record(driver), text, "{driver:?}");
    }
}

/// Variables and tensors that were made before the recording are declared where the list first
/// names them, views of one storage as such: the list is proven.
#[test]
fn what_was_made_before_the_recording_is_declared() {
    let machine = machine(DriverKind::Inline);
    let engine = machine.dependency_engine().unwrap();
    let (a, b) = (engine.var().unwrap(), engine.var().unwrap());
    let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine).unwrap();
    let part = x.narrow(0, 0, 1).unwrap();
    let kept = x.narrow(0, 1, 1).unwrap();
    engine.push(|| ()).writes(&[&a]).spawn().unwrap();
    machine.start_recording(&[]).unwrap();
    engine.push(|| ()).reads(&[&a]).writes(&[&b]).spawn().unwrap();
    part.add_(1.0).unwrap();
    // The storage goes on in its other tensors, also without the one that stands for it.
    drop((x, part));
    kept.add_(1.0).unwrap();
    drop((a, b));
    let list = machine.finish_recording().unwrap();
    let text = millstream_instructions::text::print_list(&list);
    assert_eq!(list.externals.len(), 3, "{text}");
    assert!(text.contains(r#"external %0 "earlier0" u8[0]"#), "{text}");
    assert_eq!(text.matches("ViewTensor").count(), 1, "{text}");
    let verdict = millstream_verify::verify(&list);
    assert!(verdict.proven(), "{:?}\n{text}", verdict.violations);
}
