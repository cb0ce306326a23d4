//! A network of two layers that learns whether points lie in a circle: eager, and replayed.

use millstream::optimisers::{Adam, Sgd, State, adam, sgd};
use millstream::{Generator, Machine, MachineConfig, Result, Tensor};

const POINTS: usize = 128;

/// The parameters of the network.
struct Network {
    weights: [Tensor; 2],
    biases: [Tensor; 2],
}

impl Network {
    fn new(machine: &Machine, hidden: usize) -> Result<Network> {
        let random = Generator::new(1);
        let layer = |to: usize, from: usize| -> Result<(Tensor, Tensor)> {
            let bound = 1.0 / (from as f64).sqrt();
            let uniform = |shape: &[usize]| Tensor::uniform(-bound..bound, shape, &random, machine);
            Ok((uniform(&[to, from])?.with_grad()?, uniform(&[to])?.with_grad()?))
        };
        let ((w1, b1), (w2, b2)) = (layer(hidden, 2)?, layer(1, hidden)?);
        Ok(Network { weights: [w1, w2], biases: [b1, b2] })
    }

    fn parameters(&self) -> Vec<&Tensor> {
        self.weights.iter().chain(&self.biases).collect()
    }

    fn scores(&self, points: &Tensor) -> Result<Tensor> {
        let hidden = points.linear(&self.weights[0], Some(&self.biases[0]))?.tanh()?;
        hidden.linear(&self.weights[1], Some(&self.biases[1]))
    }

    /// Computes the loss and its gradients.
    fn loss(&self, points: &Tensor, inside: &Tensor) -> Result<Tensor> {
        let tape = points.machine().tape();
        self.parameters().into_iter().for_each(Tensor::zero_grad);
        let scores = self.scores(points)?;
        let options = millstream::options::BinaryCrossEntropyWithLogits::default();
        let loss = scores.binary_cross_entropy_with_logits(inside, options)?;
        tape.backward(&loss)?;
        Ok(loss)
    }
}

/// Returns random points, and whether each lies in the circle.
fn data(machine: &Machine, random: &Generator) -> Result<(Tensor, Tensor)> {
    let points = Tensor::uniform(-1.0..1.0, (POINTS, 2), random, machine)?;
    let squares = (&points * &points)?.sum(1)?;
    let inside = squares.lt(0.6)?.cast(points.dtype())?.reshape((POINTS, 1))?;
    Ok((points, inside))
}

/// Trains, and returns the first and the last loss.
///
/// # Errors
/// None is expected.
pub(crate) fn train(steps: usize) -> Result<(f32, f32)> {
    let machine = Machine::new(MachineConfig::default())?;
    let network = Network::new(&machine, 32)?;
    let (random, mut state) = (Generator::new(2), State::default());
    let settings = Adam { lr: 0.05, ..Adam::default() };
    let mut losses = Vec::new();
    for _ in 0..steps {
        let (points, inside) = data(&machine, &random)?;
        losses.push(network.loss(&points, &inside)?);
        adam(&network.parameters(), &mut state, &settings)?;
    }
    Ok((losses[0].item()?, losses[steps - 1].item()?))
}

/// Trains by an executable: the step with its gradients and its update is recorded once, without
/// running it, and launched for each batch. Returns the first and the last loss.
///
/// # Errors
/// None is expected.
pub(crate) fn replayed(steps: usize) -> Result<(f32, f32)> {
    let machine = Machine::new(MachineConfig::default())?;
    let network = Network::new(&machine, 32)?;
    let random = Generator::new(2);
    let (points, inside) = data(&machine, &random)?;
    let recorded = machine.record(|r| {
        let points = r.input("points", points.spec().clone())?;
        let inside = r.input("inside", inside.spec().clone())?;
        let loss = r.function(&[points, inside], |inputs| {
            let loss = network.loss(&inputs[0], &inputs[1])?;
            let settings = Sgd { lr: 1.0, ..Sgd::default() };
            sgd(&network.parameters(), &mut State::default(), &settings)?;
            Ok(vec![loss])
        })?;
        r.output("loss", &loss[0])
    })?;
    let step = recorded.compile()?;
    let mut launched = Vec::new();
    for _ in 0..steps {
        let (points, inside) = data(&machine, &random)?;
        launched.push(step.launch().input("points", &points).input("inside", &inside).run()?);
    }
    let loss = |k: usize| launched[k].output("loss")?.item();
    Ok((loss(0)?, loss(steps - 1)?))
}

#[allow(dead_code, reason = "a test runs the rest of this file as a module")]
fn main() -> Result<()> {
    let (first, last) = train(300)?;
    println!("loss: {first:.3} after the first step, {last:.3} after the last");
    let (first, last) = replayed(300)?;
    println!("by an executable: {first:.3} and {last:.3}");
    Ok(())
}
