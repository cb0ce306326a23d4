//! Every op with its CPU kernel, against references that go element by element.

mod casts;
mod collective;
mod elementwise;
mod in_place;
mod indices;
mod matmul;
mod networks;
mod properties;
mod reference;
mod selects;
mod sums;
mod support;
mod views;
