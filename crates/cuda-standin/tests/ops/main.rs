//! Compares the kernels for NVIDIA devices, compiled for the host, with PyTorch's values: the same
//! reference values as for the host's kernels.

mod rig;

millstream_testing::reference_tests!(crate::rig::run);
