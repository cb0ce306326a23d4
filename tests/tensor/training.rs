//! Training, eager and replayed: the same losses, parameters and states, to the bit.
//!
//! Long because the comparison of whole trainings and the single cases share one model.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use millstream::optimisers::{Adam, Rate, Sgd, State, adam, adamw, sgd};
use millstream::*;
use millstream_testing::machine::*;

const STEPS: usize = 10;

#[derive(Clone, Copy, Debug)]
enum Optimiser {
    Sgd,
    Dampened,
    Nesterov,
    Adam,
    AdamW,
}

const OPTIMISERS: [Optimiser; 5] =
    [Optimiser::Sgd, Optimiser::Dampened, Optimiser::Nesterov, Optimiser::Adam, Optimiser::AdamW];

/// What a step of the program does within the function that is replayed; the rest is eager.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Inside {
    /// Gradients are dropped, computed, and used.
    All,
    /// Gradients are computed, used, and dropped.
    DropsLast,
    /// Gradients are computed. They are used and dropped outside.
    Backward,
    /// Gradients are computed, and added up over two steps. They are used and dropped outside.
    Accumulated,
    /// Gradients are used. They are dropped and computed outside.
    Update,
}

const INSIDES: [Inside; 5] =
    [Inside::All, Inside::DropsLast, Inside::Backward, Inside::Accumulated, Inside::Update];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Eager,
    Traced,
    Strict,
    /// Every second replay is verified.
    Verified,
    Recorded,
}

/// A model with its optimiser.
struct Model {
    machine: Machine,
    parameters: Vec<Tensor>,
    optimiser: Optimiser,
    rate: Rate,
    state: Mutex<State>,
}

impl Model {
    fn new(optimiser: Optimiser) -> Model {
        let machine = threaded();
        let parameter = |values: &[f32]| {
            Tensor::from_slice(values, values.len(), &machine).unwrap().with_grad().unwrap()
        };
        let parameters = vec![parameter(&[1.0, -2.0, 0.3]), parameter(&[0.7, 0.1, -0.4])];
        let (rate, state) = (Rate::from(0.1), Mutex::default());
        Model { machine, parameters, optimiser, rate, state }
    }

    fn backward(&self, x: &Tensor) -> Result<Tensor> {
        let tape = self.machine.tape();
        let [w, b] = &self.parameters[..] else { unreachable!() };
        let loss = ((w * x)? + b)?.tanh()?.pow(2)?.sum(..)?;
        tape.backward(&loss)?;
        Ok(loss)
    }

    fn update(&self) -> Result<()> {
        let parameters: Vec<&Tensor> = self.parameters.iter().collect();
        let (state, lr) = (&mut *self.state.lock().unwrap(), self.rate.clone());
        let with_momentum = Sgd { lr: lr.clone(), momentum: 0.9, ..Sgd::default() };
        let decayed = Adam { lr: lr.clone(), weight_decay: Some(0.1), ..Adam::default() };
        match self.optimiser {
            Optimiser::Sgd => {
                sgd(&parameters, state, &Sgd { lr, weight_decay: 0.01, ..Sgd::default() })
            }
            Optimiser::Dampened => {
                sgd(&parameters, state, &Sgd { dampening: 0.25, ..with_momentum })
            }
            Optimiser::Nesterov => {
                sgd(&parameters, state, &Sgd { nesterov: true, ..with_momentum })
            }
            Optimiser::Adam => adam(&parameters, state, &decayed),
            Optimiser::AdamW => adamw(&parameters, state, &decayed),
        }
    }

    fn drop_gradients(&self) {
        self.parameters.iter().for_each(Tensor::zero_grad);
    }

    fn inside(&self, inside: Inside, x: &Tensor) -> Result<Vec<Tensor>> {
        if inside == Inside::All {
            self.drop_gradients();
        }
        let loss = match inside {
            Inside::Update => Vec::new(),
            _ => vec![self.backward(x)?],
        };
        if matches!(inside, Inside::All | Inside::DropsLast | Inside::Update) {
            self.update()?;
        }
        if inside == Inside::DropsLast {
            self.drop_gradients();
        }
        Ok(loss)
    }
}

