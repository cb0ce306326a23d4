//! The typed front of tensors, one topic per file.

mod autocast;
mod bounded;
mod captured;
mod composites;
mod computing;
mod derivatives;
mod devices;
mod display;
mod dlpack;
mod dropout_training;
mod files;
mod generators;
mod gradients;
mod indexing;
mod kept_gradients;
mod making;
mod optimisers;
mod own_ops;
mod reading;
mod scalars;
mod sizes;
mod training;
mod unnoted;

use millstream::*;

/// Returns a tensor of f32 on the machine's default device.
#[track_caller]
fn floats(m: &Machine, shape: &[usize], elements: &[f32]) -> Tensor {
    Tensor::from_slice(elements, shape, m).unwrap()
}
