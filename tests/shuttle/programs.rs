//! Programs of streams, threads and waits on the host.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use millstream_instructions::Priority;
use millstream_instructions::builder::Call;
use millstream_types::{Attrs, Error, Origin, StreamKey};
use shuttle::thread::{self, Thread};

use crate::engine::Engine;
use crate::rig::*;
use crate::{Completion, Machine, MachineConfig, Tensor};

/// Waits across three workers, places given out again, one reader.
#[test]
fn a_diamond() {
    explore(|| {
        let m = machine();
        let s: Vec<_> = (0..3).map(|k| cpu(&m, k)).collect();
        let x = upload(&m, &s[0], 3);
        let y = call(&m, "add", &[&x, &x], &s[1]);
        let z = call(&m, "mul", &[&x, &x], &s[2]);
        m.call("add_", &[&x, &x]).on(&s[0]).unwrap();
        let w = call(&m, "add", &[&y, &z], &s[0]);
        drop((y, z));
        let v = call(&m, "add", &[&w, &x], &s[1]);
        assert_eq!(read(&v), 21);
    });
}

/// Two threads submit to one tensor and drop handles as they go.
#[test]
fn two_submitters() {
    explore(|| {
        let m = machine();
        let x = upload(&m, &cpu(&m, 0), 0);
        let one = upload(&m, &cpu(&m, 1), 1);
        let threads: Vec<_> = (0..2)
            .map(|k| {
                let (m, x, one) = (m.clone(), x.clone(), one.clone());
                thread::spawn(move || {
                    let s = cpu(&m, k);
                    let own = call(&m, "add", &[&one, &one], &s);
                    m.call("add_", &[&x, &own]).on(&s).unwrap();
                    m.call("add_", &[&x, &one]).on(&s).unwrap();
                    drop(own);
                })
            })
            .collect();
        for one in threads {
            one.join().unwrap();
        }
        assert_eq!(read(&x), 6);
    });
}

/// Two threads that create streams, change one tensor on them and drop them. Most are closed by the
/// time that the next use waits for their last work.
#[test]
fn streams_come_and_go() {
    explore(|| {
        let m = machine();
        let x = upload(&m, &cpu(&m, 0), 1);
        let doubled = |m: &Machine, x: &Tensor| {
            let streams = [(); 3].map(|()| m.create_stream(&CPU).unwrap());
            let own = call(m, "add", &[x, x], &streams[0]);
            m.call("add_", &[x, x]).on(&streams[2]).unwrap();
            cpu(m, 1).wait_stream(&streams[1]).unwrap();
            drop((streams, own));
        };
        let (other, same) = (m.clone(), x.clone());
        let thread = thread::spawn(move || doubled(&other, &same));
        doubled(&m, &x);
        assert!([2, 4].contains(&read(&call(&m, "relu", &[&x], &cpu(&m, 0)))));
        thread.join().unwrap();
        assert_eq!(read(&x), 4);
    });
}

/// A worker that gets work for a stream that it was never given fails the work, and goes on.
#[test]
fn work_for_a_stream_that_was_never_opened() {
    explore(|| {
        let m = machine();
        let [x, y] = [1, 2].map(|value| upload(&m, &cpu(&m, 0), value));
        let mut engine = m.shared.lock().unwrap();
        let Engine { builder, router, .. } = &mut *engine;
        let stray = Call {
            op: builder.ops().id("add_").unwrap(),
            inputs: &[x.tensor_ref(); 2],
            into: None,
            attrs: &Attrs::new(),
            stream: builder.stream(&StreamKey::compute(CPU, 1)).unwrap(),
            priority: Priority::default(),
            section: None,
            origin: &Origin::Unknown,
        };
        builder.call(router, &stray).unwrap();
        drop(engine);
        let error = x.read().unwrap_err().to_string();
        assert!(error.contains("s1 got work before a worker had opened it"), "{error}");
        assert_eq!(read(&call(&m, "add", &[&y, &y], &cpu(&m, 0))), 4);
    });
}

