//! The arguments of the calls on the parts.

use std::ops::Range;

use millstream_types::{Attrs, Dims};

use super::Local;
use crate::random::{FIRST, WHOLE};

/// Returns the op of the call that a rank makes on its parts; the ways are those along all axes of
/// the mesh.
///
/// ```
/// use millstream_ops::sharding::{Local, local_op};
///
/// assert_eq!(local_op(&[&Local::Same, &Local::Drawn], "uniform"), "uniform");
/// ```
pub fn local_op<'a>(ways: &[&Local], op: &'a str) -> &'a str {
    let other = ways.iter().find_map(|local| match local {
        Local::MeanOf { op, .. } | Local::Op { op, .. } => Some(*op),
        _ => None,
    });
    other.unwrap_or(op)
}

/// Returns the arguments of the call of [`local_op`] that a rank makes on its parts.
///
/// `part` is the range of each dimension of the first result that the rank has, and `whole` is the
/// shape of that result.
///
/// ```
/// use millstream_ops::sharding::{Local, local_attrs};
/// use millstream_types::Attrs;
///
/// let attrs = Attrs::new().with("shape", vec![4i64, 6]).with("value", 1);
/// let local = local_attrs(&[&Local::Shape("shape")], &attrs, &[2..4, 0..6], &[4, 6]);
/// assert_eq!(local.ints("shape")?, Some(vec![2, 6]));
/// # Ok::<(), millstream_types::Error>(())
/// ```
pub fn local_attrs(
    ways: &[&Local],
    attrs: &Attrs,
    part: &[Range<usize>],
    whole: &[usize],
) -> Attrs {
    let others = ways.iter().find_map(|local| match local {
        Local::Args(attrs)
        | Local::Groups(attrs, _)
        | Local::MeanOf { attrs, .. }
        | Local::Op { attrs, .. } => Some(attrs),
        _ => None,
    });
    let mut made = others.unwrap_or(attrs).clone();
    let list = |numbers: &mut dyn Iterator<Item = usize>| -> Vec<i64> {
        numbers.map(|n| n as i64).collect()
    };
    let shape = || list(&mut part.iter().map(ExactSizeIterator::len));
    for local in ways {
        match **local {
            Local::Same
            | Local::Args(_)
            | Local::Op { .. }
            | Local::MeanOf { .. }
            | Local::Rows { .. } => {}
            Local::Shape(name) => {
                made.set(name, shape());
                set_strides(&mut made, attrs, part, whole);
            }
            Local::Groups(_, dim) => set_groups(&mut made, attrs, part, whole, dim),
            Local::Strides => set_strides(&mut made, attrs, part, whole),
            Local::Range => set_range(&mut made, attrs, &part[0]),
            Local::Length(name, dim) => made.set(name, part[dim].len() as i64),
            Local::Drawn => {
                if attrs.get("shape").is_some() {
                    made.set("shape", shape());
                }
                made.set(WHOLE, list(&mut whole.iter().copied()));
                made.set(FIRST, list(&mut part.iter().map(|range| range.start)));
            }
        }
    }
    made
}

/// Sets the number of a part's groups of channels. Those of all axes are one share of a dimension.
fn set_groups(made: &mut Attrs, attrs: &Attrs, part: &[Range<usize>], whole: &[usize], dim: usize) {
    if let (Ok(Some(groups)), Some(part), Some(whole)) =
        (attrs.int("groups"), part.get(dim), whole.get(dim))
    {
        made.set("groups", groups * part.len() as i64 / (*whole).max(1) as i64);
    }
}

/// Sets the strides of a part in the order of those of the dense whole, if they are given.
fn set_strides(made: &mut Attrs, attrs: &Attrs, part: &[Range<usize>], whole: &[usize]) {
    let Ok(Some(strides)) = attrs.ints("strides") else { return };
    let mut order: Dims = (0..strides.len()).collect();
    // Dimensions of length 1 have any stride; without elements, strides are row-major.
    match part.iter().any(Range::is_empty) {
        true => order.reverse(),
        false => order.sort_by_key(|dim| (strides[*dim], whole[*dim] != 1)),
    }
    let mut step = 1;
    let mut local = vec![0; strides.len()];
    for dim in order {
        local[dim] = step;
        step *= part[dim].len().max(1) as i64;
    }
    made.set("strides", local);
}

/// Sets the bounds of the numbers at these positions of a range of whole numbers.
fn set_range(made: &mut Attrs, attrs: &Attrs, part: &Range<usize>) {
    let number = |name, default| attrs.int(name).ok().flatten().unwrap_or(default);
    let (start, step) = (number("start", 0), number("step", 1));
    let at = |position: usize| start.wrapping_add(step.wrapping_mul(position as i64));
    made.set("start", at(part.start));
    made.set("end", at(part.end));
}