/// Trains, and returns the bits of all losses, and then of the parameters, gradients and state.
fn train(optimiser: Optimiser, inside: Inside, mode: Mode) -> Vec<Vec<u8>> {
    let model = Arc::new(Model::new(optimiser));
    let m = &model.machine;
    let inner = model.clone();
    let traced = m.traced(move |inputs, _| inner.inside(inside, &inputs[0]));
    let traced = match mode {
        Mode::Strict => traced.strict(),
        Mode::Verified => traced.verify_replays(2),
        _ => traced,
    };
    let mut recorded: Vec<Executable> = Vec::new();
    let mut losses = Vec::new();
    for step in 0..STEPS {
        let x = Tensor::from_slice(&[0.5f32, -1.0, step as f32], 3, m).unwrap();
        let is_last = inside != Inside::Accumulated || step % 2 == 1;
        if inside == Inside::Update {
            model.drop_gradients();
            losses.push(model.backward(&x).unwrap());
        }
        let results = match mode {
            Mode::Eager => model.inside(inside, &x).unwrap(),
            Mode::Traced | Mode::Strict | Mode::Verified => traced.call(&[&x]).run().unwrap(),
            Mode::Recorded => {
                // One list where gradients are added up finds none, the other one finds them.
                let number = if is_last { 0 } else { 1 };
                let list = usize::from(inside == Inside::Accumulated) * (1 - number);
                if recorded.len() <= list {
                    recorded.push(record(&model, inside, &x));
                }
                launch(&recorded[list], &x)
            }
        };
        losses.extend(results);
        if matches!(inside, Inside::Backward | Inside::Accumulated) && is_last {
            model.update().unwrap();
            model.drop_gradients();
        }
        if step == 3 || step == 6 {
            model.rate.set(0.25 / step as f64).unwrap();
        }
    }
    if matches!(mode, Mode::Traced | Mode::Strict | Mode::Verified) {
        let report = traced.report();
        let replays = report.replays + report.verified;
        assert!(replays >= STEPS as u64 - 2, "{optimiser:?} {inside:?}: {report}");
    }
    let state = model.state.lock().unwrap();
    let gradients: Vec<Tensor> = model.parameters.iter().filter_map(Tensor::grad).collect();
    let left = model.parameters.iter().chain(&gradients).chain(state.tensors().map(|(_, t)| t));
    losses.iter().chain(left).map(|tensor| tensor.read().unwrap()).collect()
}

fn record(model: &Model, inside: Inside, x: &Tensor) -> Executable {
    let recorded = model.machine.record(|r| {
        let x = r.input("x", x.spec().clone())?;
        let loss = r.function(&[x], |inputs| model.inside(inside, &inputs[0]))?;
        loss.iter().try_for_each(|loss| r.output("loss", loss))
    });
    recorded.unwrap().compile().unwrap()
}

fn launch(executable: &Executable, x: &Tensor) -> Vec<Tensor> {
    let launched = executable.launch().input("x", x).run().unwrap();
    launched.output("loss").into_iter().cloned().collect()
}

fn compare(modes: &[Mode]) {
    for optimiser in OPTIMISERS {
        for inside in INSIDES {
            let expected = train(optimiser, inside, Mode::Eager);
            for &mode in modes {
                let got = train(optimiser, inside, mode);
                assert_eq!(got.len(), expected.len(), "{optimiser:?} {inside:?} {mode:?}");
                let first = got.iter().zip(&expected).position(|(got, expected)| got != expected);
                assert_eq!(first, None, "{optimiser:?} {inside:?} {mode:?}");
            }
        }
    }
}

#[test]
fn traced_training_is_eager_training() {
    compare(&[Mode::Traced, Mode::Strict]);
}

#[test]
fn recorded_training_is_eager_training() {
    compare(&[Mode::Recorded]);
}

