//! Random mixes of functions, bulk scopes, ops, callbacks, launches, reads and waits, from one
//! thread and from several: each has the effects that it would have in the order of the program.
//!
//! The model is sequential: an owner per variable or tensor, with a value that each write mixes.
//! The values of the machine live in cells that nothing but the machine's order protects.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use millstream::*;
use millstream_testing::machine::*;

/// Plain variables come first, then variables of tensors on the host and on `sim:0`.
const PLAIN: usize = 3;
const TENSORS: usize = 4;
const OWNERS: usize = PLAIN + TENSORS;

/// The ops that read a cell and note its value; number k is for tensor k.
const PROBES: [&str; TENSORS] = ["probe0", "probe1", "probe2", "probe3"];

#[derive(Default)]
struct State {
    cells: [AtomicU64; OWNERS],
    /// The values that readers found.
    seen: Mutex<Vec<(usize, u64)>>,
}

impl State {
    fn read(&self, owner: usize) {
        // Relaxed: the machine orders the accesses of each cell.
        let value = self.cells[owner].load(Ordering::Relaxed);
        self.seen.lock().unwrap().push((owner, value));
    }

    fn write(&self, owner: usize, number: u64) {
        let value = self.cells[owner].load(Ordering::Relaxed);
        // Two accesses, so that a concurrent write is lost.
        std::hint::spin_loop();
        self.cells[owner].store(mix(value, number), Ordering::Relaxed);
    }
}

fn mix(value: u64, number: u64) -> u64 {
    value.wrapping_mul(31).rotate_left(9).wrapping_add(number)
}

/// The sequential model.
#[derive(Default)]
struct Model {
    values: [u64; OWNERS],
    seen: Vec<(usize, u64)>,
}

impl Model {
    fn read(&mut self, owner: usize) {
        self.seen.push((owner, self.values[owner]));
    }

    fn write(&mut self, owner: usize, number: u64) {
        self.values[owner] = mix(self.values[owner], number);
    }
}

struct Program {
    machine: Machine,
    state: Arc<State>,
    engine: DependencyEngine,
    tensors: Vec<Tensor>,
    vars: Vec<Var>,
    jobs: Vec<Executable>,
}

fn program(driver: DriverKind, seed: u64) -> Program {
    let state: Arc<State> = Arc::default();
    let simulation = Simulation { seed, ..Simulation::default() };
    let mut config = config(driver, SyncPolicy::Frontier).simulation(simulation);
    for (k, name) in PROBES.into_iter().enumerate() {
        let state = state.clone();
        add_op(&mut config, name, move |_| {
            state.read(PLAIN + k);
            Ok(())
        });
    }
    let machine = Machine::new(config).unwrap();
    let engine = machine.dependency_engine().unwrap();
    let tensors: Vec<Tensor> = (0..TENSORS as u32)
        .map(|k| match k % 2 {
            0 => upload(&cpu(&machine, k), &machine, &[1.0]),
            _ => upload(&sim(&machine, k), &machine, &[1.0]),
        })
        .collect();
    let mut vars: Vec<Var> = (0..PLAIN).map(|_| engine.var().unwrap()).collect();
    vars.extend(tensors.iter().map(|tensor| engine.var_of(tensor).unwrap()));
    // Executables that read the tensors of the host.
    let jobs = (0..TENSORS).step_by(2).map(|k| {
        let mut list = machine.recorder();
        let stream = list.stream(&StreamKey::compute(CPU, 0)).unwrap();
        // Without an output that is bound, a pass would remove the call.
        let y = upload(&cpu(&machine, 0), &machine, &[1.0]);
        let (x, y) = (list.bind(&tensors[k]).unwrap(), list.bind(&y).unwrap());
        list.call(PROBES[k], &[x]).out(&[y]).on(stream).unwrap();
        list.finish().unwrap().compile().unwrap()
    });
    let jobs = jobs.collect();
    Program { machine, state, engine, tensors, vars, jobs }
}

