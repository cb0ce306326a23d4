//! Lowers the ops that copy a view, such as `diagonal_copy`, or write to a copy through a view,
//! such as `diagonal_scatter`.

use millstream_ops::OutputSpec;
use millstream_types::{Attrs, Layout, TensorSpec};

use super::{Made, one_call};
use crate::et::args::{self, NodeArgs};
use crate::et::import::{Import, Lowered, Val};
use crate::et::value::Recorded;

/// Lowers `VIEW_copy` to the view and contiguous copies of it; `None` if VIEW is no such op.
pub(super) fn copied_view(
    import: &mut Import<'_>,
    view: &str,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Option<Made>> {
    if import.ops().find(view).is_none() {
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
    let src = given.tensor(import, "src")?;
    let inferred = import.infer(view, &converted.inputs, &converted.attrs)?;
    let copy = match inferred.outputs.first() {
        Some(OutputSpec::View { layout, .. }) if view == "as_strided" => {
            copied(import, of, layout)?
        }
        _ => one_call(import, "clone", &[of], Attrs::new())?,
    };
    let view = one_call(import, view, &[copy], converted.attrs)?;
    import.call("copy_", &[view, src], Attrs::new())?;
    Ok(vec![Some(copy)])
}

/// Copies a tensor for a view of its storage. Like PyTorch, copies the elements between those of a
/// tensor with gaps as well, since the view may refer to them.
fn copied(import: &mut Import<'_>, of: Val, view: &Layout) -> Lowered<Val> {
    let spec = import.spec(of).clone();
    let layout = &spec.layout;
    let repeats = layout.shape().iter().zip(layout.strides()).any(|(&n, &s)| n > 1 && s == 0);
    if repeats || layout.covers(layout.numel()) {
        return one_call(import, "clone", &[of], Attrs::new());
    }
    let span = layout.span().max(view.span());
    let whole = TensorSpec::contiguous(spec.dtype, &[span]).map_err(|e| e.to_string())?;
    let whole = import.view(of, &whole)?;
    let copy = one_call(import, "clone", &[whole], Attrs::new())?;
    import.view(copy, &spec)
}