/// The function computes gradients, and the program uses them.
#[test]
fn gradients_of_replays_reach_the_program() {
    let m = threaded();
    let w = Tensor::ones(2, DType::F32, &m).unwrap().with_grad().unwrap();
    let inner = w.clone();
    let f = m.traced(move |_, _| {
        let tape = inner.machine().tape();
        let loss = inner.pow(2)?.sum(..)?;
        tape.backward(&loss)?;
        Ok(vec![loss])
    });
    let f = f.strict();
    let settings = Sgd { lr: 0.1.into(), ..Sgd::default() };
    let mut losses = Vec::new();
    for _ in 0..5 {
        losses.push(f.call(&[]).run().unwrap().remove(0).item::<f32>().unwrap());
        sgd(&[&w], &mut State::default(), &settings).unwrap();
        w.zero_grad();
    }
    let near = losses.iter().zip([2.0, 1.28, 0.8192, 0.524288, 0.33554432]);
    assert!(near.clone().all(|(a, b): (&f32, f32)| (a - b).abs() < 1e-6), "{losses:?}");
    assert_eq!(f.report().replays, 4, "{}", f.report());
}

/// A gradient that is new to the capture makes another one: none, one, one of other strides, one
/// that shares memory with another.
#[test]
fn captures_depend_on_the_gradients_they_find() {
    let m = threaded();
    let make = || Tensor::ones((2, 2), DType::F32, &m).unwrap().with_grad().unwrap();
    let (v, w) = (make(), make());
    let (inner_v, inner_w) = (v.clone(), w.clone());
    let f = m.traced(move |_, _| {
        let tape = inner_v.machine().tape();
        tape.backward(&(&inner_v * &inner_w)?.sum(..)?)?;
        Ok(Vec::new())
    });
    let f = f.strict();
    let grid = || Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &m).unwrap();
    let set = [
        (None, None),
        (Some(grid()), None),
        (Some(grid()), Some(grid())),
        (Some(grid().t().unwrap()), Some(grid())),
    ];
    let both = grid();
    let set = set.into_iter().chain([(Some(both.clone()), Some(both))]);
    for (number, (of_v, of_w)) in set.enumerate() {
        for repetition in 0..2 {
            for (leaf, gradient) in [(&v, &of_v), (&w, &of_w)] {
                leaf.zero_grad();
                gradient.iter().for_each(|gradient| leaf.set_grad(gradient).unwrap());
            }
            f.call(&[]).run().unwrap();
            for (leaf, gradient) in [(&v, &of_v), (&w, &of_w)] {
                let before = gradient.as_ref().map_or(vec![0.0; 4], |g| g.to_vec().unwrap());
                let expected: Vec<f32> = before.iter().map(|g| g + 1.0).collect();
                let got = leaf.grad().unwrap().to_vec::<f32>().unwrap();
                assert_eq!(got, expected, "{number} {repetition}");
            }
            let report = f.report();
            assert_eq!(report.captures, number as u64 + 1, "{number} {repetition}: {report}");
        }
    }
    assert_eq!(f.report().replays, 5);
}

/// Gradients of inputs are those of the call's inputs.
#[test]
fn gradients_of_inputs() {
    let m = threaded();
    let f = m.traced(|inputs, _| {
        let tape = inputs[0].machine().tape();
        tape.backward(&inputs[0].pow(2)?.sum(..)?)?;
        Ok(Vec::new())
    });
    let f = f.strict();
    for k in 0..3 {
        let x = Tensor::from_slice(&[k as f32, 1.0], 2, &m).unwrap().with_grad().unwrap();
        f.call(&[&x]).run().unwrap();
        assert_eq!(x.grad().unwrap().to_vec::<f32>().unwrap(), [2.0 * k as f32, 2.0]);
    }
    assert_eq!(f.report().replays, 2);
}