/// Two threads with batches on streams of two workers, the numbers of stored calls released and
/// reused meanwhile.
#[test]
fn batches() {
    explore(|| {
        let m = machine();
        let x = upload(&m, &cpu(&m, 0), 0);
        let one = upload(&m, &cpu(&m, 1), 1);
        let threads: Vec<_> = (0..2)
            .map(|k| {
                let (m, x, one) = (m.clone(), x.clone(), one.clone());
                thread::spawn(move || {
                    let s = cpu(&m, k);
                    for _ in 0..2 {
                        let add = m.prepare("add_", &[&x, &one], Attrs::new()).unwrap();
                        let mut batch = m.batch();
                        batch.call(&add, &s).unwrap();
                        batch.call_with(&add, &[x.handle(), one.handle()], &s).unwrap();
                    }
                })
            })
            .collect();
        for one in threads {
            one.join().unwrap();
        }
        assert_eq!(read(&x), 8);
    });
}

/// With room for two instructions, submitters wait for workers all the time.
#[test]
fn no_room() {
    explore(|| {
        let m = Machine::new(config().watermark(2)).unwrap();
        let x = upload(&m, &cpu(&m, 0), 1);
        let threads: Vec<_> = (0..2)
            .map(|k| {
                let (m, x) = (m.clone(), x.clone());
                thread::spawn(move || {
                    for _ in 0..3 {
                        m.call("add_", &[&x, &x]).on(&cpu(&m, k)).unwrap();
                    }
                })
            })
            .collect();
        for one in threads {
            one.join().unwrap();
        }
        assert_eq!(read(&x), 64);
    });
}

/// With room for the bytes of one released tensor, a submitter waits for the instructions that
/// still use it.
#[test]
fn no_bytes() {
    explore(|| {
        let m = Machine::new(config().watermark_bytes(8)).unwrap();
        let (a, b) = (cpu(&m, 0), cpu(&m, 1));
        let mut x = upload(&m, &a, 1);
        for s in [&b, &a, &b] {
            x = call(&m, "add", &[&x, &x], s);
        }
        assert_eq!(read(&x), 8);
    });
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on(completion: Completion) {
    let mut completion = pin!(completion);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    while completion.as_mut().poll(&mut context).is_pending() {
        thread::park();
    }
}

/// A thread that blocks, one that awaits and one that queries, all for the same point.
#[test]
fn three_ways_to_wait() {
    explore(|| {
        let m = machine();
        let (a, b) = (cpu(&m, 0), cpu(&m, 1));
        let x = upload(&m, &a, 1);
        let e = m.timed_event();
        e.record_on(&a).unwrap();
        b.wait_event(&e).unwrap();
        m.call("add_", &[&x, &x]).on(&b).unwrap();
        let end = m.timed_event();
        end.record_on(&b).unwrap();
        let (first, second) = (end.completion(), end.clone());
        let awaiting = thread::spawn(move || block_on(first));
        let blocking = thread::spawn(move || second.synchronize().unwrap());
        while !end.query() {
            thread::yield_now();
        }
        assert!(e.query(), "what comes before has completed");
        e.elapsed_time(&end).unwrap();
        awaiting.join().unwrap();
        blocking.join().unwrap();
        assert_eq!(read(&x), 2);
    });
}

/// Shutting down while another thread submits and waits: it is served or refused.
#[test]
fn shutting_down() {
    explore(|| {
        let watched = config().watchdog(Some(LONG));
        let m = Machine::new(watched).unwrap();
        let s = cpu(&m, 0);
        let x = upload(&m, &s, 1);
        let other = {
            let (m, x) = (m.clone(), x.clone());
            thread::spawn(move || {
                let closed = |e: Error| assert!(matches!(e.without_place(), Error::Closed), "{e}");
                for k in 0..2 {
                    match m.call("add_", &[&x, &x]).on(&cpu(&m, k)) {
                        Ok(_) => m.synchronize().unwrap(),
                        Err(error) => closed(error),
                    }
                }
            })
        };
        let done = s.record_event();
        let report = m.clone().shutdown(LONG);
        assert_eq!(report, crate::ShutdownReport::default());
        drop((done, x, s, m));
        other.join().unwrap();
    });
}
