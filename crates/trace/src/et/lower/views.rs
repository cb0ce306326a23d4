//! Lowers the ops that copy a view, such as `diagonal_copy`, or write to a copy through a view,
//! such as `diagonal_scatter`.

use millstream_ops::OutputSpec;
use millstream_types::{Layout, TensorSpec};

use super::{Made, Node};
use crate::et::import::{Import, Lowered, Val};

/// Lowers `VIEW_copy` to the view and contiguous copies of it; `None` if VIEW is no such op.
pub(super) fn copied_view(node: &mut Node<'_, '_>, view: &str) -> Lowered<Option<Made>> {
    if node.import.ops().find(view).is_none() {
        return Ok(None);
    }
    let converted = node.convert(view, &[])?;
    let inferred = node.import.infer(view, &converted.inputs, &converted.attrs)?;
    if !inferred.outputs.iter().all(|o| matches!(o, OutputSpec::View { .. })) {
        return Ok(None);
    }
    let views = node.import.call(view, &converted.inputs, converted.attrs)?;
    let copies = views.into_iter().map(|view| node.import.dense(view).map(Some));
    copies.collect::<Lowered<Made>>().map(Some)
}

/// Lowers `VIEW_scatter(self, src, …)`: a copy of `self` in which the view has the elements of
/// `src`.
pub(super) fn scattered_view(node: &mut Node<'_, '_>, view: &str) -> Lowered<Made> {
    let converted = node.convert(view, &["src"])?;
    let of = node.tensor("self")?;
    let src = node.tensor("src")?;
    let inferred = node.import.infer(view, &converted.inputs, &converted.attrs)?;
    let copy = match inferred.outputs.first() {
        Some(OutputSpec::View { layout, .. }) if view == "as_strided" => {
            copied(node.import, of, layout)?
        }
        _ => node.import.apply("clone", &[of])?,
    };
    let view = node.import.one(view, &[copy], converted.attrs)?;
    node.import.apply("copy_", &[view, src])?;
    Ok(vec![Some(copy)])
}

/// Copies a tensor for a view of its storage. Like PyTorch, copies the elements between those of a
/// tensor with gaps as well, since the view may refer to them.
fn copied(import: &mut Import<'_>, of: Val, view: &Layout) -> Lowered<Val> {
    let spec = import.spec(of).clone();
    let layout = &spec.layout;
    let repeats = layout.shape().iter().zip(layout.strides()).any(|(&n, &s)| n > 1 && s == 0);
    if repeats || layout.covers(layout.numel()) {
        return import.apply("clone", &[of]);
    }
    let span = layout.span().max(view.span());
    let whole = TensorSpec::contiguous(spec.dtype, &[span])?;
    let whole = import.view(of, &whole)?;
    let copy = import.apply("clone", &[whole])?;
    import.view(copy, &spec)
}