/// A read between gradients and their use: branches find and leave gradients of their own.
#[test]
fn gradients_around_guards() {
    let m = threaded();
    let w = Tensor::ones(2, DType::F32, &m).unwrap().with_grad().unwrap();
    let inner = w.clone();
    // Uses the sum of the gradients once it is above a threshold.
    let step = move |x: &Tensor| -> Result<Vec<Tensor>> {
        let tape = inner.machine().tape();
        let loss = (&inner * x)?.pow(2)?.sum(..)?;
        tape.backward(&loss)?;
        drop(tape);
        let norm = no_grad(|| inner.grad().unwrap().pow(2)?.sum(..))?;
        if norm.ge(3.0)?.read()?[0] != 0 {
            sgd(&[&inner], &mut State::default(), &Sgd { lr: 0.05.into(), ..Sgd::default() })?;
            inner.zero_grad();
        }
        Ok(vec![loss])
    };
    let eager = {
        let step = step.clone();
        move |x: &Tensor| step(x).map(|mut results| results.remove(0))
    };
    let f = m.traced(move |inputs, _| step(&inputs[0])).strict();
    let run = |loss: &dyn Fn(&Tensor) -> Result<Tensor>| {
        no_grad(|| w.fill_(1).map(drop)).unwrap();
        w.zero_grad();
        let losses = (0..12).map(|k| {
            let x = Tensor::from_slice(&[0.4f32, 0.1 * k as f32], 2, &m).unwrap();
            loss(&x).unwrap().to_vec::<f32>().unwrap()
        });
        losses.collect::<Vec<_>>()
    };
    let expected = run(&eager);
    let got = run(&|x| Ok(f.call(&[x]).run()?.remove(0)));
    assert_eq!(got, expected);
    let report = f.report();
    assert!(report.replays >= 6, "{report}");
}

/// The function makes a tensor one with a gradient, which ends with the tensor.
#[test]
fn gradients_of_own_tensors() {
    let m = threaded();
    let f = m.traced(|inputs, _| {
        let own = inputs[0].copy()?.with_grad()?;
        let tape = own.machine().tape();
        tape.backward(&own.pow(2)?.sum(..)?)?;
        Ok(vec![own.grad().unwrap().mul(2)?])
    });
    let f = f.strict();
    for k in 0..4 {
        let x = Tensor::from_slice(&[k as f32, 1.0], 2, &m).unwrap();
        let doubled = f.call(&[&x]).run().unwrap()[0].to_vec::<f32>().unwrap();
        assert_eq!(doubled, [4.0 * k as f32, 4.0]);
    }
    assert_eq!(f.report().replays, 3);
}

/// A tensor that the function keeps would stay that of the first call.
#[test]
fn a_tensor_that_outlives_the_call_is_refused() {
    let m = threaded();
    let mean: Arc<Mutex<Option<Tensor>>> = Arc::default();
    let running = |mean: Arc<Mutex<Option<Tensor>>>| {
        move |inputs: &[Tensor], _: &millstream::Attrs| {
            let mut mean = mean.lock().unwrap();
            let former = mean.take();
            let new = match former {
                Some(former) => ((former * 0.5)? + &inputs[0])?,
                None => inputs[0].copy()?,
            };
            *mean = Some(new.copy()?);
            Ok(vec![new])
        }
    };
    let strict = m.traced(running(mean.clone())).strict();
    let x = Tensor::ones(2, DType::F32, &m).unwrap();
    let error = strict.call(&[&x]).run().unwrap_err().to_string();
    assert!(error.contains("outlives the call") && error.contains("training.rs"), "{error}");
    *mean.lock().unwrap() = None;
    let f = m.traced(running(mean));
    let got: Vec<f32> =
        (0..4).map(|_| f.call(&[&x]).run().unwrap()[0].to_vec::<f32>().unwrap()[0]).collect();
    assert_eq!(got, [1.0, 1.5, 1.75, 1.875]);
    assert!(f.report().to_string().contains("outlives the call"), "{}", f.report());
}

