//! A network that several ranks train together: each computes the gradients of its part of a batch,
//! and the ranks average them in buckets. The ranks are threads, or processes under `mpirun`.

use std::sync::Arc;

use millstream::comm::{Communicator, LocalGroup, MpiCommunicator, mpi};
use millstream::optimisers::{Adam, State, adam};
use millstream::{
    Attrs, DeviceId, Generator, Machine, MachineConfig, Result, Stream, StreamKey, StreamType,
    Tensor,
};

/// The points of a batch, of all ranks together.
const BATCH: usize = 256;

/// A bucket is averaged once its gradients have so many bytes.
const BUCKET: usize = 4096;

/// The parameters of a network of three layers: weights and biases.
fn network(machine: &Machine) -> Result<Vec<Tensor>> {
    // The same numbers on every rank.
    let random = Generator::new(1);
    let mut parameters = Vec::new();
    for (from, to) in [(2, 32), (32, 32), (32, 1)] {
        let bound = 1.0 / f64::from(from).sqrt();
        for shape in [vec![to, from as usize], vec![to]] {
            let parameter = Tensor::uniform(-bound..bound, shape, &random, machine)?;
            parameters.push(parameter.with_grad()?);
        }
    }
    Ok(parameters)
}

/// Computes the loss of a rank's points, and its gradients.
fn loss(parameters: &[Tensor], points: &Tensor, inside: &Tensor) -> Result<Tensor> {
    let tape = points.machine().tape();
    parameters.iter().for_each(Tensor::zero_grad);
    let mut x = points.linear(&parameters[0], Some(&parameters[1]))?;
    for layer in parameters[2..].chunks_exact(2) {
        x = x.tanh()?.linear(&layer[0], Some(&layer[1]))?;
    }
    let options = millstream::options::BinaryCrossEntropyWithLogits::default();
    let loss = x.binary_cross_entropy_with_logits(inside, options)?;
    tape.backward(&loss)?;
    Ok(loss)
}

/// Replaces tensors by their means over all ranks, by one collective.
fn average(tensors: &[Tensor], ring: &Stream) -> Result<()> {
    let tensors: Vec<&Tensor> = tensors.iter().collect();
    let mean = Attrs::new().with("op", "mean");
    tensors[0].machine().call("allreduce_", &tensors).attrs(mean).on(ring).map(drop)
}

/// Averages the gradients in buckets, those of the last layers first: they are ready first. While a
/// bucket travels, the gradients of earlier layers are computed.
fn average_gradients(parameters: &[Tensor], ring: &Stream) -> Result<()> {
    let mut bucket = Vec::new();
    for gradient in parameters.iter().rev().filter_map(Tensor::grad) {
        bucket.push(gradient);
        if bucket.iter().map(|gradient| gradient.spec().span_bytes()).sum::<usize>() >= BUCKET {
            average(&std::mem::take(&mut bucket), ring)?;
        }
    }
    if bucket.is_empty() { Ok(()) } else { average(&bucket, ring) }
}

/// Trains on the part of every batch that belongs to this rank. Returns the first and the last loss
/// of the whole batch.
///
/// # Errors
/// Another rank has failed or ended.
pub(crate) fn train(communicator: Arc<dyn Communicator>, steps: usize) -> Result<(f32, f32)> {
    let (rank, ranks) = (communicator.rank(), communicator.ranks());
    // All calls come from this thread, so ranks that wait for one another are found.
    let config = MachineConfig::default().communicator(communicator).submitters(Some(1));
    let machine = Machine::new(config)?;
    let ring = machine.stream(&StreamKey::new(DeviceId::cpu(0), StreamType::CCL, 0))?;
    let parameters = network(&machine)?;
    let own: Vec<&Tensor> = parameters.iter().collect();
    let (random, mut state) = (Generator::new(2), State::default());
    let settings = Adam { lr: 0.02.into(), ..Adam::default() };
    let mut losses = Vec::new();
    for _ in 0..steps {
        // Every rank draws the whole batch, and takes its rows.
        let points = Tensor::uniform(-1.0..1.0, (BATCH, 2), &random, &machine)?;
        let points = points.narrow(0, rank * (BATCH / ranks), BATCH / ranks)?;
        let squares = (&points * &points)?.sum(1)?;
        let inside = squares.lt(0.6)?.cast(points.dtype())?.reshape((BATCH / ranks, 1))?;
        let loss = loss(&parameters, &points, &inside)?.detach()?;
        average_gradients(&parameters, &ring)?;
        adam(&own, &mut state, &settings)?;
        losses.push(loss);
    }
    let ends = [losses[0].clone(), losses[steps - 1].clone()];
    average(&ends, &ring)?;
    Ok((ends[0].item()?, ends[1].item()?))
}

/// Trains with so many ranks, which are threads. Returns the losses of rank 0.
///
/// # Errors
/// A rank has failed.
pub(crate) fn train_by_threads(ranks: usize, steps: usize) -> Result<(f32, f32)> {
    let losses = LocalGroup::run(ranks, |communicator| train(Arc::new(communicator), steps))?;
    Ok(losses[0])
}

#[allow(dead_code, reason = "a test runs the rest of this file as a module")]
fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let (first, last) = if mpi::is_launched() {
        let processes = MpiCommunicator::connect()?;
        let losses = train(processes.clone(), 200);
        processes.finish();
        if processes.rank() > 0 {
            return Ok(losses.map(drop)?);
        }
        losses?
    } else {
        train_by_threads(4, 200)?
    };
    println!("loss: {first:.3} after the first step, {last:.3} after the last");
    Ok(())
}
