//! Programs of functions that are ordered by variables.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use shuttle::thread;

use crate::dependency_engine::Prop;
use crate::rig::{explore, machine};

/// Two threads push to common variables, one of them to another worker, and wait for them.
#[test]
fn two_threads_push_and_wait() {
    explore(|| {
        let engine = machine().dependency_engine().unwrap();
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
        let engine = machine().dependency_engine().unwrap();
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

/// A function of a scope comes before what another thread pushes after the function has joined,
/// whichever thread pushes the scope.
#[test]
fn a_scope_beside_another_thread() {
    explore(|| {
        let engine = machine().dependency_engine().unwrap();
        let (a, b) = (engine.var().unwrap(), engine.var().unwrap());
        let value = Arc::new(AtomicU64::new(1));
        let change = |by: fn(u64) -> u64| {
            let value = value.clone();
            move || value.store(by(value.load(Ordering::Relaxed)), Ordering::Relaxed)
        };
        let (joined, on_join) = shuttle::sync::mpsc::channel();
        let other = {
            let (engine, a, b) = (engine.clone(), a.clone(), b.clone());
            let add = change(|value| value + 1);
            thread::spawn(move || {
                let mut bulk = engine.bulk(3);
                bulk.push(add).writes(&[&a]).spawn().unwrap();
                joined.send(()).unwrap();
                bulk.push(|| ()).writes(&[&b]).spawn().unwrap();
            })
        };
        let mut bulk = engine.bulk(3);
        bulk.push(|| ()).reads(&[&b]).spawn().unwrap();
        on_join.recv().unwrap();
        engine.push(change(|value| value * 10)).writes(&[&a]).spawn().unwrap();
        engine.wait_for(&a).unwrap();
        assert_eq!(value.load(Ordering::Relaxed), 20);
        other.join().unwrap();
        drop(bulk);
        engine.wait_all().unwrap();
    });
}

/// A function of an in-order stream runs on a thread of the host, beside the stream's worker.
#[test]
fn a_function_of_a_stream_runs_apart() {
    explore(|| {
        let engine = machine().dependency_engine().unwrap();
        let a = engine.var().unwrap();
        let sum = Arc::new(AtomicU64::new(0));
        for k in 1..3 {
            let sum = sum.clone();
            let copy = Prop::CopyToDevice(millstream_types::DeviceId::cpu(0));
            let add = move || sum.store(sum.load(Ordering::Relaxed) + k, Ordering::Relaxed);
            engine.push(add).writes(&[&a]).prop(copy).spawn().unwrap();
        }
        engine.wait_for(&a).unwrap();
        assert_eq!(sum.load(Ordering::Relaxed), 3);
    });
}
