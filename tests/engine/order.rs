//! Functions run in an order that their variables allow.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use millstream_vm::{DependencyEngine, DriverKind, Machine, MachineConfig, Simulation, Var};

use crate::{Log, threaded};

/// The values of some variables, which functions change.
type Cells = Arc<[AtomicU64]>;

const CELLS: usize = 12;

fn pick(rng: &mut ChaCha8Rng, most: usize) -> Vec<usize> {
    let count = rng.next_u32() as usize % (most + 1);
    (0..count).map(|_| rng.next_u32() as usize % CELLS).collect()
}

/// Pushes random functions, each of which mixes what it reads into what it writes, and returns the
/// values at the end.
fn random_program(machine: &Machine, seed: u64, pushes: u64) -> Vec<u64> {
    let engine = machine.dependency_engine().unwrap();
    let cells: Cells = (0..CELLS as u64).map(AtomicU64::new).collect();
    let vars: Vec<Var> = (0..CELLS).map(|_| engine.var().unwrap()).collect();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for number in 0..pushes {
        let (reads, writes) = (pick(&mut rng, 4), pick(&mut rng, 3));
        let named = |of: &[usize]| of.iter().map(|k| vars[*k].clone()).collect::<Vec<_>>();
        let (read, written) = (named(&reads), named(&writes));
        let read: Vec<&Var> = read.iter().collect();
        let written: Vec<&Var> = written.iter().collect();
        let cells = cells.clone();
        let mix = move || {
            // Relaxed: the engine orders the accesses of each cell.
            let sum = reads
                .iter()
                .fold(number, |sum, k| sum.rotate_left(7) ^ cells[*k].load(Ordering::Relaxed));
            for k in &writes {
                let old = cells[*k].load(Ordering::Relaxed);
                cells[*k].store(old.wrapping_mul(31).wrapping_add(sum), Ordering::Relaxed);
            }
        };
        let push = engine.push(mix).reads(&read).writes(&written);
        push.priority((rng.next_u32() % 3) as i32 - 1).spawn().unwrap();
    }
    engine.wait_all().unwrap();
    cells.iter().map(|cell| cell.load(Ordering::Relaxed)).collect()
}

/// Random pushes have the values that the naive engine computes, on threads and in every simulated
/// order.
#[test]
fn random_pushes_equal_those_of_the_naive_engine() {
    for seed in 0..40 {
        let config = |driver| MachineConfig::default().driver(driver).host_workers(2);
        let run = |config| random_program(&Machine::new(config).unwrap(), seed, 60);
        let naive = run(config(DriverKind::Inline));
        assert_eq!(run(config(DriverKind::Threaded)), naive, "seed {seed}");
        let simulation = Simulation { seed, ..Simulation::default() };
        let simulated = config(DriverKind::Simulated).simulation(simulation);
        assert_eq!(run(simulated), naive, "simulated, seed {seed}");
    }
}

/// A variable may be named twice, and as read and as written.
#[test]
fn a_variable_may_be_named_several_times() {
    for driver in [DriverKind::Threaded, DriverKind::Inline, DriverKind::Simulated] {
        let engine = crate::machine(driver).dependency_engine().unwrap();
        let (a, log) = (engine.var().unwrap(), Log::new());
        for k in 0..20 {
            let push = engine.push(log.note(k)).reads(&[&a, &a]);
            if k % 2 == 0 { push.writes(&[&a, &a]) } else { push.overwrites(&[&a]) }
                .spawn()
                .unwrap();
        }
        engine.wait_for(&a).unwrap();
        assert_eq!(log.take(), (0..20).collect::<Vec<_>>(), "{driver:?}");
    }
}

/// More variables than a stored call has.
#[test]
fn functions_may_use_many_variables() {
    let engine = threaded().dependency_engine().unwrap();
    let (vars, log): (Vec<Var>, _) = ((0..9).map(|_| engine.var().unwrap()).collect(), Log::new());
    let all: Vec<&Var> = vars.iter().collect();
    for k in 0..50 {
        engine.push(log.note(k)).reads(&all[..k % 9]).writes(&all[k % 9..]).spawn().unwrap();
    }
    engine.wait_all().unwrap();
    let order = log.take();
    // Neighbours in order, since each writes the last variable.
    assert_eq!(order, (0..50).collect::<Vec<_>>());
}