/// What the first call makes and keeps does not prevent captures of later calls.
#[test]
fn a_constant_that_the_first_call_makes_is_captured_later() {
    let m = threaded();
    let table: Arc<Mutex<Option<Tensor>>> = Arc::default();
    let f = m.traced(move |inputs, _| {
        let mut table = table.lock().unwrap();
        if table.is_none() {
            *table = Some(Tensor::arange(0..2, &inputs[0])?);
        }
        Ok(vec![(&inputs[0] + table.as_ref().unwrap())?])
    });
    let x = Tensor::ones(2, DType::F32, &m).unwrap();
    for _ in 0..4 {
        assert_eq!(f.call(&[&x]).run().unwrap()[0].to_vec::<f32>().unwrap(), [1.0, 2.0]);
    }
    let report = f.report();
    assert_eq!((report.plain, report.captures, report.replays), (1, 1, 2), "{report}");
}

/// A tape outside of the function notes the calls of the function, which replays would not make.
#[test]
fn a_tape_outside_notes_the_calls() {
    let m = threaded();
    let w = Tensor::ones(2, DType::F32, &m).unwrap().with_grad().unwrap();
    let inner = w.clone();
    let f = m.traced(move |_, _| Ok(vec![inner.pow(2)?.sum(..)?]));
    f.call(&[]).run().unwrap();
    for _ in 0..2 {
        let tape = m.tape();
        tape.backward(&f.call(&[]).run().unwrap()[0]).unwrap();
    }
    assert_eq!(w.grad().unwrap().to_vec::<f32>().unwrap(), [4.0, 4.0]);
    assert!(f.report().to_string().contains("a tape outside"), "{}", f.report());
    let _tape = m.tape();
    let error = f.strict().call(&[]).run().unwrap_err().to_string();
    assert!(error.contains("a tape outside") && error.contains("training.rs"), "{error}");
}

/// A state that is saved and loaded goes on as the first, also in captures of it.
#[test]
fn a_loaded_state_continues() {
    for optimiser in OPTIMISERS {
        let model = Arc::new(Model::new(optimiser));
        let inner = model.clone();
        let f = model.machine.traced(move |inputs, _| inner.inside(Inside::All, &inputs[0]));
        let f = f.strict();
        let x = Tensor::from_slice(&[0.5f32, -1.0, 2.0], 3, &model.machine).unwrap();
        let steps = |count| {
            for _ in 0..count {
                f.call(&[&x]).run().unwrap();
            }
        };
        let parameters: Vec<&Tensor> = model.parameters.iter().collect();
        let copies = |tensors: &[&Tensor]| -> Vec<Tensor> {
            tensors.iter().map(|t| no_grad(|| t.copy()).unwrap()).collect()
        };
        let bits = || -> Vec<Vec<u8>> { parameters.iter().map(|p| p.read().unwrap()).collect() };
        steps(3);
        let saved = copies(&parameters);
        let state: BTreeMap<String, Tensor> = {
            let state = model.state.lock().unwrap();
            let copied = state.tensors().map(|(name, t)| (name, t.copy().unwrap()));
            copied.collect()
        };
        steps(4);
        let expected = bits();
        let restore = |into: &mut State| {
            for (parameter, saved) in parameters.iter().zip(&saved) {
                no_grad(|| parameter.copy_(saved).map(drop)).unwrap();
            }
            into.load(&parameters, &state).unwrap();
        };
        restore(&mut model.state.lock().unwrap());
        steps(4);
        assert_eq!(bits(), expected, "{optimiser:?}: into the state of the capture");
        restore(&mut model.state.lock().unwrap());
        let mut fresh = State::default();
        restore(&mut fresh);
        *model.state.lock().unwrap() = fresh;
        for _ in 0..4 {
            model.inside(Inside::All, &x).unwrap();
        }
        assert_eq!(bits(), expected, "{optimiser:?}: into a new state");
        let missing = model.state.lock().unwrap().load(&parameters[..1], &state);
        if !state.is_empty() {
            let error = missing.unwrap_err().to_string();
            assert!(error.contains("of 1 parameters"), "{error}");
        }
    }
}

