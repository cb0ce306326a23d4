//! How the results of elementwise ops lie in memory: as in PyTorch, so that views taken of them
//! mean the same.
//!
//! Source: PyTorch's `TensorIterator`,
//! <https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/TensorIterator.cpp>: operands that
//! are all contiguous, all channels-last, or all dense with the same strides give a result like
//! themselves; otherwise dimensions are sorted by the operands' strides, the first operand that
//! tells two dimensions apart deciding.

use millstream_types::{Dims, Layout, Result, TensorSpec};
use smallvec::SmallVec;

/// The layout of an elementwise op's new result of `shape`, to which all inputs broadcast.
///
/// # Errors
/// A shape that is too large.
pub fn elementwise(inputs: &[&TensorSpec], shape: &[usize]) -> Result<Layout> {
    if inputs.iter().all(|i| i.shape() == shape) {
        if inputs.iter().all(|i| i.layout.is_contiguous()) {
            return Layout::contiguous(shape);
        }
        let last = channels_last(shape);
        if let Some(last) = last.filter(|l| inputs.iter().all(|i| lies_like(&i.layout, l))) {
            return Layout::strided(shape, &last, 0);
        }
        let first = &inputs[0].layout;
        let alike = |i: &&TensorSpec| i.layout.strides() == first.strides();
        if inputs.iter().all(alike) && is_dense(first) {
            return Layout::strided(shape, first.strides(), 0);
        }
    }
    let order = order(inputs, shape);
    let mut strides = Dims::from_elem(0, shape.len());
    let mut step = 1usize;
    for &k in &order {
        strides[k] = step;
        step = step.saturating_mul(shape[k]);
    }
    if order.iter().rev().copied().eq(0..shape.len()) {
        return Layout::contiguous(shape);
    }
    Layout::strided(shape, &strides, 0)
}

/// The layout of a copy that keeps its original's, as far as that is dense; `torch.preserve_format`.
///
/// # Errors
/// A shape that is too large.
pub fn preserved(x: &TensorSpec) -> Result<Layout> {
    match is_dense(&x.layout) {
        true => Layout::strided(x.shape(), x.layout.strides(), 0),
        false => elementwise(&[x], x.shape()),
    }
}

/// The strides of a tensor of four (or five) dimensions, batch, channels, then places, whose
/// channels lie side by side; none for other ranks.
pub fn channels_last(shape: &[usize]) -> Option<Dims> {
    let order: &[usize] = match shape.len() {
        4 => &[1, 3, 2, 0],
        5 => &[1, 4, 3, 2, 0],
        _ => return None,
    };
    let mut strides = Dims::from_elem(0, shape.len());
    let mut step = 1usize;
    for &k in order {
        strides[k] = step;
        step = step.checked_mul(shape[k].max(1))?;
    }
    Some(strides)
}

/// The layout of tensors joined to one of `shape`: channels-last if all of them are, else
/// contiguous. PyTorch says of `cat` and what is built on it no more than that.
///
/// # Errors
/// A shape that is too large.
pub fn joined<'a>(parts: impl IntoIterator<Item = &'a Layout>, shape: &[usize]) -> Result<Layout> {
    let mut parts = parts.into_iter().peekable();
    let all = parts.peek().is_some() && parts.all(suggests_channels_last);
    match channels_last(shape).filter(|_| all) {
        Some(strides) => Layout::strided(shape, &strides, 0),
        None => Layout::contiguous(shape),
    }
}

/// The layout of a result of `shape` of an op that keeps its input's memory format: channels-last
/// if the input is clearly that, contiguous otherwise; PyTorch's `suggest_memory_format`.
///
/// # Errors
/// A shape that is too large.
pub fn suggested(input: &TensorSpec, shape: &[usize]) -> Result<Layout> {
    match channels_last(shape).filter(|_| suggests_channels_last(&input.layout)) {
        Some(strides) => Layout::strided(shape, &strides, 0),
        None => Layout::contiguous(shape),
    }
}

/// Whether the channels of four or five dimensions lie innermost, and no other reading is as good.
///
/// Source: `is_channels_last_strides_2d_s4` in
/// <https://github.com/pytorch/pytorch/blob/main/c10/core/MemoryFormat.h>.
pub fn suggests_channels_last(layout: &Layout) -> bool {
    let (shape, strides) = (layout.shape(), layout.strides());
    let order: &[usize] = match shape.len() {
        4 => &[1, 3, 2, 0],
        5 => &[1, 4, 3, 2, 0],
        _ => return false,
    };
    if strides[1] == 0 {
        return false;
    }
    let mut least = 0;
    for &k in order {
        // With a batch that steps no further than the channels, contiguous is as good a reading.
        if shape[k] == 0 || strides[k] < least || (k == 0 && least == strides[1]) {
            return false;
        }
        least = strides[k].saturating_mul(shape[k]);
    }
    true
}

