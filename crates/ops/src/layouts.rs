//! The memory layouts of results, which follow PyTorch, so that views of results have the same
//! meaning.
//!
//! Source: PyTorch's `TensorIterator`,
//! <https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/TensorIterator.cpp>. If all operands
//! are contiguous, all channels-last, or all dense with equal strides, the result is laid out like
//! them. Otherwise dimensions are sorted by the strides of the operands; the first operand whose
//! strides differ in two dimensions decides their order.

use millstream_types::{Dims, Layout, Result, TensorSpec};
use smallvec::SmallVec;

/// Returns the layout of an elementwise op's new result of `shape`, which all inputs broadcast to.
///
/// # Errors
/// Fails if the shape is too large.
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

/// Returns the layout of a copy that keeps the layout of `x` if it is dense
/// (`torch.preserve_format`).
///
/// # Errors
/// Fails if the shape is too large.
pub fn preserved(x: &TensorSpec) -> Result<Layout> {
    match is_dense(&x.layout) {
        true => Layout::strided(x.shape(), x.layout.strides(), 0),
        false => elementwise(&[x], x.shape()),
    }
}

/// Returns the channels-last strides of a shape of four or five dimensions (batch, channels,
/// spatial); `None` for other ranks.
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

/// Returns the layout of the concatenation of `parts` to `shape`: channels-last if all parts are,
/// else contiguous. PyTorch specifies no more for `cat` and the ops built on it.
///
/// # Errors
/// Fails if the shape is too large.
pub fn joined<'a>(parts: impl IntoIterator<Item = &'a Layout>, shape: &[usize]) -> Result<Layout> {
    let mut parts = parts.into_iter().peekable();
    let all = parts.peek().is_some() && parts.all(suggests_channels_last);
    match channels_last(shape).filter(|_| all) {
        Some(strides) => Layout::strided(shape, &strides, 0),
        None => Layout::contiguous(shape),
    }
}

/// Returns the layout of a result of `shape` of an op that keeps the memory format of its input:
/// channels-last if the input is unambiguously channels-last, else contiguous (PyTorch's
/// `suggest_memory_format`).
///
/// # Errors
/// Fails if the shape is too large.
pub fn suggested(input: &TensorSpec, shape: &[usize]) -> Result<Layout> {
    match channels_last(shape).filter(|_| suggests_channels_last(&input.layout)) {
        Some(strides) => Layout::strided(shape, &strides, 0),
        None => Layout::contiguous(shape),
    }
}

/// Returns whether a layout of four or five dimensions is unambiguously channels-last.
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
        // If the batch steps no further than the channels, contiguous fits as well.
        if shape[k] == 0 || strides[k] < least || (k == 0 && least == strides[1]) {
            return false;
        }
        least = strides[k].saturating_mul(shape[k]);
    }
    true
}

/// Returns whether a layout has these strides in all dimensions longer than 1.
fn lies_like(layout: &Layout, strides: &[usize]) -> bool {
    let dims = layout.shape().iter().zip(layout.strides()).zip(strides);
    layout.numel() > 0 && dims.into_iter().all(|((&d, a), b)| d == 1 || a == b)
}

/// Returns whether the elements are without gaps and overlaps, in any order of dimensions.
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

/// Returns the dimensions from the innermost to the outermost.
fn order(inputs: &[&TensorSpec], shape: &[usize]) -> SmallVec<[usize; 4]> {
    let rank = shape.len();
    let bytes = |input: &TensorSpec, k: usize| match (k + input.layout.rank()).checked_sub(rank) {
        Some(at) if input.shape()[at] != 1 || shape[k] == 1 => {
            // The stride of a dimension of length 1 is arbitrary.
            input.layout.strides()[at].saturating_mul(input.dtype.size())
        }
        _ => 0,
    };
    // Whether `inner` belongs outside of `outer`, by strides or, where these are equal, by lengths;
    // `None` if no operand decides.
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

    /// The expected strides are those of PyTorch 2.15 for `a + b`.
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