/// Replays that are verified advance the state once.
#[test]
fn verified_training_is_eager_training() {
    for optimiser in OPTIMISERS {
        for inside in INSIDES {
            let expected = train(optimiser, inside, Mode::Eager);
            let got = train(optimiser, inside, Mode::Verified);
            assert_eq!(got, expected, "{optimiser:?} {inside:?}");
        }
    }
}

/// Numbers, tensors and gradients of the host that changed since the capture are found.
#[test]
fn verification_finds_values_of_the_host() {
    let m = threaded();
    let x = Tensor::ones(2, DType::F32, &m).unwrap();
    let number = Arc::new(Mutex::new(2.0f64));
    let inner = number.clone();
    let f = m.traced(move |inputs, _| {
        let factor = *inner.lock().unwrap();
        inputs[0].add_(1)?;
        Ok(vec![inputs[0].mul(factor)?])
    });
    let f = f.verify_replays(3);
    let run = || f.call(&[&x]).run().map(|results| results[0].to_vec::<f32>().unwrap());
    for k in 1..=7 {
        assert_eq!(run().unwrap(), [2.0 * (k as f32 + 1.0); 2]);
    }
    assert_eq!(f.report().verified, 2, "{}", f.report());
    *number.lock().unwrap() = 3.0;
    assert!(run().is_ok() && run().is_ok(), "these are not verified");
    let error = run().unwrap_err().to_string();
    assert!(error.contains("other=3") && error.contains("other=2"), "{error}");
    assert!(error.contains("training.rs"), "{error}");
    assert_eq!(x.to_vec::<f32>().unwrap(), [11.0; 2], "changed once by each call");

    let scale = Arc::new(Mutex::new(x.copy().unwrap()));
    let inner = scale.clone();
    let f = m.traced(move |inputs, _| Ok(vec![(&inputs[0] * &*inner.lock().unwrap())?]));
    let f = f.verify_replays(1);
    f.call(&[&x]).run().unwrap();
    f.call(&[&x]).run().unwrap();
    *scale.lock().unwrap() = x.copy().unwrap();
    let error = f.call(&[&x]).run().unwrap_err().to_string();
    assert!(error.contains("it made mul(input 0, outside 0)"), "{error}");
}

/// The function beside a replay changes no memory a second time.
#[test]
fn verification_changes_memory_once() {
    let m = threaded();
    let step = |part: &Tensor| {
        part.add_(2)?;
        let offset = options::AsStrided::default().storage_offset(4);
        part.as_strided_with(3, 1, offset)?.add_(1)?;
        Ok(vec![part.sum(..)?])
    };
    for is_given in [true, false] {
        let all = Tensor::from_slice(&[0.0f32; 8], 8, &m).unwrap();
        let part = all.narrow(0, 0, 2).unwrap();
        let taken = part.clone();
        let f = m.traced(move |inputs, _| step(inputs.first().unwrap_or(&taken)));
        let f = f.verify_replays(1);
        let inputs = if is_given { vec![&part] } else { Vec::new() };
        for k in 1..=5 {
            f.call(&inputs).run().unwrap();
            let (a, b) = (2.0 * k as f32, k as f32);
            assert_eq!(all.to_vec::<f32>().unwrap(), [a, a, 0.0, 0.0, b, b, b, 0.0], "call {k}");
        }
        assert_eq!(f.report().verified, 4, "{}", f.report());
    }
}

/// Whether an input has a gradient is part of the key, as tapes note other calls then.
#[test]
fn inputs_with_and_without_gradients() {
    let m = threaded();
    let f = m.traced(|inputs, _| {
        let tape = inputs[0].machine().tape();
        let sum = inputs[0].pow(2)?.sum(..)?;
        if inputs[0].requires_grad() {
            tape.backward(&sum)?;
        }
        Ok(vec![sum])
    });
    let f = f.strict();
    let x = Tensor::ones(2, DType::F32, &m).unwrap();
    f.call(&[&x]).run().unwrap();
    let x = x.with_grad().unwrap();
    for _ in 0..2 {
        x.zero_grad();
        f.call(&[&x]).run().unwrap();
        assert_eq!(x.grad().unwrap().to_vec::<f32>().unwrap(), [2.0, 2.0]);
    }
    let report = f.report();
    assert_eq!((report.captures, report.replays), (2, 1), "{report}");
}