/// Whether a layout has these strides, wherever a step is taken.
fn lies_like(layout: &Layout, strides: &[usize]) -> bool {
    let dims = layout.shape().iter().zip(layout.strides()).zip(strides);
    layout.numel() > 0 && dims.into_iter().all(|((&d, a), b)| d == 1 || a == b)
}

/// Whether the elements lie without gaps and none twice, in whatever order.
pub fn is_dense(layout: &Layout) -> bool {
    let mut dims: SmallVec<[(usize, usize); 4]> = layout
        .strides()
        .iter()
        .copied()
        .zip(layout.shape().iter().copied())
        .filter(|&(_, length)| length != 1)
        .collect();
    if dims.iter().any(|&(_, length)| length == 0) {
        return layout.is_contiguous();
    }
    dims.sort_unstable();
    let mut step = 1;
    dims.into_iter().all(|(stride, length)| {
        let fits = stride == step;
        step *= length;
        fits
    })
}

/// The dimensions from the innermost out.
fn order(inputs: &[&TensorSpec], shape: &[usize]) -> SmallVec<[usize; 4]> {
    let rank = shape.len();
    let bytes = |input: &TensorSpec, k: usize| match (k + input.layout.rank()).checked_sub(rank) {
        Some(at) if input.shape()[at] != 1 || shape[k] == 1 => {
            // A stride along which no step is taken may be anything.
            input.layout.strides()[at].saturating_mul(input.dtype.size())
        }
        _ => 0,
    };
    // Whether `inner`, taken for the smaller step, has in truth the larger: an answer only of
    // operands that step along both.
    let swapped = |inner: usize, outer: usize| -> Option<bool> {
        for input in inputs {
            let (a, b) = (bytes(input, inner), bytes(input, outer));
            if a == 0 || b == 0 {
                continue;
            }
            if a != b {
                return Some(a > b);
            }
            if shape[inner] > shape[outer] {
                return Some(true);
            }
        }
        None
    };
    let mut order: SmallVec<[usize; 4]> = (0..rank).rev().collect();
    for from in 1..rank {
        let mut moving = from;
        for at in (0..from).rev() {
            match swapped(order[at], order[moving]) {
                Some(true) => {
                    order.swap(at, moving);
                    moving = at;
                }
                Some(false) => break,
                None => {}
            }
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_types::DType;

    fn of(shape: &[usize], strides: &[usize]) -> TensorSpec {
        TensorSpec::new(DType::F32, Layout::strided(shape, strides, 0).unwrap()).unwrap()
    }

    /// What PyTorch 2.15 gives for `a + b`.
    #[test]
    fn strides_as_in_pytorch() {
        let cases: &[(&[TensorSpec], &[usize], &[usize])] = &[
            (&[of(&[3, 2], &[1, 3]), of(&[3, 2], &[1, 3])], &[3, 2], &[1, 3]),
            (&[of(&[3, 2], &[1, 3]), of(&[3, 2], &[2, 1])], &[3, 2], &[1, 3]),
            (&[of(&[3, 2], &[2, 1]), of(&[3, 2], &[1, 3])], &[3, 2], &[2, 1]),
            (&[of(&[3, 2], &[1, 3]), of(&[2], &[1])], &[3, 2], &[1, 3]),
            (&[of(&[3, 2], &[1, 6])], &[3, 2], &[1, 3]),
            (&[of(&[2, 3, 4], &[1, 2, 6])], &[2, 3, 4], &[1, 2, 6]),
            (&[of(&[2, 3, 1, 1], &[3, 1, 1, 1])], &[2, 3, 1, 1], &[3, 1, 1, 1]),
            (&[of(&[4, 3], &[0, 1])], &[4, 3], &[3, 1]),
            (&[of(&[4, 3], &[1, 0])], &[4, 3], &[3, 1]),
        ];
        for (inputs, shape, strides) in cases {
            let inputs: Vec<&TensorSpec> = inputs.iter().collect();
            let layout = elementwise(&inputs, shape).unwrap();
            assert_eq!(layout.strides(), *strides, "{inputs:?}");
        }
    }
}
