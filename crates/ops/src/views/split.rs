//! Several views that together cover a tensor.

use millstream_types::{Access, Result};
use smallvec::SmallVec;

use crate::args::required;
use crate::def::{Def, arg, refused};
use crate::schema::{ArgDoc, CallSpec, OutputSpec, Signature};
use crate::views::range::{dimension_of, narrow, without};

const X: &[ArgDoc] = &[arg("x", "one or more dimensions")];
const DIM: ArgDoc = arg("dim", "the dimension").int().or("0");

pub(super) const SPLIT: Def = Def::new(
    "split",
    "views of a dimension in parts of one length; the last may be shorter",
    X,
    &[arg("split_size", "the length of a part").int(), DIM],
    |call| {
        let size = required("split_size", call.attrs.int("split_size")?)?;
        let (dim, length) = cut(call, "split")?;
        match usize::try_from(size) {
            Ok(0) if length == 0 => parts("split", call, dim, [0]),
            Ok(size) if size > 0 => equal_parts("split", call, dim, length, size),
            _ => Err(refused("split", format!("split_size: expected 1 or more, got {size}"))),
        }
    },
)
.complex()
.unsigned();

pub(super) const CHUNK: Def = Def::new(
    "chunk",
    "views of a dimension in at most chunks parts of one length; the last may be shorter",
    X,
    &[arg("chunks", "the greatest number of parts").int(), DIM],
    |call| {
        let chunks = required("chunks", call.attrs.int("chunks")?)?;
        let (dim, length) = cut(call, "chunk")?;
        match usize::try_from(chunks) {
            Ok(chunks) if chunks > 0 && length > 0 => {
                equal_parts("chunk", call, dim, length, length.div_ceil(chunks))
            }
            Ok(chunks) if chunks > 0 => parts("chunk", call, dim, std::iter::repeat_n(0, chunks)),
            _ => Err(refused("chunk", format!("chunks: expected 1 or more, got {chunks}"))),
        }
    },
)
.complex()
.unsigned();

/// The greatest number of views of one call: more than programs ask for, few enough to list.
const MOST: usize = 1 << 16;

pub(super) const SPLIT_WITH_SIZES: Def = Def::new(
    "split_with_sizes",
    "views of a dimension in parts of given lengths",
    X,
    &[arg("split_sizes", "the lengths, which add up to that of the dimension").ints(), DIM],
    |call| {
        let sizes = required("split_sizes", call.attrs.ints("split_sizes")?)?;
        let (dim, length) = cut(call, "split_with_sizes")?;
        let lengths: Option<Vec<usize>> =
            sizes.iter().map(|&size| usize::try_from(size).ok()).collect();
        let total =
            |lengths: &Vec<usize>| lengths.iter().try_fold(0usize, |n, &k| n.checked_add(k));
        match lengths.filter(|lengths| !lengths.is_empty() && total(lengths) == Some(length)) {
            Some(lengths) => parts("split_with_sizes", call, dim, lengths),
            None => Err(refused(
                "split_with_sizes",
                format!("split_sizes: expected lengths that add up to {length}, got {sizes:?}"),
            )),
        }
    },
)
.complex()
.unsigned();

pub(super) const UNBIND: Def = Def::new(
    "unbind",
    "views of each element of a dimension, without that dimension",
    X,
    &[DIM],
    |call| {
        let (dim, length) = cut(call, "unbind")?;
        if length == 0 {
            return Err(refused("unbind", "expected a dimension with elements, got length 0"));
        }
        let mut signature = parts("unbind", call, dim, std::iter::repeat_n(1, length))?;
        for output in &mut signature.outputs {
            if let OutputSpec::View { layout, .. } = output {
                *layout = without(layout, dim)?;
            }
        }
        Ok(signature)
    },
)
.complex()
.unsigned();

/// Returns the dimension to split and its length.
fn cut(call: CallSpec<'_>, op: &str) -> Result<(usize, usize)> {
    let dim = dimension_of(call, op, call.attrs.int("dim")?.unwrap_or(0))?;
    Ok((dim, call.inputs[0].shape()[dim]))
}

fn equal_parts(
    op: &str,
    call: CallSpec<'_>,
    dim: usize,
    length: usize,
    size: usize,
) -> Result<Signature> {
    let starts = (0..length.max(1)).step_by(size);
    parts(op, call, dim, starts.map(|start| size.min(length - start)))
}

/// Returns views of these lengths, one after the other.
fn parts(
    op: &str,
    call: CallSpec<'_>,
    dim: usize,
    lengths: impl IntoIterator<Item = usize>,
) -> Result<Signature> {
    let mut start = 0;
    let view = |(number, length): (usize, usize)| {
        if number == MOST {
            let message =
                format!("expected at most {MOST} parts, got more for {}", call.inputs[0].brief());
            return Err(refused(op, message));
        }
        let layout = narrow(&call.inputs[0].layout, dim, start, length)?;
        start += length;
        Ok(OutputSpec::View { of: 0, layout, dtype: None })
    };
    Ok(Signature {
        accesses: SmallVec::from_iter([Access::Read]),
        outputs: lengths.into_iter().enumerate().map(view).collect::<Result<_>>()?,
        workspace: 0,
    })
}