/// A list is made for gradients that are there, or for none. Launches that find the other case are
/// refused before they do anything.
#[test]
fn recorded_gradients_are_those_of_the_recording() {
    let model = Model::new(Optimiser::Sgd);
    let x = Tensor::from_slice(&[0.5f32, -1.0, 2.0], 3, &model.machine).unwrap();
    let first = record(&model, Inside::Backward, &x);
    assert!(model.parameters[0].grad().is_none(), "nothing has run");
    launch(&first, &x);
    let once = model.parameters[0].grad().unwrap().to_vec::<f32>().unwrap();
    let error = first.launch().input("x", &x).run().unwrap_err().to_string();
    assert!(error.contains("zero_grad") && error.contains("training.rs"), "{error}");
    let second = record(&model, Inside::Backward, &x);
    launch(&second, &x);
    let twice = model.parameters[0].grad().unwrap().to_vec::<f32>().unwrap();
    assert_eq!(twice, once.iter().map(|g| g + g).collect::<Vec<_>>());
    model.drop_gradients();
    let error = second.launch().input("x", &x).run().unwrap_err().to_string();
    assert!(error.contains("record another list"), "{error}");
    launch(&first, &x);
    let again = model.parameters[0].grad().unwrap().to_vec::<f32>().unwrap();
    assert_eq!(again, once);
    let within = model.machine.record(|r| {
        let input = r.input("x", x.spec().clone())?;
        r.launch(&first).input("x", &input).run().map(drop)
    });
    let error = within.unwrap_err().to_string();
    assert!(error.contains("finds or leaves gradients"), "{error}");
}

/// A function that sets a rate runs, and is neither captured nor recorded.
#[test]
fn rates_are_set_by_the_program() {
    let model = Arc::new(Model::new(Optimiser::Adam));
    let x = Tensor::from_slice(&[0.5f32, -1.0, 2.0], 3, &model.machine).unwrap();
    model.inside(Inside::All, &x).unwrap();
    let inner = model.clone();
    let f = model.machine.traced(move |inputs, _| {
        inner.rate.set(inner.rate.get() / 2.0)?;
        inner.inside(Inside::All, &inputs[0])
    });
    (0..2).for_each(|_| drop(f.call(&[&x]).run().unwrap()));
    assert_eq!((f.report().plain, model.rate.get()), (2, 0.025));
    assert!(f.report().to_string().contains("sets a learning rate"), "{}", f.report());
    let recorded = model
        .machine
        .record(|r| r.function(&[], |_| model.rate.set(0.5).map(|()| Vec::new())).map(drop));
    let error = recorded.unwrap_err().to_string();
    assert!(error.contains("outside of the recorded function"), "{error}");
    assert_eq!(model.rate.get(), 0.025);
}

/// A replay that is verified draws from generators once, and the function beside it the same.
#[test]
fn verified_replays_draw_once() {
    let m = threaded();
    let run = |every: u64| -> Vec<Vec<f32>> {
        let random = Generator::new(7);
        let inner = random.clone();
        let f = m.traced(move |inputs, _| {
            let noise = Tensor::rand(2, &inner, &inputs[0])?;
            inputs[0].add_(&noise)?;
            Ok(vec![Tensor::rand(2, &inner, &inputs[0])?])
        });
        let f = f.verify_replays(every);
        let x = Tensor::zeros(2, DType::F32, &m).unwrap();
        let mut drawn: Vec<Vec<f32>> =
            (0..6).map(|_| f.call(&[&x]).run().unwrap()[0].to_vec().unwrap()).collect();
        drawn.push(x.to_vec().unwrap());
        assert_eq!(f.report().verified, 5_u64.checked_div(every).unwrap_or(0));
        drawn
    };
    assert_eq!(run(2), run(0));
    assert_eq!(run(1), run(0));
}
