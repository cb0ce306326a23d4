//! The cases of MXNet's `tests/cpp/engine/threaded_engine_test.cc`, for this API. The table in
//! docs/engine.md says which is where.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use millstream_types::DeviceId;
use millstream_vm::{DependencyEngine, DriverKind, Prop, Tensor, Var};

use crate::{Log, machine};

/// The naive engine, that of any order, and that of one stream.
fn engines() -> [DependencyEngine; 3] {
    let per_stream = machine(DriverKind::Threaded);
    let stream = per_stream.compute(&DeviceId::cpu(0), 0).unwrap();
    [
        machine(DriverKind::Inline).dependency_engine().unwrap(),
        machine(DriverKind::Threaded).dependency_engine().unwrap(),
        per_stream.dependency_engine_on(&stream).unwrap(),
    ]
}

/// `start_stop`: a machine ends with its work, and another one starts. One that was shut down
/// refuses, and outlives its handles (`engine_shutdown_test.cc`).
#[test]
fn start_and_stop() {
    for _ in 0..2 {
        for engine in engines() {
            let (machine, log) = (engine.machine().clone(), Log::new());
            let a = engine.var().unwrap();
            engine.push(log.note(())).writes(&[&a]).spawn().unwrap();
            let report = machine.shutdown(Duration::from_secs(60));
            assert!(report.hanging.is_empty() && !report.leaked);
            assert_eq!(log.take().len(), 1);
            assert!(engine.push(|| ()).writes(&[&a]).spawn().is_err());
        }
    }
}

/// A step of `RandSumExpr`: the mean of some cells becomes the value of another one.
struct Workload {
    reads: Vec<usize>,
    write: usize,
}

fn workloads(seed: u64, count: usize, cells: usize) -> Vec<Workload> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut pick = move |most: usize| rng.next_u32() as usize % most;
    let mut one = || {
        let write = pick(cells);
        let reads = (0..2 + pick(18)).map(|_| pick(cells)).collect();
        Workload { reads, write }
    };
    (0..count).map(|_| one()).collect()
}

/// The bits of an f64 in each cell.
fn evaluate(load: &Workload, cells: &[AtomicU64]) {
    // Relaxed: the engine orders the accesses of each cell.
    let value = |k: &usize| f64::from_bits(cells[*k].load(Ordering::Relaxed));
    let mean = load.reads.iter().map(value).sum::<f64>() / (load.reads.len() + 1) as f64;
    cells[load.write].store(mean.to_bits(), Ordering::Relaxed);
}

fn ones(count: usize) -> Arc<[AtomicU64]> {
    (0..count).map(|_| AtomicU64::new(1f64.to_bits())).collect()
}

fn values(cells: &[AtomicU64]) -> Vec<u64> {
    cells.iter().map(|cell| cell.load(Ordering::Relaxed)).collect()
}

/// `RandSumExpr`: each engine computes what a loop computes, to the bit.
#[test]
fn random_sums() {
    const CELLS: usize = 100;
    for seed in 0..3 {
        let expected = ones(CELLS);
        workloads(seed, 1500, CELLS).iter().for_each(|load| evaluate(load, &expected));
        for engine in engines() {
            let cells = ones(CELLS);
            let vars: Vec<Var> = (0..CELLS).map(|_| engine.var().unwrap()).collect();
            for load in workloads(seed, 1500, CELLS) {
                let reads: Vec<&Var> = load.reads.iter().map(|k| &vars[*k]).collect();
                let (write, cells) = (&vars[load.write], cells.clone());
                let run = move |done: millstream_vm::OnComplete| {
                    evaluate(&load, &cells);
                    done.complete();
                };
                engine.push_async(run).reads(&reads).writes(&[write]).spawn().unwrap();
            }
            engine.wait_all().unwrap();
            assert_eq!(values(&cells), values(&expected), "seed {seed}");
        }
    }
}

/// `PushFunc` and `PushFuncND`: functions with and without a parameter, which is dropped once, on
/// plain variables and on tensors. Counts of variables cannot be wrong here: they are slices.
#[test]
fn functions_with_parameters() {
    for engine in engines() {
        let tensor = Tensor::from_slice(&[1.0f32], 1, engine.machine()).unwrap();
        for var in [engine.var().unwrap(), engine.var_of(&tensor).unwrap()] {
            let (log, parameter) = (Log::new(), Arc::new(100));
            let (given, note) = (parameter.clone(), log.note("async"));
            let with_parameter = move |done: millstream_vm::OnComplete| {
                assert_eq!(*given, 100);
                note();
                done.complete();
            };
            engine.push_async(with_parameter).reads(&[&var]).spawn().unwrap();
            engine.push_async(|done| done.complete()).writes(&[&var]).spawn().unwrap();
            let (given, note) = (parameter.clone(), log.note("sync"));
            let with_parameter = move || {
                assert_eq!(*given, 100);
                note();
            };
            engine.push(with_parameter).reads(&[&var]).spawn().unwrap();
            engine.push(|| ()).writes(&[&var]).spawn().unwrap();
            engine.wait_for(&var).unwrap();
            assert_eq!(log.take(), ["async", "sync"]);
            assert_eq!(Arc::strong_count(&parameter), 1, "both were dropped");
        }
    }
}

