//! Compares the kernels for NVIDIA devices, compiled for the host, with PyTorch's values: the same
//! reference values as for the host's kernels.

#[path = "../../../kernels/tests/ops/reference.rs"]
mod reference;
mod rig;
#[allow(dead_code)]
#[path = "../../../kernels/tests/ops/support.rs"]
mod support;

use rig::run;

/// The folder of the reference values, which were computed with PyTorch.
const REFERENCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../kernels/tests/reference");
