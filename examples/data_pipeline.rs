//! A data pipeline on the dependency engine: batches are read, decoded, augmented, copied into
//! tensors and trained on, side by side, with a bound on how many are under way.
//!
//! docs/engine.md quotes this program.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use millstream::{Access, DependencyEngine, Machine, MachineConfig, Tensor, Var};

/// How many batches may be under way.
const SLOTS: usize = 3;

/// The values of a batch, and how many there are after augmentation.
const VALUES: usize = 4;
const AUGMENTED: usize = 2 * VALUES;

/// The content of a batch on its way: the text of its file, then its values.
#[derive(Default)]
struct Buffer {
    text: String,
    values: Vec<f32>,
}

/// A place for a batch: its buffer, its tensor, and the variable that orders their users.
struct Slot {
    buffer: Arc<Mutex<Buffer>>,
    tensor: Tensor,
    var: Var,
}

impl Slot {
    fn new(machine: &Machine, engine: &DependencyEngine) -> Result<Slot> {
        let tensor = Tensor::zeros(AUGMENTED, millstream::DType::F32, machine)?;
        // The variable stands for the tensor: functions are ordered with the ops that use it.
        let var = engine.var_of(&tensor)?;
        Ok(Slot { buffer: Arc::default(), tensor, var })
    }

    /// Returns a function that changes the buffer.
    fn change(
        &self,
        change: impl FnOnce(&mut Buffer) -> Result<()> + Send + 'static,
    ) -> impl FnOnce() -> Result<()> + Send + 'static {
        let buffer = self.buffer.clone();
        move || change(&mut buffer.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Pushes the steps of a batch that need no tensor.
fn load(engine: &DependencyEngine, slot: &Slot, number: usize) -> Result<()> {
    // Reading completes later, from a thread that waits for the disk.
    let read = slot.change(move |buffer| {
        buffer.text = (0..VALUES).map(|k| format!("{} ", number % 5 + k)).collect();
        Ok(())
    });
    engine
        .push_async(|done| {
            std::thread::spawn(|| match read() {
                Ok(()) => done.complete(),
                Err(error) => done.fail(error),
            });
        })
        .overwrites(&[&slot.var])
        .name("read")
        .spawn()?;
    let decode = slot.change(|buffer| {
        let values = buffer.text.split_whitespace().map(str::parse);
        buffer.values = values.collect::<Result<_, _>>().context("a value is no number")?;
        Ok(())
    });
    engine.push(decode).writes(&[&slot.var]).name("decode").spawn()?;
    let augment = slot.change(|buffer| {
        buffer.values.extend_from_within(..);
        buffer.values[VALUES..].iter_mut().for_each(|value| *value = -*value);
        Ok(())
    });
    engine.push(augment).writes(&[&slot.var]).name("augment").spawn()?;
    Ok(())
}

/// Trains `weight` on batches of `x`, so that `weight * x` becomes `3 * x`. Returns the weight.
///
/// # Errors
/// None is expected.
pub(crate) fn train(batches: usize) -> Result<f32> {
    let machine = Machine::new(MachineConfig::default())?;
    let engine = machine.dependency_engine()?;
    let slots = (0..SLOTS).map(|_| Slot::new(&machine, &engine)).collect::<Result<Vec<_>>>()?;
    let weight = Tensor::zeros(1, millstream::DType::F32, &machine)?;
    for number in 0..batches {
        let slot = &slots[number % SLOTS];
        // Back-pressure: the batch that had the slot has been copied into its tensor.
        engine.wait_for(&slot.var)?;
        load(&engine, slot, number)?;
        let buffer = slot.buffer.clone();
        slot.tensor.access(Access::ReadWrite, move |tensor| {
            let buffer = buffer.lock().unwrap_or_else(PoisonError::into_inner);
            let bytes = buffer.values.iter().flat_map(|value| value.to_ne_bytes());
            tensor.write_bytes(&bytes.collect::<Vec<_>>())
        })?;
        // The gradient of the mean of (weight * x - 3 * x)^2.
        let x = &slot.tensor;
        let error = x.mul(&weight)?.sub(&x.mul(3.0)?)?;
        let gradient = error.mul(x)?.mean(..)?.mul(2.0)?;
        weight.sub_(&gradient.mul(0.01)?)?;
    }
    engine.wait_all()?;
    Ok(weight.to_vec::<f32>()?[0])
}

#[allow(dead_code, reason = "a test runs the rest of this file as a module")]
fn main() -> Result<()> {
    println!("the weight is {:.3}", train(100)?);
    Ok(())
}
