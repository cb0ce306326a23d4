//! Rule 4: dropping a handle never blocks and never waits, also while another thread emits.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use millstream::*;
use millstream_testing::machine::*;

#[test]
fn drops_while_another_thread_emits() {
    let m = threaded();
    let s = cpu(&m, 0);
    let stop = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (m, s, stop) = (&m, &s, &stop);
        let busy = scope.spawn(move || {
            let mut x = upload(s, m, &[1.0]);
            while !stop.load(Ordering::SeqCst) {
                x = call(m, "relu", &[&x], s);
            }
            read(&x)
        });
        for _ in 0..500 {
            let x = m.empty(&cpu(m, 1), f32_spec(&[4])).unwrap();
            drop(s.record_event().unwrap());
            drop(x);
        }
        stop.store(true, Ordering::SeqCst);
        assert_eq!(busy.join().unwrap(), [1.0]);
    });
    m.synchronize().unwrap();
    // This emission at the latest releases every dropped tensor.
    drop(m.empty(&s, f32_spec(&[1])).unwrap());
    assert_eq!(m.memory().unwrap()[0].in_use, 0);
}

/// Callbacks and kernels may not submit, but a drop is not a submission.
#[test]
fn drops_in_a_callback() {
    let m = threaded();
    let s = cpu(&m, 0);
    let (x, other) = (upload(&s, &m, &[1.0]), upload(&s, &m, &[2.0]));
    let done = x.access(Access::Read, move |_| {
        drop(other);
        Ok(())
    });
    done.unwrap().wait_for(LONG).unwrap();
    drop(x);
    drop(m.empty(&s, f32_spec(&[1])).unwrap());
    assert_eq!(m.memory().unwrap()[0].in_use, 0);
}

/// The release of a dropped tensor waits for the next emission, which emits it first; reports find
/// it emitted, whichever thread asks. More drops than a thread leaves notes of are no exception.
#[test]
fn drops_are_released_before_anything_can_tell() {
    let m = inline();
    let s = cpu(&m, 0);
    for count in [1, 2, 15, 16, 17, 40] {
        let tensors: Vec<Tensor> = (0..count).map(|k| upload(&s, &m, &[k as f32])).collect();
        let in_use = m.memory().unwrap()[0].in_use;
        assert!(in_use >= count * 512);
        drop(tensors);
        let found = std::thread::scope(|scope| {
            scope.spawn(|| m.memory().unwrap()[0].in_use).join().unwrap()
        });
        assert_eq!(found, 0, "{count} tensors");
    }
}

/// Threads that end leave nothing behind, and neither do threads whose storage is destroyed: drops
/// in destructors of thread-local values are emitted at once.
#[test]
fn drops_of_threads_that_end() {
    thread_local! {
        static LATE: RefCell<Vec<Tensor>> = const { RefCell::new(Vec::new()) };
    }
    let m = threaded();
    let s = cpu(&m, 0);
    for k in 0..20 {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                // Destroyed after the thread's ring if it was made before it, or else before.
                let early = k % 2 == 0;
                let keep = || LATE.with(|late| late.borrow_mut().push(upload(&s, &m, &[1.0])));
                if early {
                    keep();
                }
                drop(upload(&s, &m, &[2.0]));
                drop(upload(&s, &m, &[3.0]));
                if !early {
                    keep();
                }
            });
            // The end of a scope would not wait for the destructors.
            thread.join().unwrap();
        });
        m.synchronize().unwrap();
        assert_eq!(m.memory().unwrap()[0].in_use, 0, "thread {k}");
    }
}

/// Many machines on one thread, which come and go: the drops of each are released in it.
#[test]
fn drops_of_many_machines() {
    let machines: Vec<Machine> = (0..8).map(|_| inline()).collect();
    for round in 0..3 {
        let tensors: Vec<Tensor> =
            machines.iter().map(|m| upload(&cpu(m, 0), m, &[round as f32])).collect();
        drop(tensors);
        for m in &machines {
            assert_eq!(m.memory().unwrap()[0].in_use, 0);
        }
    }
}

/// A list has the same lines however many tensors were dropped at once.
#[test]
fn drops_are_in_the_order_of_the_program() {
    let m = inline();
    let s = cpu(&m, 0);
    let (a, b) = (upload(&s, &m, &[1.0]), upload(&s, &m, &[2.0]));
    m.start_recording(&[("a", &a), ("b", &b)]).unwrap();
    let c = call(&m, "add", &[&a, &b], &s);
    drop(a);
    drop(c);
    let d = call(&m, "neg", &[&b], &s);
    drop((b, d));
    let list = m.finish_recording().unwrap();
    let kinds: Vec<&str> = list.instructions.iter().map(|i| i.body.kind().name()).collect();
    assert_eq!(
        kinds,
        [
            "AllocateTensor",
            "OpCall",
            "ReleaseTensor",
            "ReleaseTensor",
            "AllocateTensor",
            "OpCall",
            "ReleaseTensor",
            "ReleaseTensor"
        ]
    );
}
