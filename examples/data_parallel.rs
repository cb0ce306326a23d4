//! A network that several ranks train together: the batch is split among them, every rank has the
//! parameters, and the ranks sum the gradients of their points in buckets. Nothing but the places
//! of the tensors says so. The ranks are threads, or processes under `mpirun`.

use std::sync::Arc;

use millstream::comm::{Communicator, LocalGroup, MpiCommunicator, mpi};
use millstream::optimisers::{Adam, State, adam};
use millstream::sbp::{B, S};
use millstream::{Generator, Machine, MachineConfig, Mesh, Result, Sharding, Tensor};

/// The points of a batch, of all ranks together.
const BATCH: usize = 256;

/// A bucket is reduced once its gradients have so many bytes.
const BUCKET: usize = 4096;

/// The parameters of a network of three layers: weights and biases, the same on every rank.
fn network(machine: &Machine, mesh: &Mesh) -> Result<Vec<Tensor>> {
    let (random, whole) = (Generator::new(1), Sharding::new(mesh, [B])?);
    let mut parameters = Vec::new();
    for (from, to) in [(2, 32), (32, 32), (32, 1)] {
        let bound = 1.0 / f64::from(from).sqrt();
        for shape in [vec![to, from as usize], vec![to]] {
            let place = (machine, &whole);
            parameters.push(Tensor::uniform(-bound..bound, shape, &random, place)?.with_grad()?);
        }
    }
    Ok(parameters)
}

/// Computes the loss of all points, and its gradients. While a bucket of them travels, those of
/// earlier layers are computed.
fn loss(parameters: &[Tensor], points: &Tensor, inside: &Tensor) -> Result<Tensor> {
    let tape = points.machine().tape();
    tape.bucket(BUCKET);
    parameters.iter().for_each(Tensor::zero_grad);
    let mut x = points.linear(&parameters[0], Some(&parameters[1]))?;
    for layer in parameters[2..].chunks_exact(2) {
        x = x.tanh()?.linear(&layer[0], Some(&layer[1]))?;
    }
    let options = millstream::options::BinaryCrossEntropyWithLogits::default();
    let loss = x.binary_cross_entropy_with_logits(inside, options)?;
    tape.backward(&loss)?;
    loss.detach()
}

/// Trains on batches whose rows the ranks divide. Returns the first and the last loss.
///
/// # Errors
/// Another rank has failed or ended.
pub(crate) fn train(communicator: Arc<dyn Communicator>, steps: usize) -> Result<(f32, f32)> {
    let mesh = Mesh::new((0..communicator.ranks() as u32).collect::<Vec<u32>>())?;
    // All calls come from this thread, so ranks that wait for one another are found.
    let config = MachineConfig::default().communicator(communicator).submitters(Some(1));
    let machine = Machine::new(config)?;
    let parameters = network(&machine, &mesh)?;
    let own: Vec<&Tensor> = parameters.iter().collect();
    let (random, rows) = (Generator::new(2), Sharding::new(&mesh, [S(0)])?);
    let (mut state, settings) = (State::default(), Adam { lr: 0.02.into(), ..Adam::default() });
    let mut losses = Vec::new();
    for _ in 0..steps {
        // Each rank draws its rows of the batch.
        let points = Tensor::uniform(-1.0..1.0, (BATCH, 2), &random, (&machine, &rows))?;
        let squares = (&points * &points)?.sum(1)?;
        let inside = squares.lt(0.6)?.cast(points.dtype())?.reshape((BATCH, 1))?;
        losses.push(loss(&parameters, &points, &inside)?);
        adam(&own, &mut state, &settings)?;
    }
    let all = |loss: &Tensor| loss.full_tensor()?.item();
    Ok((all(&losses[0])?, all(&losses[steps - 1])?))
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
