//! What ops are called here that other libraries, or PyTorch's functional interface, call
//! otherwise.

/// Names that are no ops here, in alphabetical order, with the ops to write.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("absolute", "write 'abs'"),
    ("adaptive_avg_pool2d", "write '_adaptive_avg_pool2d'"),
    ("all_gather", "write 'allgather_'"),
    ("all_reduce", "write 'allreduce_'"),
    ("all_to_all", "write 'alltoall_'"),
    ("allgather", "write 'allgather_'"),
    ("allreduce", "write 'allreduce_'"),
    ("amin_max", "write 'amin' and 'amax'"),
    ("attention", "write '_scaled_dot_product_flash_attention_for_cpu'"),
    ("batch_norm", "write 'native_batch_norm'"),
    ("bmm", "write 'matmul', which takes batches too"),
    ("clip", "write 'clamp'"),
    ("concat", "write 'cat'"),
    ("concatenate", "write 'cat'"),
    ("contiguous", "write 'clone' with memory_format \"contiguous\""),
    ("conv1d", "write 'convolution'"),
    ("conv2d", "write 'convolution'"),
    ("conv3d", "write 'convolution'"),
    ("conv_transpose2d", "write 'convolution' with transposed true"),
    ("cross_entropy", "write '_log_softmax', then 'nll_loss_forward'"),
    ("divide", "write 'div'"),
    ("dot", "write 'matmul'"),
    ("dropout", "write 'native_dropout'"),
    ("einsum", "write 'permute' and 'matmul'"),
    ("empty", "write 'full' with value 0"),
    ("equal", "write 'eq'"),
    ("fill_", "write 'fill'"),
    ("flatten", "write 'reshape'"),
    ("greater", "write 'gt'"),
    ("greater_equal", "write 'ge'"),
    ("group_norm", "write 'native_group_norm'"),
    ("hstack", "write 'cat' with dim 1"),
    ("inner", "write 'matmul'"),
    ("invert", "write 'bitwise_not'"),
    ("layer_norm", "write 'native_layer_norm'"),
    ("less", "write 'lt'"),
    ("less_equal", "write 'le'"),
    ("linear", "write 'addmm' of the bias, x and the weight transposed by 't'"),
    ("log_softmax", "write '_log_softmax'"),
    ("masked_scatter", "write 'index_put'"),
    ("max_pool2d", "write 'max_pool2d_with_indices'"),
    ("mm", "write 'matmul'"),
    ("moveaxis", "write 'permute'"),
    ("movedim", "write 'permute'"),
    ("multiply", "write 'mul'"),
    ("mv", "write 'matmul'"),
    ("negative", "write 'neg'"),
    ("nll_loss", "write 'nll_loss_forward'"),
    ("norm", "write 'linalg_vector_norm'"),
    ("not_equal", "write 'ne'"),
    ("ones", "write 'full' with value 1"),
    ("ones_like", "write 'full' with value 1 and the shape of x"),
    ("outer", "write 'mul' of x with a new last dimension and y"),
    ("pad", "write 'constant_pad_nd'"),
    ("power", "write 'pow'"),
    ("rand", "write 'uniform'"),
    ("randn", "write 'normal'"),
    ("range", "write 'arange'"),
    ("reduce_scatter", "write 'reduce_scatter_'"),
    ("scaled_dot_product_attention", "write '_scaled_dot_product_flash_attention_for_cpu'"),
    ("softmax", "write '_softmax'"),
    ("subtract", "write 'sub'"),
    ("swapaxes", "write 'transpose'"),
    ("swapdims", "write 'transpose'"),
    ("swish", "write 'silu'"),
    ("take_along_dim", "write 'gather'"),
    ("tile", "write 'repeat'"),
    ("to", "write 'cast' for another dtype, 'copy' for another device"),
    ("true_divide", "write 'div'"),
    ("type", "write 'cast'"),
    ("vstack", "write 'cat' with dim 0"),
    ("zero_", "write 'fill' with value 0"),
    ("zeros", "write 'full' with value 0"),
    ("zeros_like", "write 'full' with value 0 and the shape of x"),
];

/// Returns what to write for a name that is no op: the names of other libraries may have a
/// namespace, as in `torch.mm` or `aten::relu`.
pub(crate) fn help<'a>(name: &str, ops: impl Iterator<Item = &'a str> + Clone) -> Option<String> {
    let bare = name.rsplit(['.', ':']).next().unwrap_or(name);
    if bare != name && ops.clone().any(|op| op == bare) {
        return Some(format!("write '{bare}'"));
    }
    let lower = bare.to_ascii_lowercase();
    let known = OTHER_NAMES.binary_search_by_key(&lower.as_str(), |(other, _)| other);
    match known {
        Ok(found) => Some(OTHER_NAMES[found].1.to_owned()),
        Err(_) => millstream_types::nearest::did_you_mean(bare, ops),
    }
}

#[cfg(test)]
mod tests {
    use super::{OTHER_NAMES, help};
    use crate::standard;

    #[test]
    fn other_names_lead_to_ops() {
        let ops = standard();
        let names: Vec<&str> = ops.iter().map(|op| op.name()).collect();
        assert!(OTHER_NAMES.is_sorted_by(|a, b| a.0 < b.0));
        for (other, sentence) in OTHER_NAMES {
            assert!(!names.contains(other), "'{other}' is an op");
            for written in sentence.split('\'').skip(1).step_by(2) {
                assert!(names.contains(&written), "{other}: '{written}' is no op");
            }
        }
        let help = |name| help(name, names.iter().copied()).unwrap_or_default();
        assert_eq!(help("aten::relu"), "write 'relu'");
        assert_eq!(help("torch.mm"), "write 'matmul'");
        assert_eq!(help("MM"), "write 'matmul'");
        assert_eq!(help("Relu"), "did you mean 'relu'?");
        assert_eq!(help("rleu"), "did you mean 'relu'?");
        assert_eq!(help("frobnicate"), "");
    }
}
