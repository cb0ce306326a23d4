//! The surroundings of a call on its thread: where it is in the program, which scope can cancel it,
//! whether the machine itself runs the caller, and whether its process has made the machine.

pub mod cancel;
pub mod fork;
pub mod origin;
pub mod reentrancy;
