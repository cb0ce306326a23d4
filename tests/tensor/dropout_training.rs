//! Training that draws from two generators, eager and replayed: the same losses, parameters, states
//! and next numbers, to the bit.

use std::sync::{Arc, Mutex};

use millstream::optimisers::{Adam, Rate, Sgd, State, adamw, sgd};
use millstream::*;
use millstream_testing::machine::*;
use proptest::collection::vec;
use proptest::prelude::*;

const STEPS: usize = 10;

/// A part of the model.
#[derive(Clone, Copy, Debug)]
enum Layer {
    /// A dropout, whose mask the backward pass uses again.
    Dropout { other: bool },
    /// Noise that is added.
    Noise { other: bool },
    /// A product with the next parameter, and a function of it.
    Product,
    /// A dropout within a checkpoint, which the backward pass computes again.
    Checkpoint { other: bool },
    /// A read on the host, of a number that is the same in all steps.
    Read,
    /// A draw that nothing uses.
    Skip { other: bool },
}

/// A program: its layers, and what else a step does.
#[derive(Clone, Debug)]
struct Program {
    layers: Vec<Layer>,
    /// Whether the function updates the parameters, or the program.
    updates: bool,
    /// Whether the function drops the gradients first, or the program.
    drops: bool,
    is_adam: bool,
    /// Whether the program draws between the steps.
    draws: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Eager,
    Traced,
    Strict,
    /// Every second replay is verified.
    Verified,
    Recorded,
}

struct Model {
    machine: Machine,
    program: Program,
    parameters: Vec<Tensor>,
    rate: Rate,
    state: Mutex<State>,
    generators: [Generator; 2],
}

impl Model {
    fn new(machine: Machine, program: &Program) -> Model {
        let parameter = |k: usize| {
            let values = [1.0, -2.0 + k as f32, 0.3, 0.5];
            Tensor::from_slice(&values, 4, &machine).unwrap().with_grad().unwrap()
        };
        Model {
            parameters: (0..2).map(parameter).collect(),
            program: program.clone(),
            rate: Rate::from(0.05),
            state: Mutex::default(),
            generators: [Generator::new(7), Generator::new(u64::MAX)],
            machine,
        }
    }

    fn generator(&self, other: bool) -> &Generator {
        &self.generators[usize::from(other)]
    }

    fn backward(&self, x: &Tensor) -> Result<Tensor> {
        let tape = self.machine.tape();
        let mut y = (x * &self.parameters[0])?;
        let mut product = 0;
        for layer in &self.program.layers {
            y = match *layer {
                Layer::Dropout { other } => y.dropout(0.4, self.generator(other))?,
                Layer::Noise { other } => {
                    (&y + Tensor::randn(4, self.generator(other), &self.machine)?)?
                }
                Layer::Product => {
                    product += 1;
                    (&y * &self.parameters[product % 2])?.tanh()?
                }
                Layer::Checkpoint { other } => {
                    let seed = Seed::from(self.generator(other));
                    let region =
                        move |given: &[Tensor]| Ok(vec![given[0].dropout(0.5, seed)?.tanh()?]);
                    tape.checkpoint(&[&y], region)?.remove(0)
                }
                Layer::Read => {
                    let zero = (x * 0)?.sum(..)?.item::<f32>()?;
                    (&y + f64::from(zero))?
                }
                Layer::Skip { other } => {
                    let _ = Seed::from(self.generator(other));
                    y
                }
            };
        }
        let loss = y.pow(2)?.sum(..)?;
        tape.backward(&loss)?;
        Ok(loss)
    }

    fn update(&self) -> Result<()> {
        let parameters: Vec<&Tensor> = self.parameters.iter().collect();
        let (state, lr) = (&mut *self.state.lock().unwrap(), self.rate.clone());
        match self.program.is_adam {
            true => adamw(&parameters, state, &Adam { lr, ..Adam::default() }),
            false => {
                let settings = Sgd { lr, momentum: 0.9, ..Sgd::default() };
                sgd(&parameters, state, &settings)
            }
        }
    }

    fn drop_gradients(&self) {
        self.parameters.iter().for_each(Tensor::zero_grad);
    }

    /// What a step does within the function.
    fn inside(&self, x: &Tensor) -> Result<Vec<Tensor>> {
        if self.program.drops {
            self.drop_gradients();
        }
        let loss = self.backward(x)?;
        if self.program.updates {
            self.update()?;
        }
        Ok(vec![loss])
    }

    fn record(&self) -> Executable {
        let recorded = self.machine.record(|r| {
            let x = r.input("x", f32_spec(&[4]))?;
            let loss = r.function(&[x], |inputs| self.inside(&inputs[0]))?;
            r.output("loss", &loss[0])
        });
        recorded.unwrap().compile().unwrap()
    }
}

