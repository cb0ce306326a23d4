//! The ops that autocast runs in a dtype of its choice. PyTorch's names are on ops of other names
//! here: `conv2d` is `convolution`, `layer_norm` is `native_layer_norm`.
//!
//! Source: "Autocast Op Reference" in <https://docs.pytorch.org/docs/stable/amp.html>, of CUDA;
//! here they hold for all devices, so that a program computes the same on each.

/// The dtype of a call's floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// That of the scope.
    Lower,
    /// f32.
    Full,
    /// f32, unless the call names a dtype.
    FullByDefault,
    /// The widest of the operands'.
    Widest,
    /// None: in f16 its results are wrong.
    Refused,
}

const LOWER: &[&str] = &[
    "linear",
    "matmul",
    "addmm",
    "addmv",
    "addr",
    "addbmm",
    "baddbmm",
    "convolution",
    "_prelu_kernel",
    "lstm_layer",
    "_scaled_dot_product_flash_attention_for_cpu",
];

const FULL: &[&str] = &[
    "acos",
    "asin",
    "cosh",
    "erfinv",
    "exp",
    "expm1",
    "log",
    "log10",
    "log2",
    "log1p",
    "reciprocal",
    "rsqrt",
    "sinh",
    "tan",
    "pow",
    "softplus",
    "native_layer_norm",
    "native_group_norm",
    "nll_loss_forward",
    "nll_loss2d_forward",
    "smooth_l1_loss",
    "huber_loss",
    "mse_loss",
    "multilabel_margin_loss_forward",
    "soft_margin_loss",
    "multi_margin_loss",
    "binary_cross_entropy_with_logits",
    "dist",
    "_cdist_forward",
    "_pdist_forward",
    "renorm",
    "logsumexp",
    "upsample_nearest1d",
    "upsample_nearest2d",
    "upsample_nearest3d",
    "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d",
    "_upsample_nearest_exact3d",
    "upsample_linear1d",
    "upsample_bilinear2d",
    "_upsample_bilinear2d_aa",
    "upsample_trilinear3d",
    "upsample_bicubic2d",
    "_upsample_bicubic2d_aa",
];

const FULL_BY_DEFAULT: &[&str] =
    &["prod", "_softmax", "_log_softmax", "cumprod", "cumsum", "linalg_vector_norm", "sum"];

const WIDEST: &[&str] = &[
    "addcdiv",
    "addcmul",
    "atan2",
    "_trilinear",
    "linalg_cross",
    "grid_sampler_2d",
    "grid_sampler_3d",
    "index_put",
    "scatter_add",
    "cat",
    "stack",
];

/// Returns the class of an op; none if it runs in the dtypes of its operands.
pub(super) fn class(op: &str) -> Option<Class> {
    let lists = [
        (LOWER, Class::Lower),
        (FULL, Class::Full),
        (FULL_BY_DEFAULT, Class::FullByDefault),
        (WIDEST, Class::Widest),
        (&["binary_cross_entropy"], Class::Refused),
    ];
    lists.into_iter().find(|(list, _)| list.contains(&op)).map(|(_, class)| class)
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_ops::{composite, standard};

    #[test]
    fn lists_name_ops_once() {
        let all = [LOWER, FULL, FULL_BY_DEFAULT, WIDEST].concat();
        for (k, op) in all.iter().enumerate() {
            let is_method = *op == "linear";
            let is_op = standard().find(op).is_some() || composite::find(op).is_some();
            let exists = is_op || is_method;
            assert!(exists && !all[..k].contains(op), "{op}");
        }
    }
}