/// Readers of one variable run side by side: each waits for the other.
#[test]
fn readers_do_not_wait_for_one_another() {
    let engine = threaded().dependency_engine().unwrap();
    let a = engine.var().unwrap();
    let (to_b, from_a) = mpsc::channel();
    let (to_a, from_b) = mpsc::channel();
    engine
        .push(move || {
            to_b.send(1).unwrap();
            assert_eq!(from_b.recv().unwrap(), 2);
        })
        .reads(&[&a])
        .spawn()
        .unwrap();
    engine
        .push(move || {
            assert_eq!(from_a.recv().unwrap(), 1);
            to_a.send(2).unwrap();
        })
        .reads(&[&a])
        .spawn()
        .unwrap();
    engine.wait_all().unwrap();
}

/// Many pushes from several threads, each with a variable of its own and a common one.
#[test]
fn threads_push_at_the_same_time() {
    const PUSHES: u64 = if cfg!(debug_assertions) { 5_000 } else { 250_000 };
    let engine = threaded().dependency_engine().unwrap();
    let common = engine.var().unwrap();
    // Only the order of writes of the common variable makes this sum exact.
    let sum = Arc::new(AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let engine: DependencyEngine = engine.clone();
                let own = engine.var().unwrap();
                for k in 0..PUSHES {
                    let sum = sum.clone();
                    let push = engine.push(move || {
                        let old = sum.load(Ordering::Relaxed);
                        sum.store(old + 1, Ordering::Relaxed);
                    });
                    let push = push.writes(&[&common]);
                    if k % 4 == 0 { push.reads(&[&own]) } else { push }.spawn().unwrap();
                }
                engine.wait_for(&own).unwrap();
            });
        }
    });
    engine.wait_all().unwrap();
    assert_eq!(sum.load(Ordering::Relaxed), 4 * PUSHES);
}

/// An operator is pushed many times, on the variables that it was made with.
#[test]
fn operators_are_pushed_often() {
    let engine = threaded().dependency_engine().unwrap();
    let (a, b) = (engine.var().unwrap(), engine.var().unwrap());
    let cells: Arc<[AtomicU64]> = [0, 1].map(AtomicU64::new).into();
    let step = |from: usize, to: usize| {
        let cells = cells.clone();
        move || {
            let sum = cells[from].load(Ordering::Relaxed) + cells[to].load(Ordering::Relaxed);
            cells[to].store(sum, Ordering::Relaxed);
        }
    };
    let forth = engine.operator(step(0, 1)).reads(&[&a]).writes(&[&b]).name("forth");
    let back = engine.operator(step(1, 0)).reads(&[&b]).writes(&[&a]).name("back");
    for _ in 0..10 {
        forth.push().unwrap();
        back.push().unwrap();
    }
    engine.wait_all().unwrap();
    // Fibonacci numbers.
    let values = [&cells[0], &cells[1]].map(|cell| cell.load(Ordering::Relaxed));
    assert_eq!(values, [6765, 4181]);
}

/// A function that an independent one completes ends, however many blocked ones lie between them.
#[test]
fn blocked_functions_do_not_hold_up_independent_ones() {
    for waits_on_worker in [false, true] {
        let engine = threaded().dependency_engine().unwrap();
        let (a, b) = (engine.var().unwrap(), engine.var().unwrap());
        let (give, take) = mpsc::channel();
        let (complete, completed) = mpsc::channel::<()>();
        let first = engine.push_async(move |done| {
            if waits_on_worker {
                let _ = completed.recv();
            }
            give.send(done).unwrap();
        });
        first.writes(&[&a]).spawn().unwrap();
        let runs = Arc::new(AtomicU64::new(0));
        let blocked = engine.operator({
            let runs = runs.clone();
            move || {
                runs.fetch_add(1, Ordering::Relaxed);
            }
        });
        let blocked = blocked.writes(&[&a]);
        // Small calls before them, so that the workers expect small ones.
        for _ in 0..1000 {
            engine.push(|| ()).spawn().unwrap();
        }
        for _ in 0..5000 {
            blocked.push().unwrap();
        }
        let end = move || {
            drop(complete);
            take.recv().unwrap().complete();
        };
        engine.push(end).writes(&[&b]).spawn().unwrap();
        engine.wait_for(&b).unwrap();
        engine.wait_for(&a).unwrap();
        assert_eq!(runs.load(Ordering::Relaxed), 5000);
    }
}
