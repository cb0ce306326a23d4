//! The surroundings of a call on its thread: where it is in the program, which scope can cancel it,
//! whether the machine itself runs the caller.

pub mod cancel;
pub mod origin;
pub mod reentrancy;
