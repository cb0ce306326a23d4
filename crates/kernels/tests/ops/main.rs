//! Every op with its CPU kernel, against references that compute element by element.

mod attention;
mod collective;
mod copy;
mod elementwise;
mod fused;
mod in_place;
mod index;
mod masked_select;
mod matmul;
mod multi_tensor;
mod networks;
mod prepared;
mod properties;
mod reduce;
mod reference;
mod sharding;
mod unsigned;
mod views;
