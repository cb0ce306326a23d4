//! Programs with host functions, sections, barriers and executables.

use millstream_types::{Access, Error, StreamKey, StreamType};
use shuttle::thread;

use crate::rig::*;

/// Callbacks on two streams, one of which fails: only its data is poisoned, for every waiter.
#[test]
fn callbacks() {
    explore(|| {
        let m = machine();
        let (a, b) = (cpu(&m, 0), cpu(&m, 1));
        let (x, y) = (upload(&m, &a, 1), upload(&m, &b, 2));
        x.access(Access::ReadWrite, |_| anyhow::bail!("broken on purpose")).unwrap();
        y.access(Access::ReadWrite, |blob| blob.write_bytes(&5i64.to_ne_bytes())).unwrap();
        let spoilt = call(&m, "add", &[&x, &y], &b);
        let reader = thread::spawn(move || failed(spoilt.read().unwrap_err()));
        failed(x.read().unwrap_err());
        assert_eq!(read(&y), 5);
        reader.join().unwrap();
    });
}

fn failed(error: Error) {
    assert!(matches!(error.without_place(), Error::Failed(_)), "{error}");
}

/// A barrier between streams, and a section that excludes another thread's use.
#[test]
fn regions() {
    explore(|| {
        let m = machine();
        let (a, b) = (cpu(&m, 0), cpu(&m, 1));
        let x = upload(&m, &a, 1);
        let section = m.critical_section(&[&x]).unwrap();
        let other = {
            let (m, x, b) = (m.clone(), x.clone(), b.clone());
            thread::spawn(move || m.call("add_", &[&x, &x]).on(&b).is_ok())
        };
        m.call("add_", &[&x, &x]).within(&section).on(&b).unwrap();
        section.end().unwrap();
        m.barrier().unwrap();
        let y = call(&m, "add", &[&x, &x], &a);
        let came = other.join().unwrap();
        let expected: &[i64] = if came { &[4, 8] } else { &[4] };
        assert!(expected.contains(&read(&y)));
        assert_eq!(read(&x), if came { 4 } else { 2 });
    });
}

/// An executable on two tapes that wait for each other, launched by two threads on streams of their
/// own, with two instances of its memory; dropped while it may still run.
#[test]
fn launches_overlap() {
    explore(|| {
        let m = machine();
        let s = cpu(&m, 0);
        let recorded = m.record(|r| {
            let x = r.input("x", spec(1))?;
            let s = [0, 1].map(|k| r.stream(&StreamKey::compute(CPU, k)).unwrap());
            let t = r.call("add", &[x, x]).on(s[0])?[0];
            let u = r.call("add", &[t, x]).on(s[1])?[0];
            let y = r.call("add", &[u, t]).on(s[0])?[0];
            r.output("y", &y)
        });
        let step = recorded.unwrap().compile_as_is().unwrap();
        step.set_instances(2);
        let (x, z) = (upload(&m, &s, 1), upload(&m, &s, 10));
        let (other, theirs) = (m.clone(), step.clone());
        let thread = thread::spawn(move || {
            let key = StreamKey::new(CPU, StreamType::LAZY_JOB_LAUNCHER, 1);
            let on = other.stream(&key).unwrap();
            let launched = theirs.launch().input("x", &z).on(&on).run().unwrap();
            read(launched.output("y").unwrap())
        });
        let launched = step.launch().input("x", &x).run().unwrap();
        drop(step);
        assert_eq!(read(launched.output("y").unwrap()), 5);
        assert_eq!(thread.join().unwrap(), 50);
    });
}

/// An executable on streams of its own, launched twice, dropped while it may still run.
#[test]
fn a_job() {
    explore(|| {
        let m = machine();
        let s = cpu(&m, 0);
        let (x, y) = (upload(&m, &s, 1), upload(&m, &s, 0));
        let job = {
            let mut list = m.recorder();
            let s: Vec<_> =
                (0..2).map(|k| list.stream(&StreamKey::compute(CPU, k)).unwrap()).collect();
            let (x, y) = (list.bind(&x).unwrap(), list.bind(&y).unwrap());
            let t = list.call("add", &[x, x]).on(s[0]).unwrap()[0];
            list.call("add", &[t, x]).out(&[y]).on(s[1]).unwrap();
            list.release(t).unwrap();
            list.finish().unwrap().compile().unwrap()
        };
        job.launch().run().unwrap();
        m.call("add_", &[&x, &y]).on(&s).unwrap();
        job.launch().run().unwrap();
        drop(job);
        assert_eq!(read(&y), 12);
    });
}