/// Trains. Returns the bits of all losses and draws, then of the parameters, gradients and states,
/// and the states of the generators.
fn train(program: &Program, mode: Mode, driver: DriverKind) -> (Vec<Vec<u8>>, Vec<GeneratorState>) {
    let machine = Machine::new(MachineConfig::default().driver(driver)).unwrap();
    let model = Arc::new(Model::new(machine, program));
    let m = &model.machine;
    let inner = model.clone();
    let traced = m.traced(move |inputs, _| inner.inside(&inputs[0]));
    let traced = match mode {
        Mode::Strict => traced.strict(),
        Mode::Verified => traced.verify_replays(2),
        _ => traced,
    };
    let recorded = (mode == Mode::Recorded).then(|| model.record());
    let mut results = Vec::new();
    for step in 0..STEPS {
        let x = Tensor::from_slice(&[0.5f32, -1.0, 0.1 * step as f32, 2.0], 4, m).unwrap();
        if !program.drops {
            model.drop_gradients();
        }
        results.extend(match mode {
            Mode::Eager => model.inside(&x).unwrap(),
            Mode::Traced | Mode::Strict | Mode::Verified => traced.call(&[&x]).run().unwrap(),
            Mode::Recorded => {
                let launch = recorded.as_ref().unwrap().launch().input("x", &x);
                vec![launch.run().unwrap().output("loss").unwrap().clone()]
            }
        });
        if !program.updates {
            model.update().unwrap();
        }
        if program.draws {
            let drawn = model.generators.iter().map(|random| Tensor::rand(2, random, m).unwrap());
            results.extend(drawn);
        }
    }
    if matches!(mode, Mode::Traced | Mode::Strict | Mode::Verified) {
        let report = traced.report();
        let replays = report.replays + report.verified;
        assert!(replays >= STEPS as u64 - 2, "{program:?}: {report}");
    }
    let state = model.state.lock().unwrap();
    let gradients: Vec<Tensor> = model.parameters.iter().filter_map(Tensor::grad).collect();
    let left = model.parameters.iter().chain(&gradients).chain(state.tensors().map(|(_, t)| t));
    let bits = results.iter().chain(left).map(|tensor| tensor.read().unwrap()).collect();
    (bits, model.generators.iter().map(Generator::state).collect())
}

const REPLAYS: [Mode; 4] = [Mode::Traced, Mode::Strict, Mode::Verified, Mode::Recorded];

/// Returns the modes of a program: a recording reads nothing.
fn modes(program: &Program) -> impl Iterator<Item = Mode> {
    let reads = program.layers.iter().any(|layer| matches!(layer, Layer::Read));
    REPLAYS.into_iter().filter(move |mode| !(reads && *mode == Mode::Recorded))
}

/// The model that a program of this kind usually has: dropout behind two layers, and noise.
#[test]
fn training_with_dropout_is_eager_training() {
    let (one, other) = (false, true);
    let layers = vec![
        Layer::Noise { other },
        Layer::Product,
        Layer::Dropout { other: one },
        Layer::Product,
        Layer::Checkpoint { other },
        Layer::Dropout { other },
    ];
    for (updates, drops, is_adam) in
        [(true, true, true), (true, false, false), (false, true, false), (false, false, true)]
    {
        let layers = layers.clone();
        let program = Program { layers, updates, drops, is_adam, draws: updates };
        let (expected, states) = train(&program, Mode::Eager, DriverKind::Inline);
        assert_ne!(expected[0], expected[1]);
        for mode in modes(&program) {
            for driver in ALL_DRIVERS {
                let (got, left) = train(&program, mode, driver);
                let first = got.iter().zip(&expected).position(|(got, expected)| got != expected);
                assert_eq!((first, got.len()), (None, expected.len()), "{program:?} {mode:?}");
                assert_eq!(left, states, "{program:?} {mode:?}");
            }
        }
    }
}

fn layer() -> impl Strategy<Value = Layer> {
    let other = any::<bool>;
    prop_oneof![
        3 => other().prop_map(|other| Layer::Dropout { other }),
        2 => other().prop_map(|other| Layer::Noise { other }),
        3 => Just(Layer::Product),
        1 => other().prop_map(|other| Layer::Checkpoint { other }),
        1 => Just(Layer::Read),
        1 => other().prop_map(|other| Layer::Skip { other }),
    ]
}

fn program() -> impl Strategy<Value = Program> {
    let rest = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (vec(layer(), 1..7), rest).prop_map(|(mut layers, (updates, drops, is_adam, draws))| {
        // A checkpoint uses its seed again in the backward pass: behind a read, no capture can.
        if layers.iter().any(|layer| matches!(layer, Layer::Checkpoint { .. })) {
            layers.retain(|layer| !matches!(layer, Layer::Read));
        }
        Program { layers, updates, drops, is_adam, draws }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// Random models, updates and draws between the steps.
    #[test]
    fn random_training_is_eager_training(program in program(), driver in 0usize..3) {
        let (expected, states) = train(&program, Mode::Eager, DriverKind::Inline);
        for mode in modes(&program) {
            let (got, left) = train(&program, mode, ALL_DRIVERS[driver]);
            let first = got.iter().zip(&expected).position(|(got, expected)| got != expected);
            prop_assert_eq!((first, got.len()), (None, expected.len()), "{:?}", mode);
            prop_assert_eq!(&left, &states, "{:?}", mode);
        }
    }
}
