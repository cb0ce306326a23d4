//! A network of two layers that learns whether points lie in a circle.

use millstream::optimisers::{Adam, State, adam};
use millstream::{Generator, Machine, MachineConfig, Result, Tensor};

const POINTS: usize = 128;

/// The weight and the bias of each layer.
pub(crate) struct Network([[Tensor; 2]; 2]);

impl Network {
    pub(crate) fn new(machine: &Machine, hidden: usize) -> Result<Network> {
        let random = Generator::new(1);
        let layer = |to: usize, from: usize| -> Result<[Tensor; 2]> {
            let bound = 1.0 / (from as f64).sqrt();
            let uniform = |shape: &[usize]| Tensor::uniform(-bound..bound, shape, &random, machine);
            Ok([uniform(&[to, from])?.with_grad()?, uniform(&[to])?.with_grad()?])
        };
        Ok(Network([layer(hidden, 2)?, layer(1, hidden)?]))
    }

    pub(crate) fn parameters(&self) -> Vec<&Tensor> {
        self.0.iter().flatten().collect()
    }

    fn scores(&self, points: &Tensor) -> Result<Tensor> {
        let [[w1, b1], [w2, b2]] = &self.0;
        points.linear(w1, Some(b1))?.tanh()?.linear(w2, Some(b2))
    }

    /// Computes the loss and its gradients.
    pub(crate) fn loss(&self, points: &Tensor, inside: &Tensor) -> Result<Tensor> {
        let tape = points.machine().tape();
        self.parameters().into_iter().for_each(Tensor::zero_grad);
        let scores = self.scores(points)?;
        let loss = scores.binary_cross_entropy_with_logits(inside, Default::default())?;
        tape.backward(&loss)?;
        Ok(loss)
    }
}

/// Returns random points, and whether each lies in the circle.
pub(crate) fn data(machine: &Machine, random: &Generator) -> Result<(Tensor, Tensor)> {
    let points = Tensor::uniform(-1.0..1.0, (POINTS, 2), random, machine)?;
    let inside = points.pow(2)?.sum(1)?.lt(0.6)?.cast(points.dtype())?.reshape((POINTS, 1))?;
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
    let mut losses = Vec::new();
    for _ in 0..steps {
        let (points, inside) = data(&machine, &random)?;
        losses.push(network.loss(&points, &inside)?);
        adam(&network.parameters(), &mut state, &Adam { lr: 0.05.into(), ..Adam::default() })?;
    }
    Ok((losses[0].item()?, losses[steps - 1].item()?))
}

#[allow(dead_code, reason = "a test runs the rest of this file as a module")]
fn main() -> Result<()> {
    let (first, last) = train(300)?;
    println!("loss: {first:.3} after the first step, {last:.3} after the last");
    Ok(())
}
