//! Calls of kernels without a machine, and the values of PyTorch that they are compared with.

mod calls;
mod num;
mod random_parts;
pub mod reference;
mod tensor;

pub use calls::{
    call, call_on, call_with, launch, launch_from, one, one_into, run_and_compare_prepared,
    signature, start_on_rank, thread_pool, try_launch, try_launch_prepared,
};
pub use num::Num::{self, Float, Int};
pub use num::{rounded, samples};
pub use random_parts::check_random_parts;
pub use tensor::{Index, Tensor, broadcast_index, indices, layouts};
