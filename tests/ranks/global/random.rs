//! Random programs on random meshes, against one rank.
//!
//! Long because eager calls and compiled functions share the generator of programs.
//!
//! `MILLSTREAM_GLOBAL_PROGRAMS` sets their number; a failure names the seed of its program.

use millstream::*;
use millstream_testing::cases;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::{on_ranks, shardings};

/// Returns the number of programs: what the environment says, or else the test.
fn programs(of_test: u64) -> u64 {
    let said = std::env::var("MILLSTREAM_GLOBAL_PROGRAMS");
    said.map_or(of_test, |text| text.parse().unwrap())
}

/// The calls of a program.
const CALLS: usize = 12;

/// A call, with the positions of its operands among the tensors so far.
#[derive(Clone, Debug)]
enum Step {
    Unary(&'static str, usize),
    Binary(&'static str, usize, usize),
    InPlace(&'static str, usize, usize),
    Reduce(&'static str, usize, Option<usize>),
    Along(&'static str, usize, usize),
    Transpose(usize, usize, usize),
    View(usize, Vec<i64>),
    Narrow(usize, usize, usize, usize),
    Cat(usize, usize, usize),
    Select(usize, usize, usize),
    Matmul(usize, usize),
    Drawn(&'static str, Vec<i64>, u64),
    Dropped(usize, u64),
    Rows(usize, Vec<i64>),
    Cast(usize, DType),
    Redistribute(usize),
    Where(usize, usize, usize),
}

/// A tensor of a program: one rank's, that of the ranks, and whether both are equal to the bit.
struct Held {
    one: Tensor,
    all: Tensor,
    is_exact: bool,
}

struct Program<'a> {
    random: ChaCha8Rng,
    machine: &'a Machine,
    one: &'a Machine,
    mesh: Mesh,
    held: Vec<Held>,
    steps: Vec<String>,
}

impl Program<'_> {
    fn below(&mut self, bound: usize) -> usize {
        (self.random.next_u64() % bound.max(1) as u64) as usize
    }

    fn pick<T: Clone>(&mut self, list: &[T]) -> T {
        let at = self.below(list.len());
        list[at].clone()
    }

    fn sharding(&mut self, dims: usize) -> Sharding {
        let all = shardings(self.mesh.rank(), dims);
        let sbp = self.pick(&all);
        Sharding::new(&self.mesh, sbp).unwrap()
    }

    fn shape(&mut self) -> Vec<i64> {
        let dims = 1 + self.below(3);
        (0..dims).map(|_| self.pick(&[1, 2, 4, 5])).collect()
    }

    /// Declares a tensor of elements that all ranks have.
    fn declare(&mut self) -> Result<()> {
        let shape = self.shape();
        let numel = shape.iter().product::<i64>();
        let sharding = self.sharding(shape.len());
        let place = (self.machine, &sharding);
        let (one, all) = match self.below(3) {
            0 => {
                let data: Vec<i64> = (0..numel).map(|k| (k * 7) % 11 - 5).collect();
                (
                    Tensor::from_slice(&data, shape.clone(), self.one)?,
                    Tensor::from_slice(&data, shape, place)?,
                )
            }
            _ => {
                let data = quarters(&shape);
                (
                    Tensor::from_slice(&data, shape.clone(), self.one)?,
                    Tensor::from_slice(&data, shape, place)?,
                )
            }
        };
        self.held.push(Held { one, all, is_exact: true });
        Ok(())
    }

    fn step(&mut self) -> Step {
        let x = self.below(self.held.len());
        let y = self.below(self.held.len());
        let shape = self.held[x].one.shape().to_vec();
        let dim = self.below(shape.len());
        let length = shape.get(dim).copied().unwrap_or(1);
        match self.below(18) {
            0 => Step::Unary(self.pick(&["relu", "neg", "tanh", "abs"]), x),
            1 | 2 => Step::Binary(self.pick(&["add", "mul", "sub", "maximum"]), x, y),
            3 => Step::InPlace(self.pick(&["add_", "mul_", "copy_"]), x, y),
            4 => Step::Reduce(self.pick(&["sum", "mean", "amax", "amin"]), x, None),
            5 => Step::Reduce(self.pick(&["sum", "mean", "amax", "amin"]), x, Some(dim)),
            6 => Step::Along(self.pick(&["softmax", "cumsum", "flip"]), x, dim),
            7 => Step::Transpose(x, dim, self.below(shape.len())),
            8 => {
                let numel: usize = shape.iter().product();
                let parts: Vec<usize> =
                    (1..=numel.max(1)).filter(|k| numel.is_multiple_of(*k)).collect();
                let first = self.pick(&parts);
                let lengths = match self.below(3) {
                    0 => vec![-1],
                    1 => vec![first as i64, -1],
                    _ => [&[1], &shape.iter().map(|n| *n as i64).collect::<Vec<_>>()[..]].concat(),
                };
                Step::View(x, lengths)
            }
            9 => {
                let start = self.below(length);
                let count = 1 + self.below(length - start);
                Step::Narrow(x, dim, start, count)
            }
            10 => Step::Cat(x, y, dim),
            11 => Step::Select(x, dim, self.below(length)),
            12 => Step::Matmul(x, y),
            13 => {
                Step::Drawn(self.pick(&["normal", "uniform"]), self.shape(), self.random.next_u64())
            }
            14 => match self.below(2) {
                0 => Step::Dropped(x, self.random.next_u64()),
                _ => {
                    let rows = shape.first().copied().unwrap_or(1);
                    let count = if rows == 0 { 0 } else { self.below(7) };
                    Step::Rows(x, (0..count).map(|_| self.below(rows) as i64).collect())
                }
            },
            15 => Step::Cast(x, self.pick(&[DType::F32, DType::I64, DType::F64])),
            16 => Step::Where(x, y, self.below(self.held.len())),
            _ => Step::Redistribute(x),
        }
    }

    /// Makes a call on tensors of one rank, or of all.
    fn call(
        &self,
        step: &Step,
        of: &dyn Fn(usize) -> Tensor,
        place: Option<&Sharding>,
    ) -> Result<Tensor> {
        let attrs = Attrs::new();
        let call = |op: &str, inputs: &[&Tensor], attrs: &Attrs| {
            let machine = inputs[0].machine();
            machine.call(op, inputs).attrs(attrs).run().map(|mut made| made.remove(0))
        };
        match step {
            Step::Unary(op, x) => call(op, &[&of(*x)], &attrs),
            Step::Binary(op, x, y) | Step::InPlace(op, x, y) => {
                call(op, &[&of(*x), &of(*y)], &attrs)
            }
            Step::Reduce(op, x, dim) => {
                let attrs = match dim {
                    Some(dim) => attrs.with("dim", vec![*dim as i64]),
                    None => attrs,
                };
                call(op, &[&of(*x)], &attrs)
            }
            Step::Along("flip", x, dim) => {
                call("flip", &[&of(*x)], &attrs.with("dims", vec![*dim as i64]))
            }
            Step::Along(op, x, dim) => call(op, &[&of(*x)], &attrs.with("dim", *dim as i64)),
            Step::Transpose(x, a, b) => {
                let attrs = attrs.with("dim0", *a as i64).with("dim1", *b as i64);
                call("transpose", &[&of(*x)], &attrs)
            }
            Step::View(x, shape) => {
                call("reshape", &[&of(*x)], &attrs.with("shape", shape.clone()))
            }
            Step::Narrow(x, dim, start, length) => {
                let attrs = attrs.with("dim", *dim as i64).with("start", *start as i64);
                call("narrow", &[&of(*x)], &attrs.with("length", *length as i64))
            }
            Step::Cat(x, y, dim) => {
                call("cat", &[&of(*x), &of(*y)], &attrs.with("dim", *dim as i64))
            }
            Step::Select(x, dim, index) => {
                let attrs = attrs.with("dim", *dim as i64).with("index", *index as i64);
                call("select", &[&of(*x)], &attrs)
            }
            Step::Matmul(x, y) => call("matmul", &[&of(*x), &of(*y)], &attrs),
            Step::Drawn(op, shape, seed) => {
                let made = |place: &dyn Fn(Vec<i64>, u64) -> Result<Tensor>| {
                    place(shape.clone(), seed >> 1)
                };
                match (*op, place) {
                    ("normal", None) => {
                        made(&|s, seed| Tensor::normal(0.0, 1.0, s, seed, self.one))
                    }
                    ("normal", Some(held)) => {
                        made(&|s, seed| Tensor::normal(0.0, 1.0, s, seed, (self.machine, held)))
                    }
                    (_, None) => made(&|s, seed| Tensor::uniform(0.0..1.0, s, seed, self.one)),
                    (_, Some(held)) => {
                        made(&|s, seed| Tensor::uniform(0.0..1.0, s, seed, (self.machine, held)))
                    }
                }
            }
            Step::Dropped(x, seed) => {
                let attrs = attrs.with("p", 0.5).with("seed", (seed >> 1) as i64);
                call("native_dropout", &[&of(*x)], &attrs)
            }
            Step::Rows(x, rows) => {
                let indices = match place {
                    None => Tensor::from_slice(rows, rows.len(), self.one)?,
                    Some(held) => Tensor::from_slice(rows, rows.len(), (self.machine, held))?,
                };
                call("embedding", &[&of(*x), &indices], &attrs)
            }
            Step::Cast(x, dtype) => call("cast", &[&of(*x)], &attrs.with("dtype", *dtype)),
            Step::Redistribute(x) => match place {
                None => call("copy", &[&of(*x)], &attrs),
                Some(held) => of(*x).redistribute(held.sbp().iter().copied()),
            },
            Step::Where(x, y, z) => {
                let condition = call("gt", &[&of(*x)], &attrs.clone().with("other", 0i64))?;
                call("where", &[&condition, &of(*y), &of(*z)], &attrs)
            }
        }
    }

    /// Makes a call on both sides, and compares the results.
    fn make(&mut self) -> Result<()> {
        let step = self.step();
        let dims = match &step {
            Step::Drawn(_, shape, _) => shape.len(),
            Step::Rows(..) => 1,
            Step::Redistribute(x) => self.held[*x].one.rank(),
            _ => 0,
        };
        let mut place = self.sharding(dims);
        // Partial booleans and maxima of random numbers are of no interest here.
        if let Step::Redistribute(x) = &step
            && place.check(self.held[*x].one.dtype(), self.held[*x].one.shape()).is_err()
        {
            place = Sharding::broadcast(&self.mesh);
        }
        let one = self.call(&step, &|x| self.held[x].one.clone(), None);
        let all = self.call(&step, &|x| self.held[x].all.clone(), Some(&place));
        let described = |x: usize| {
            let held = &self.held[x];
            format!("{x}: {} {}", held.one.spec(), held.all.sharding().unwrap())
        };
        let all_held: Vec<String> = (0..self.held.len()).map(described).collect();
        let made = all.as_ref().map(|all| all.sharding().unwrap().to_string());
        self.steps.push(format!("{step:?} → {made:?}, of {all_held:?}"));
        let (one, all) = match (one, all) {
            (Err(_), Err(_)) => return Ok(()),
            (Ok(one), Ok(all)) => (one, all),
            (Ok(_), Err(error)) => {
                let text = error.to_string();
                let is_told = text.contains("in place; redistribute it to B first")
                    || text.contains("shares memory with a view on one rank");
                assert!(is_told, "{text}\n{}", self.steps.join("\n"));
                // One rank has changed its tensor: both sides begin anew.
                self.held.clear();
                return self.declare();
            }
            (Err(error), Ok(_)) => panic!("one rank refuses: {error}\n{}", self.steps.join("\n")),
        };
        let rounds = |op: &str| !["amax", "amin", "flip"].contains(&op);
        let (inputs, is_exact) = match &step {
            Step::Unary(_, x) | Step::Cast(x, _) | Step::Dropped(x, _) => (vec![*x], true),
            Step::Binary(_, x, y) | Step::InPlace(_, x, y) | Step::Cat(x, y, _) => {
                (vec![*x, *y], true)
            }
            Step::Where(x, y, z) => (vec![*x, *y, *z], true),
            Step::Reduce(op, x, _) | Step::Along(op, x, _) => (vec![*x], !rounds(op)),
            Step::Matmul(x, y) => (vec![*x, *y], false),
            Step::Drawn(..) => (vec![], true),
            Step::Transpose(x, ..)
            | Step::View(x, _)
            | Step::Narrow(x, ..)
            | Step::Select(x, ..)
            | Step::Rows(x, _)
            | Step::Redistribute(x) => (vec![*x], true),
        };
        // A sum of parts is rounded where it is reduced.
        let is_partial = |x: &usize| is_partial(&self.held[*x].all);
        let is_whole = !one.dtype().is_inexact();
        let is_exact = is_whole && inputs.iter().all(|x| self.held[*x].is_exact)
            || is_exact && inputs.iter().all(|x| self.held[*x].is_exact && !is_partial(x));
        assert_eq!(one.spec().shape(), all.spec().shape(), "{}", self.steps.join("\n"));
        assert_eq!(one.dtype(), all.dtype(), "{}", self.steps.join("\n"));
        if let Step::InPlace(_, x, _) = &step {
            // Views of the target have changed, too: all are compared below.
            self.held[*x].is_exact = is_exact;
            let exact = self.held.iter().all(|held| held.is_exact);
            self.held.iter_mut().for_each(|held| held.is_exact = exact);
        } else {
            self.held.push(Held { one, all, is_exact });
        }
        let newest = self.held.len() - 1;
        for k in if matches!(step, Step::InPlace(..)) { 0..newest + 1 } else { newest..newest + 1 }
        {
            self.compare(k)?;
        }
        Ok(())
    }

    fn compare(&self, k: usize) -> Result<()> {
        let Held { one, all, is_exact } = &self.held[k];
        let has_signs = !(is_partial(all) && one.dtype().is_inexact());
        let all = all.full_tensor()?;
        let what = || format!("tensor {k} on {}\n{}", self.mesh, self.steps.join("\n"));
        if *is_exact {
            match has_signs {
                true => assert_eq!(all.read()?, one.read()?, "{}", what()),
                false => assert!(equal(&all, one)?, "{all:?} and {one:?} in {}", what()),
            }
            return Ok(());
        }
        // Sums of other order may be rounded to other integers.
        assert!(near(&all, one)?, "{all:?} and {one:?} in {}", what());
        Ok(())
    }
}

/// The calls of a program that one rank makes, without those that it refuses, each with the
/// sharding of what it makes or redistributes.
fn calls_of_one_rank(seed: u64, mesh: &Mesh, one: &Machine) -> Result<(Vec<Held>, Vec<Planned>)> {
    let (random, held, steps) = (ChaCha8Rng::seed_from_u64(seed), Vec::new(), Vec::new());
    let mesh = mesh.clone();
    let mut program = Program { random, machine: one, one, mesh, held, steps };
    for _ in 0..3 {
        let shape = program.shape();
        let made = Tensor::from_slice(&quarters(&shape), shape, one)?;
        program.held.push(Held { one: made.clone(), all: made, is_exact: true });
    }
    let mut planned = Vec::new();
    for _ in 0..CALLS {
        let step = program.step();
        let dims = match &step {
            Step::Drawn(_, shape, _) => shape.len(),
            Step::Rows(..) => 1,
            Step::Redistribute(x) => program.held[*x].one.rank(),
            _ => 0,
        };
        let mut place = program.sharding(dims);
        if let Step::Redistribute(x) = &step
            && place.check(program.held[*x].one.dtype(), program.held[*x].one.shape()).is_err()
        {
            place = Sharding::broadcast(&program.mesh);
        }
        let Ok(made) = program.call(&step, &|x| program.held[x].one.clone(), None) else {
            continue;
        };
        if !matches!(step, Step::InPlace(..)) {
            program.held.push(Held { one: made.clone(), all: made, is_exact: true });
        }
        planned.push(Planned { step, place });
    }
    Ok((program.held, planned))
}

/// A call, and how what it makes or redistributes is held.
struct Planned {
    step: Step,
    place: Sharding,
}

/// Functions whose inputs are open, compiled for a mesh, return what one rank computes. Takes more
/// than 5 s, as each rank of eight on three axes searches for itself: one function for each mesh.
#[test]
fn random_functions_compile() {
    let programs = programs(12);
    let meshes = meshes();
    for (k, (ranks, mesh)) in meshes.iter().enumerate() {
        let compiled: usize = on_ranks(*ranks, |rank| {
            let machine = &rank.machine;
            let one = Machine::new(MachineConfig::default().driver(DriverKind::Inline))?;
            let mut compiled = 0;
            for seed in (k as u64..programs).step_by(meshes.len()) {
                let (expected, calls) = calls_of_one_rank(seed, mesh, &one)?;
                let shapes: Vec<TensorSpec> = expected[..3].iter().map(|h| spec(&h.one)).collect();
                let function = |inputs: &[Tensor]| {
                    let mut held = inputs.to_vec();
                    for Planned { step, place } in &calls {
                        let program = Program {
                            random: ChaCha8Rng::seed_from_u64(0),
                            machine,
                            one: &one,
                            mesh: mesh.clone(),
                            held: Vec::new(),
                            steps: Vec::new(),
                        };
                        let made = program.call(step, &|x| held[x].clone(), Some(place))?;
                        if !matches!(step, Step::InPlace(..)) {
                            held.push(made);
                        }
                    }
                    Ok(held)
                };
                let open = || (0..mesh.rank()).map(|_| sbp::OPEN);
                let shapes = shapes.into_iter();
                let built = shapes.fold(machine.shard(mesh, function), |f, s| f.input(s, open()));
                let what = || {
                    let steps = calls.iter().map(|p| format!("{:?} {}", p.step, p.place));
                    format!("seed {seed} on {mesh}\n{}", steps.collect::<Vec<_>>().join("\n"))
                };
                let sharded = match built.compile() {
                    Ok(sharded) => sharded,
                    Err(error) => {
                        let text = error.to_string();
                        let is_told = text.contains("redistribute it to B first")
                            || text.contains("shares memory with a view on one rank");
                        assert!(is_told, "{text}\n{}", what());
                        continue;
                    }
                };
                compiled += 1;
                let whole = Sharding::broadcast(mesh);
                let given = (0..3).map(|k| {
                    let shape: Vec<i64> =
                        expected[k].one.shape().iter().map(|length| *length as i64).collect();
                    Tensor::from_slice(&quarters(&shape), shape, (machine, &whole))
                });
                let given = given.collect::<Result<Vec<Tensor>>>()?;
                let given: Vec<&Tensor> = given.iter().collect();
                let made = sharded.call(&given)?;
                for (k, (got, expected)) in made.iter().zip(&expected).enumerate() {
                    let near = near(&got.full_tensor()?, &expected.one)?;
                    assert!(near, "tensor {k}\n{}\n{}", sharded.layouts(), what());
                }
            }
            Ok(compiled)
        })
        .remove(0);
        assert!(compiled > 0, "{mesh}");
    }
}

/// Returns the elements of an input: sums of some of them are exact.
fn quarters(shape: &[i64]) -> Vec<f32> {
    (0..shape.iter().product::<i64>()).map(|k| ((k * 13) % 17) as f32 / 4.0 - 2.0).collect()
}

fn spec(tensor: &Tensor) -> TensorSpec {
    TensorSpec::contiguous(tensor.dtype(), tensor.shape()).unwrap()
}

/// Returns whether ranks hold parts of a sum, or of an extreme. Their zeros have no sign: rank 0
/// may hold the number and the others zeros, and of two zeros either is the least.
fn is_partial(tensor: &Tensor) -> bool {
    tensor.sbp().unwrap().iter().any(|sbp| sbp.reduction().is_some())
}

/// Returns whether two tensors have equal values; the sign of a zero is none.
fn equal(all: &Tensor, one: &Tensor) -> Result<bool> {
    let values = |x: &Tensor| x.cast(DType::F64)?.to_vec::<f64>();
    let (all, one) = (values(all)?, values(one)?);
    Ok(all.iter().zip(&one).all(|(a, b)| a == b || a.is_nan() && b.is_nan()))
}

/// Returns whether two tensors are equal up to the rounding of sums.
fn near(all: &Tensor, one: &Tensor) -> Result<bool> {
    let cast = |x: &Tensor| x.cast(DType::F64).and_then(|x| x.to_vec::<f64>());
    let (all, one) = (cast(all)?, cast(one)?);
    let scale = one.iter().fold(1.0f64, |most, x| most.max(x.abs()));
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-4 * scale || a.is_nan() && b.is_nan() || a == b;
    Ok(all.iter().zip(&one).all(|(a, b)| near(*a, *b)))
}

fn meshes() -> Vec<(usize, Mesh)> {
    let line = |ranks: u32| (ranks as usize, Mesh::new((0..ranks).collect::<Vec<u32>>()).unwrap());
    let mut all: Vec<(usize, Mesh)> = (1..=8).map(line).collect();
    all.push((4, Mesh::new([[0, 1], [2, 3]]).unwrap()));
    all.push((4, Mesh::new([[3, 0], [1, 2]]).unwrap()));
    all.push((8, Mesh::of(&[2, 4], &[0, 1, 2, 3, 4, 5, 6, 7]).unwrap()));
    all.push((8, Mesh::of(&[2, 2, 2], &[0, 1, 2, 3, 4, 5, 6, 7]).unwrap()));
    all
}

/// All ranks make the same random program, and each compares every tensor with that of one rank.
/// This takes 15 seconds with all cases, as each mesh has programs of its own, on up to 8 machines.
#[test]
fn random_programs_are_those_of_one_rank() {
    let programs = programs(cases(24, 96));
    let meshes = meshes();
    for (k, (ranks, mesh)) in meshes.iter().enumerate() {
        on_ranks(*ranks, |rank| {
            let one = Machine::new(MachineConfig::default().driver(DriverKind::Inline))?;
            for seed in (k as u64..programs).step_by(meshes.len()) {
                let mut program = Program {
                    random: ChaCha8Rng::seed_from_u64(seed),
                    machine: &rank.machine,
                    one: &one,
                    mesh: mesh.clone(),
                    held: Vec::new(),
                    steps: vec![format!("seed {seed}")],
                };
                for _ in 0..3 {
                    program.declare()?;
                }
                for _ in 0..CALLS {
                    program.make()?;
                }
            }
            Ok(())
        });
    }
}