impl Program {
    /// Makes one random step, on the machine and on the model.
    fn step(&self, rng: &mut ChaCha8Rng, number: u64, bulk: &mut Bulk<'_>, model: &mut Model) {
        let Program { machine, engine, tensors, vars, .. } = self;
        let mut pick = |most: usize| rng.next_u32() as usize % most;
        let state = self.state.clone();
        match pick(12) {
            // A function, by itself or in a scope.
            0..=5 => {
                let (read, written, kind) = (pick(OWNERS), pick(OWNERS), pick(9));
                let function = move || {
                    if read != written {
                        state.read(read);
                    }
                    state.write(written, number);
                };
                let push = match kind {
                    0..=4 => bulk.push(function),
                    5 => engine.push(function).prop(Prop::CpuPrioritized),
                    6 => engine.push(function).prop(Prop::CopyToDevice(SIM)),
                    7 => engine.push(function).prop(Prop::Async),
                    _ => engine.push(function),
                };
                let push = push.reads(&[&vars[read]]).writes(&[&vars[written]]);
                push.spawn().unwrap();
                if read != written {
                    model.read(read);
                }
                model.write(written, number);
            }
            // An op.
            6 | 7 => {
                let (k, stream) = (pick(TENSORS), pick(2) as u32);
                let stream = if k % 2 == 0 { cpu(machine, stream) } else { sim(machine, stream) };
                call(machine, PROBES[k], &[&tensors[k]], &stream);
                model.read(PLAIN + k);
            }
            // A callback that writes a tensor of the host.
            8 => {
                let k = pick(TENSORS) & !1;
                let write = move |_: &mut Blob<'_>| {
                    state.write(PLAIN + k, number);
                    Ok(())
                };
                tensors[k].access(Access::ReadWrite, write).unwrap();
                model.write(PLAIN + k, number);
            }
            // A launch.
            9 => {
                let k = pick(self.jobs.len());
                self.jobs[k].launch().run().unwrap();
                model.read(PLAIN + 2 * k);
            }
            // A read of the program, which every earlier write has passed.
            10 => {
                let k = pick(TENSORS);
                tensors[k].read().unwrap();
                self.check(PLAIN + k, model);
            }
            // A wait for a variable.
            _ => {
                let owner = pick(OWNERS);
                engine.wait_for(&vars[owner]).unwrap();
                self.check(owner, model);
            }
        }
    }

    /// Checks a value that nothing pending writes.
    fn check(&self, owner: usize, model: &Model) {
        assert_eq!(self.state.cells[owner].load(Ordering::Relaxed), model.values[owner]);
    }

    /// Checks all values, and those that readers found.
    fn end(self, model: Model) {
        self.engine.wait_all().unwrap();
        for owner in 0..OWNERS {
            self.check(owner, &model);
        }
        let mut seen = std::mem::take(&mut *self.state.seen.lock().unwrap());
        let mut expected = model.seen;
        seen.sort_unstable();
        expected.sort_unstable();
        assert_eq!(seen, expected);
    }
}

#[test]
fn one_thread_mixes_everything() {
    for driver in [DriverKind::Threaded, DriverKind::Inline, DriverKind::Simulated] {
        for seed in 0..12 {
            let program = program(driver, seed);
            let (mut rng, mut model) = (ChaCha8Rng::seed_from_u64(seed), Model::default());
            let mut bulk = program.engine.bulk(1 + seed as usize * 3);
            for number in 0..120 {
                program.step(&mut rng, number, &mut bulk, &mut model);
            }
            drop(bulk);
            program.end(model);
        }
    }
}

/// The threads take turns, so that there is an order of the program. Each has a scope of its own,
/// which stays pending over the turns of the others.
#[test]
fn several_threads_mix_everything() {
    const THREADS: u64 = 3;
    for (seed, driver) in
        (0..12).zip([DriverKind::Threaded, DriverKind::Inline].into_iter().cycle())
    {
        let program = program(driver, seed);
        let turn = Mutex::new((0, Model::default()));
        std::thread::scope(|threads| {
            for thread in 0..THREADS {
                let (program, turn) = (&program, &turn);
                threads.spawn(move || {
                    let mut rng = ChaCha8Rng::seed_from_u64(seed * THREADS + thread);
                    let mut bulk = program.engine.bulk(40);
                    for _ in 0..60 {
                        let mut turn = turn.lock().unwrap();
                        let (number, model) = &mut *turn;
                        program.step(&mut rng, *number, &mut bulk, model);
                        *number += 1;
                    }
                });
            }
        });
        let (_, model) = turn.into_inner().unwrap();
        program.end(model);
    }
}
