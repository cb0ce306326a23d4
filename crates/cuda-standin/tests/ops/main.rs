//! Compares the kernels for NVIDIA devices, compiled for the host, with PyTorch's values: the same
//! reference values as for the host's kernels.

mod rig;

millstream_testing::reference_tests!(crate::rig::run);

#[test]
fn parts_of_random_tensors_have_the_bits_of_the_whole() {
    millstream_testing::kernels::check_random_parts(rig::run);
}
