//! Lowers the ops that copy a view, such as `diagonal_copy`, or write to a copy through a view,
//! such as `diagonal_scatter`.

use millstream_ops::OutputSpec;
use millstream_types::Attrs;

use super::{Made, one_call};
use crate::et::args::{self, NodeArgs};
use crate::et::import::{Import, Lowered, unsupported};
use crate::et::value::Recorded;

/// Lowers `VIEW_copy` to the view and contiguous copies of it; `None` if VIEW is no such op.
pub(super) fn copied_view(
    import: &mut Import<'_>,
    view: &str,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Option<Made>> {
    if import.ops().id(view).is_err() {
        return Ok(None);
    }
    let converted = args::convert(import, view, given, &[], results)?;
    let inferred = import.infer(view, &converted.inputs, &converted.attrs)?;
    if !inferred.outputs.iter().all(|o| matches!(o, OutputSpec::View { .. })) {
        return Ok(None);
    }
    let mut made = Vec::new();
    for view in import.call(view, &converted.inputs, converted.attrs)? {
        let attrs = Attrs::new().with("memory_format", "contiguous");
        made.push(Some(one_call(import, "clone", &[view], attrs)?));
    }
    Ok(Some(made))
}

/// Lowers `VIEW_scatter(self, src, …)`: a copy of `self` in which the view has the elements of
/// `src`.
pub(super) fn scattered_view(
    import: &mut Import<'_>,
    view: &str,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let converted = args::convert(import, view, given, &["src"], results)?;
    let of = given.tensor(import, "self")?;
    if view == "as_strided" && !import.spec(of).layout.covers(import.spec(of).numel()) {
        return Err(unsupported("a copy has other strides than the view refers to"));
    }
    let src = given.tensor(import, "src")?;
    let copy = one_call(import, "clone", &[of], Attrs::new())?;
    let view = one_call(import, view, &[copy], converted.attrs)?;
    import.call("copy_", &[view, src], Attrs::new())?;
    Ok(vec![Some(copy)])
}
