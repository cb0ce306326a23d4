//! Programs of functions that are ordered by variables.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use shuttle::thread;

use crate::engine::Prop;
use crate::rig::{explore, machine};

/// Two threads push to common variables, one of them to another worker, and wait for them.
#[test]
fn two_threads_push_and_wait() {
    explore(|| {
        let engine = machine().engine().unwrap();
        let (a, b) = (engine.var().unwrap(), engine.var().unwrap());
        let sum = Arc::new(AtomicU64::new(0));
        let add = |sum: &Arc<AtomicU64>, of: u64| {
            let sum = sum.clone();
            // No atomic addition: the engine orders the two accesses with those of others.
            move || sum.store(sum.load(Ordering::Relaxed) + of, Ordering::Relaxed)
        };
        let other = {
            let (engine, a, of) = (engine.clone(), a.clone(), add(&sum, 10));
            thread::spawn(move || {
                engine.push(of).writes(&[&a]).prop(Prop::CpuPrioritized).spawn().unwrap();
                engine.wait_for(&a).unwrap();
            })
        };
        engine.push(add(&sum, 1)).writes(&[&a]).prop(Prop::Async).spawn().unwrap();
        engine.push(add(&sum, 100)).reads(&[&b]).writes(&[&a]).spawn().unwrap();
        engine.wait_for(&a).unwrap();
        other.join().unwrap();
        engine.wait_all().unwrap();
        assert_eq!(sum.load(Ordering::Relaxed), 111);
    });
}

/// A function that completes later, from the thread that pushed it, while another one waits.
#[test]
fn a_completion_from_another_thread() {
    explore(|| {
        let engine = machine().engine().unwrap();
        let a = engine.var().unwrap();
        let (give, take) = shuttle::sync::mpsc::channel();
        engine.push_async(move |done| give.send(done).unwrap()).writes(&[&a]).spawn().unwrap();
        let waiter = {
            let (engine, a) = (engine.clone(), a.clone());
            thread::spawn(move || engine.wait_for(&a).unwrap())
        };
        take.recv().unwrap().complete();
        waiter.join().unwrap();
    });
}
