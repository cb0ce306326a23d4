//! Kernels in CUDA C, compiled for the host by a C++ compiler. The threads of a block run one after
//! another, each until it ends or waits for the others.
//!
//! # What this tests
//! The code of the kernels: arithmetic, indices, exchanges between threads, and that all threads of
//! a block reach its barriers. Every element that a kernel reads or writes must be aligned, and
//! within an operand of the argument.
//!
//! # What this does not test
//! Races between threads, except those that one of two orders of the threads reveals; the memory
//! model; the rounding of a GPU's compiler, which contracts products and sums and has its own math
//! functions; speed.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | `compiler` | the C++ compiler, and the cache of compiled sources |
//! | `prelude.hpp` | the language of CUDA C in C++ |
//! | `library` | a compiled source |
//! | `argument` | the operands in a kernel's argument |
//! | `blocks` | the blocks and threads of a launch |

mod argument;
mod blocks;
pub(crate) mod compiler;
mod library;

pub(crate) use argument::Argument;
pub(crate) use blocks::Grid;
pub(crate) use library::Library;

#[cfg(test)]
mod tests;
