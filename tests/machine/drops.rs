//! Rule 4: dropping a handle never blocks and never waits, also while another thread emits.

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
