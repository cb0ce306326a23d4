//! Rule 4: a kernel or callback that submits or waits would wait for itself. It gets an error
//! instead. `verbs` has every verb, also under the inline driver.

use std::sync::{Arc, Mutex, OnceLock};

use millstream::*;
use millstream_testing::machine::*;

/// Tries every operation that a kernel or callback may not do, and returns the errors.
fn attempts(m: &Machine, x: &Tensor) -> Vec<String> {
    let s = x.device();
    let mut errors = Vec::new();
    let mut note = |e: Option<Error>| {
        let e = e.expect("refused");
        assert!(matches!(e.without_place(), Error::Reentrant { .. }), "{e}");
        errors.push(e.without_place().to_string());
    };
    let stream = m.compute(s, 0).unwrap();
    note(m.call("relu", &[x]).on(&stream).err());
    note(x.read().err());
    note(m.synchronize().err());
    note(stream.synchronize().err());
    note(stream.query().err());
    note(m.completion().err());
    note(m.barrier().err());
    note(stream.record_event().err());
    note(stream.touch(&[x]).err());
    note(x.release().err());
    note(x.access(Access::Read, |_| Ok(())).err());
    errors
}

#[test]
fn from_a_callback() {
    let m = threaded();
    let (x, y) = (upload(&cpu(&m, 0), &m, &[1.0]), upload(&cpu(&m, 0), &m, &[2.0]));
    let errors = Arc::new(Mutex::new(Vec::new()));
    let (machine, out) = (m.clone(), errors.clone());
    let done = x.access(Access::Read, move |_| {
        *out.lock().unwrap() = attempts(&machine, &y);
        Ok(())
    });
    done.unwrap().wait_for(LONG).unwrap();
    insta::assert_snapshot!(errors.lock().unwrap().join("\n"), @r#"
    submitting from within a kernel or callback would wait for itself
    reading from within a kernel or callback would wait for itself
    waiting from within a kernel or callback would wait for itself
    waiting from within a kernel or callback would wait for itself
    waiting from within a kernel or callback would wait for itself
    waiting from within a kernel or callback would wait for itself
    submitting from within a kernel or callback would wait for itself
    submitting from within a kernel or callback would wait for itself
    submitting from within a kernel or callback would wait for itself
    submitting from within a kernel or callback would wait for itself
    submitting from within a kernel or callback would wait for itself
    "#);
}

#[test]
fn from_a_kernel_and_from_its_threads() {
    let here: Arc<OnceLock<(Machine, Tensor)>> = Arc::default();
    let seen = Arc::new(Mutex::new(0));
    let mut config = config(DriverKind::Threaded, SyncPolicy::Frontier);
    let (machine, count) = (here.clone(), seen.clone());
    add_op(&mut config, "reenter", move |ctx| {
        ctx.for_each(4, |_| {
            let (m, x) = machine.get().unwrap();
            *count.lock().unwrap() += attempts(m, x).len();
        });
        Ok(())
    });
    let m = Machine::new(config).unwrap();
    let x = upload(&cpu(&m, 0), &m, &[1.0]);
    here.set((m.clone(), x.clone())).unwrap();
    let y = call(&m, "reenter", &[&x], &cpu(&m, 0));
    y.access(Access::Read, |_| Ok(())).unwrap().wait_for(LONG).unwrap();
    assert_eq!(*seen.lock().unwrap(), 4 * 11);
    // The kernel keeps its reference to `here`; the test drops its own.
    let kept = Arc::try_unwrap(here);
    drop(kept);
}
