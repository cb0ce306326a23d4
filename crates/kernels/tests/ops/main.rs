//! Every op with its CPU kernel, against references that go element by element.

mod casts;
mod elementwise;
mod in_place;
mod matmul;
mod properties;
mod selects;
mod sums;
mod support;
mod views;
