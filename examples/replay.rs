//! A training step that is recorded once and replayed with new batches: docs/executables.md quotes
//! it.

use millstream::{DType, DeviceId, Executable, Machine, MachineConfig, Result, Tensor, TensorSpec};

const BATCH: usize = 16;
const FEATURES: usize = 4;

fn spec(shape: &[usize]) -> Result<TensorSpec> {
    TensorSpec::contiguous(DType::F32, shape)
}

fn upload(machine: &Machine, shape: &[usize], values: &[f32]) -> Result<Tensor> {
    let stream = machine.compute(&DeviceId::cpu(0), 0)?;
    machine.upload(&stream, spec(shape)?, values.iter().flat_map(|v| v.to_ne_bytes()).collect())
}

fn floats(tensor: &Tensor) -> Result<Vec<f32>> {
    let bytes = tensor.read()?;
    let one = |four: &[u8]| four.try_into().map_or(f32::NAN, f32::from_ne_bytes);
    Ok(bytes.chunks_exact(4).map(one).collect())
}

/// Records a step of least squares: w -= lr · 2/n · xᵀ(xw − y). The weights are bound, so that
/// every launch updates them; the batch is an input, and the loss an output.
fn training_step(machine: &Machine, weights: &Tensor) -> Result<Executable> {
    let recorded = machine.record(|r| {
        let x = r.input("x", spec(&[BATCH, FEATURES])?)?;
        let y = r.input("y", spec(&[BATCH, 1])?)?;
        let w = r.bind(weights)?;
        let predicted = r.call("matmul", &[x, w]).run()?[0];
        let error = r.call("sub", &[predicted, y]).run()?[0];
        let squared = r.call("mul", &[error, error]).run()?[0];
        let loss = r.call("mean", &[squared]).run()?[0];
        let transposed = r.call("transpose", &[x]).attr("dim0", 0).attr("dim1", 1).run()?[0];
        let gradient = r.call("matmul", &[transposed, error]).run()?[0];
        r.call("add_", &[w, gradient]).attr("alpha", -0.1 * 2.0 / BATCH as f64).run()?;
        r.output("loss", &loss)
    })?;
    recorded.compile()
}

/// Returns the tape of the training step, as docs/executables.md shows it.
pub(crate) fn tape() -> Result<String> {
    let machine = Machine::new(MachineConfig::default())?;
    let weights = upload(&machine, &[FEATURES, 1], &[0.0; FEATURES])?;
    Ok(training_step(&machine, &weights)?.describe())
}

/// Trains on batches of a line that is known, and returns the first and the last loss.
pub(crate) fn train(steps: usize) -> Result<(f32, f32)> {
    let machine = Machine::new(MachineConfig::default())?;
    let weights = upload(&machine, &[FEATURES, 1], &[0.0; FEATURES])?;
    let step = training_step(&machine, &weights)?;
    let mut losses = Vec::new();
    for k in 0..steps {
        let x: Vec<f32> =
            (0..BATCH * FEATURES).map(|i| ((k * 31 + i * 17) % 23) as f32 / 11.0 - 1.0).collect();
        let truth = |row: &[f32]| row.iter().zip([1.0, -2.0, 0.5, 3.0]).map(|(a, b)| a * b).sum();
        let y: Vec<f32> = x.chunks(FEATURES).map(truth).collect();
        let x = upload(&machine, &[BATCH, FEATURES], &x)?;
        let y = upload(&machine, &[BATCH, 1], &y)?;
        // Nothing waits here: the launch is ordered behind the uploads, and the next one behind it.
        losses.push(step.launch().input("x", &x).input("y", &y).run()?);
    }
    let loss = |k: usize| Ok(floats(losses[k].output("loss")?)?[0]);
    Ok((loss(0)?, loss(steps - 1)?))
}

#[allow(dead_code, reason = "a test runs the rest of this file as a module")]
fn main() -> Result<()> {
    let (first, last) = train(200)?;
    print!("{}", tape()?);
    println!("loss: {first:.4} after the first step, {last:.8} after the last");
    Ok(())
}
