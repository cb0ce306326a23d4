//! Rule 4: several threads submit to one machine, several machines live in one process, and handles
//! move between threads.

use std::sync::Barrier;

use millstream::*;
use millstream_testing::machine::*;

#[test]
fn many_threads_submit_to_one_machine() {
    let m = threaded();
    let shared = upload(&cpu(&m, 0), &m, &[0.0]);
    let one = upload(&cpu(&m, 0), &m, &[1.0]);
    let start = Barrier::new(4);
    std::thread::scope(|scope| {
        for k in 0..4u32 {
            let (m, shared, one, start) = (&m, &shared, &one, &start);
            scope.spawn(move || {
                start.wait();
                let s = cpu(m, k);
                let mut own = upload(&s, m, &[k as f32]);
                for _ in 0..200 {
                    own = call(m, "add", &[&own, one], &s);
                    m.call("add_", &[shared, one]).on(&s).unwrap();
                }
                assert_eq!(read(&own), [k as f32 + 200.0]);
            });
        }
    });
    assert_eq!(read(&shared), [800.0]);
}

#[test]
fn machines_are_independent() {
    let start = Barrier::new(3);
    std::thread::scope(|scope| {
        for k in 0..3 {
            let start = &start;
            scope.spawn(move || {
                let m = threaded();
                let s = cpu(&m, 0);
                let x = upload(&s, &m, &[k as f32]);
                start.wait();
                let y = call(&m, "add", &[&x, &x], &s);
                assert_eq!(read(&y), [2.0 * k as f32]);
                assert_eq!(m.stats().unwrap().of(instructions::Kind::OpCall), 1);
            });
        }
    });
}

/// A callback of one machine may wait for another machine.
#[test]
fn a_callback_may_wait_for_another_machine() {
    let (m, other) = (threaded(), threaded());
    let x = upload(&cpu(&m, 0), &m, &[0.0]);
    let there = upload(&cpu(&other, 0), &other, &[5.0]);
    x.access(Access::ReadWrite, move |blob| blob.write_bytes(&there.read()?)).unwrap();
    assert_eq!(read(&x), [5.0]);
}
