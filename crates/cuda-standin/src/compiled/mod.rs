//! Kernels in CUDA C, compiled for the host by a C++ compiler and run there: a block's threads one
//! after another, each until it ends or waits for the others.
//!
//! # What this shows
//! That a kernel's own code computes what it should from what it is given: its arithmetic, its indices,
//! which threads exchange what, and that all threads of a block reach its barriers. Every element that
//! is read or written must lie in an operand of the argument and be aligned.
//!
//! # What it does not show
//! Races between threads, beyond those that one of two orders of them brings out; the memory model; how
//! a GPU's compiler rounds (it joins products and sums, and has functions of its own); speed.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | `compiler` | the C++ compiler, and what it compiled before |
//! | `prelude.hpp` | CUDA C's words as C++ |
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
