//! Ops that move elements and do not compute.

/// The ops that copy, view, divide and join tensors of any dtype: forms of them for complex
/// numbers, their derivatives and those for u16, u32 and u64 are the usual ones. Those in place
/// stand by their name without `_`.
///
/// ```
/// assert!(millstream_ops::moves::MOVES.contains(&"transpose"));
/// ```
pub const MOVES: &[&str] = &[
    "copy",
    "clone",
    "cast",
    "fill",
    "transpose",
    "t",
    "permute",
    "squeeze",
    "unsqueeze",
    "expand",
    "alias",
    "slice",
    "narrow",
    "select",
    "diagonal",
    "unfold",
    "view",
    "reshape",
    "as_strided",
    "split",
    "chunk",
    "split_with_sizes",
    "unbind",
    "cat",
    "stack",
    "repeat",
    "constant_pad_nd",
];
