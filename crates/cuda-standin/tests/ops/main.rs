//! Every op that has a kernel for NVIDIA devices, with that kernel's own code compiled for the host,
//! against the values made with PyTorch that the host's kernels are checked against.

#[path = "../../../kernels/tests/ops/reference.rs"]
mod reference;
mod rig;
#[allow(dead_code)]
#[path = "../../../kernels/tests/ops/support.rs"]
mod support;

use rig::run;

/// Where the values made with PyTorch lie.
const REFERENCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../kernels/tests/reference");