/// `basics` 1 and 2: operators that read a variable, and operators that write it in their order.
/// They are deleted behind their pushes, then the variable.
#[test]
fn operators_on_one_variable() {
    for engine in engines() {
        for writes in [false, true] {
            let (var, log) = (engine.var().unwrap(), Log::new());
            for k in 0..10 {
                let noted = log.clone();
                let operator = engine.operator_async(move |done| {
                    noted.note(k)();
                    done.complete();
                });
                let operator =
                    if writes { operator.writes(&[&var]) } else { operator.reads(&[&var]) };
                operator.push().unwrap();
            }
            engine.delete(&var, log.note(10)).unwrap();
            engine.wait_all().unwrap();
            let mut order = log.take();
            assert_eq!(order.last(), Some(&10));
            if !writes {
                order.sort_unstable();
            }
            assert_eq!(order, (0..11).collect::<Vec<_>>());
        }
    }
}

/// `basics` 3 to 5: the wait for an unused variable; the wait for a copy that writes it; no wait
/// for a function that only reads it, and which `wait_all` includes.
#[test]
fn waits_for_variables() {
    for engine in &engines()[1..] {
        let var = engine.var().unwrap();
        engine.wait_for(&var).unwrap();
        engine.delete(&var, || ()).unwrap();
        engine.wait_all().unwrap();

        let (var, log) = (engine.var().unwrap(), Log::new());
        let (give, take) = mpsc::channel::<()>();
        let (take, noted) = (std::sync::Mutex::new(take), log.clone());
        let copy = engine.operator(move || {
            let _ = take.lock().unwrap().recv();
            noted.note("copied")();
        });
        let copy = copy.writes(&[&var]).prop(Prop::CopyFromDevice(DeviceId::cpu(0)));
        copy.push().unwrap();
        drop(copy);
        drop(give);
        engine.wait_for(&var).unwrap();
        assert_eq!(log.take(), ["copied"]);
        engine.delete(&var, || ()).unwrap();
        engine.wait_all().unwrap();

        let (var, log) = (engine.var().unwrap(), Log::new());
        let (give, take) = mpsc::channel::<()>();
        let note = log.note("read");
        let reader = move || {
            let _ = take.recv();
            note();
        };
        engine.push(reader).reads(&[&var]).spawn().unwrap();
        engine.wait_for(&var).unwrap();
        assert!(log.take().is_empty());
        drop(give);
        engine.wait_all().unwrap();
        assert_eq!(log.take(), ["read"]);
    }
}

/// `VarVersion`: a variable has no number of its writes here; a function that counts them finds
/// none after reads, and each of ten after ten writes.
#[test]
fn writes_of_a_variable() {
    for engine in engines() {
        for (writes, expected) in [(false, 0), (true, 10)] {
            let (var, version) = (engine.var().unwrap(), Arc::new(AtomicU64::new(0)));
            for _ in 0..10 {
                let counted = version.clone();
                let write = move || {
                    let old = counted.load(Ordering::Relaxed);
                    counted.store(old + 1, Ordering::Relaxed);
                };
                match writes {
                    true => engine.push(write).writes(&[&var]).spawn().unwrap(),
                    false => engine.push(|| ()).reads(&[&var]).spawn().unwrap(),
                }
            }
            engine.wait_all().unwrap();
            assert_eq!(version.load(Ordering::Relaxed), expected);
            engine.delete(&var, || ()).unwrap();
        }
    }
}

/// `thread_local_test.cc`: the scratch memory of a worker belongs to one function at a time.
#[test]
fn scratch_memory_belongs_to_its_thread() {
    let engine = machine(DriverKind::Threaded).dependency_engine().unwrap();
    let step = engine.operator_with(|context| {
        let scratch = context.scratch(1000)?;
        scratch.fill(0);
        for (k, byte) in scratch.iter_mut().enumerate() {
            *byte = byte.wrapping_add(k as u8);
        }
        assert!(scratch.iter().enumerate().all(|(k, byte)| *byte == k as u8));
        anyhow::Ok(())
    });
    for _ in 0..500 {
        step.push().unwrap();
    }
    engine.wait_all().unwrap();
}
