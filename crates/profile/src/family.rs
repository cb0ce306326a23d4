//! The kind of an instruction's work, by its name. Timelines are coloured by it.
//!
//! An op of Millstream, also with PyTorch's namespace, has the family of its table. The kernels of
//! other programs have no table: parts of their names decide.

use std::collections::HashMap;
use std::sync::LazyLock;

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Family {
    /// Matrix products, linear algebra, Fourier transforms.
    Products,
    /// Convolution and pooling.
    Convolution,
    /// Attention and embeddings.
    Attention,
    /// Normalisation, softmax and losses.
    Normalisation,
    /// Functions of each element.
    Elementwise,
    /// Reductions, sorting, counting.
    Reductions,
    /// Creation and random numbers.
    Creation,
    /// Copies, views, concatenation, indexing.
    Movement,
    /// Collectives.
    Collectives,
    /// Everything else: functions of the program, launches, unknown names.
    Other,
}

millstream_types::names! {
    Family: Products "matrix products", Convolution "convolution, pooling",
    Attention "attention, embedding", Normalisation "normalisation, softmax, loss",
    Elementwise "elementwise", Reductions "reductions, sorting",
    Creation "creation, random numbers", Movement "copies, views, indexing",
    Collectives "collectives", Other "other"
}

impl Family {
    /// Returns the family of the instructions with a name.
    ///
    /// ```
    /// use millstream_profile::family::Family;
    /// assert_eq!(Family::of("addmm"), Family::Products);
    /// assert_eq!(Family::of("aten::relu_"), Family::Elementwise);
    /// assert_eq!(Family::of("Memcpy DtoH (Device -> Pageable)"), Family::Movement);
    /// assert_eq!(Family::of("sm80_xmma_fprop_implicit_gemm_tf32f32"), Family::Convolution);
    /// ```
    pub fn of(name: &str) -> Family {
        let op = name.rsplit_once("::").map_or(name, |(_, op)| op);
        let known = OPS.get(op).or_else(|| OPS.get(op.trim_end_matches('_')));
        known.copied().unwrap_or_else(|| Family::of_kernel(&name.to_lowercase()))
    }

    /// Returns the family of a name in small letters that is no op's, by the first part found.
    fn of_kernel(name: &str) -> Family {
        if name.ends_with("mm") {
            return Family::Products;
        }
        // The host's calls of CUDA are no work of a device.
        if name.starts_with("cuda") {
            return Family::Other;
        }
        let found = PARTS.iter().find(|(_, parts)| parts.iter().any(|part| name.contains(part)));
        found.map_or(Family::Other, |&(family, _)| family)
    }

    /// Returns the family of a table of the ops, by its title.
    fn of_table(title: &str) -> Family {
        match title {
            "Matrix products" | "Linear algebra" | "Fourier transforms" => Family::Products,
            "Convolution and pooling" => Family::Convolution,
            "Embedding and attention" => Family::Attention,
            "Normalisation" | "Softmax and losses" => Family::Normalisation,
            "Complex numbers"
            | "Arithmetic"
            | "Pointwise functions"
            | "Special functions"
            | "Comparison and logic"
            | "Ternary functions"
            | "Fused elementwise programs" => Family::Elementwise,
            "Reductions" | "Sorting" | "Counting and searching" => Family::Reductions,
            "Creation" | "Random numbers" | "Dropout" => Family::Creation,
            "Copies and conversions"
            | "Views"
            | "Concatenation"
            | "Indexing and selection"
            | "Grids, segments, alignments"
            | "Flips, rolls, triangles, padding" => Family::Movement,
            "Collectives" => Family::Collectives,
            _ => Family::Other,
        }
    }
}

/// The family of each standard op.
static OPS: LazyLock<HashMap<&'static str, Family>> = LazyLock::new(|| {
    let tables = millstream_ops::families().into_iter();
    tables
        .flat_map(|(title, ops)| ops.into_iter().map(move |op| (title, op)))
        .map(|(title, op)| (op.name(), Family::of_table(title)))
        .collect()
});

/// Parts of the names of other programs' kernels, the most telling first: a convolution is often
/// computed as a product, and a loss as an elementwise kernel.
const PARTS: &[(Family, &[&str])] = &[
    (Family::Collectives, &["nccl", "c10d::", "allreduce", "all_reduce", "allgather", "alltoall"]),
    (Family::Attention, &["flash", "fmha", "attention", "embedding", "_embs", "lookup"]),
    (
        Family::Convolution,
        &["conv", "fprop", "dgrad", "wgrad", "scudnn", "im2col", "pool", "winograd", "implicit"],
    ),
    (Family::Normalisation, &["norm", "softmax", "loss", "bn_", "entropy"]),
    (Family::Products, &["gemm", "gemv", "matmul", "fft", "cublas", "bmm", "linear"]),
    (
        Family::Creation,
        &[
            "distribution",
            "random",
            "dropout",
            "philox",
            "fill",
            "memset",
            "empty",
            "zeros",
            "ones",
            "uniform",
        ],
    ),
    (
        Family::Movement,
        &[
            "memcpy",
            "copy",
            "cat",
            "index",
            "gather",
            "scatter",
            "transpose",
            "nhwc",
            "nchw",
            "permute",
            "syncread",
            "computeoffsets",
        ],
    ),
    (Family::Elementwise, &["elementwise", "multi_tensor_apply", "pointwise", "functor"]),
    (Family::Reductions, &["reduce", "scan", "sort", "cumsum"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_of_the_ops_has_a_family() {
        let other: Vec<_> = millstream_ops::families()
            .into_iter()
            .map(|(title, _)| title)
            .filter(|title| Family::of_table(title) == Family::Other)
            .collect();
        assert_eq!(other, ["Functions of the program"]);
    }

    #[test]
    fn names_of_other_programs_have_families() {
        for (name, family) in [
            ("aten::mm", Family::Products),
            ("ampere_sgemm_32x32_sliced1x4_tn", Family::Products),
            ("cudnn_ampere_scudnn_128x64_relu_xregs_large_nn_v1", Family::Convolution),
            ("Kernel<cutlass_tensorop_s1688dgrad_optimized_tf32_64x256>", Family::Convolution),
            ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*)", Family::Collectives),
            ("vectorized_elementwise_kernel<4, CUDAFunctor_add<float>>", Family::Elementwise),
            ("vectorized_elementwise_kernel<4, FillFunctor<float>>", Family::Creation),
            ("CatArrayBatchedCopy_aligned16_contig<OpaqueType<4u>>", Family::Movement),
            ("bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512>", Family::Normalisation),
            ("aten::empty_strided", Family::Creation),
            ("cudaLaunchKernel", Family::Other),
            ("_scatter_gather_elementwise_kernel<128, _cuda_scatter_gather>", Family::Movement),
            ("DeviceScanKernel<AgentScanPolicy<128>>", Family::Reductions),
            ("SyncRead", Family::Movement),
            ("a function of somebody", Family::Other),
        ] {
            assert_eq!(Family::of(name), family, "{name}");
        }
    }
}
