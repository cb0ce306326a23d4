//! Lowers ops over lists of tensors: to one op for each tensor, and where these are elementwise, to
//! one call for all.

use super::{Made, Node, one};
use crate::et::args::NodeArgs;
use crate::et::import::{Lowered, Refusal, unsupported};
use crate::et::signature::{Signature, Ty};
use crate::et::value::Arg;

/// Ops over lists whose name differs from that of the op over one tensor.
const RENAMED: &[(&str, &str)] = &[("norm", "linalg_vector_norm")];

/// Lowers `_foreach_NAME`, or the step of an optimizer, which may lack lists.
pub(super) fn foreach(node: &mut Node<'_, '_>, name: &str) -> Lowered<Made> {
    let is_step = name.starts_with("_fused_");
    let given = node.given;
    let length = |arg: &Arg| match arg {
        Arg::List(list) if !(list.is_empty() && is_step) => Some(list.len()),
        _ => None,
    };
    let lists: Vec<usize> = given.args.iter().filter_map(length).collect();
    let Some(&count) = lists.first() else {
        return if is_step { Ok(Vec::new()) } else { Err(unsupported("no argument is a list")) };
    };
    if lists.iter().any(|length| *length != count) {
        return Err(Refusal::Wrong(format!("lists of different lengths: {lists:?}")));
    }
    let (plain, in_place) = match name.strip_suffix('_') {
        Some(plain) => (plain, "_"),
        None => (name, ""),
    };
    let by_number =
        given.signature.params.iter().any(|p| ["scalar", "scalars"].contains(&&*p.name));
    let plain = match plain {
        "maximum" if by_number => "clamp_min",
        "minimum" if by_number => "clamp_max",
        plain => RENAMED.iter().find(|(n, _)| *n == plain).map_or(plain, |(_, op)| *op),
    };
    let op = format!("{plain}{in_place}");
    let mut params = given.signature.params.clone();
    for param in &mut params {
        param.ty = match param.ty {
            Ty::Tensors => Ty::Tensor,
            Ty::Scalars => Ty::Scalar,
            other => other,
        };
        // Parameters of the op over one tensor have other names.
        let renamed = match (plain, param.name.as_str()) {
            ("add" | "sub" | "mul" | "div", "scalar" | "scalars" | "tensor") => "other",
            ("clamp_min", "scalar" | "scalars" | "other") => "min",
            ("clamp_max", "scalar" | "scalars" | "other") => "max",
            (_, "scalars") => "value",
            (_, other) => other,
        };
        param.name = renamed.to_owned();
    }
    let overload = given.signature.name.split_once('.').map_or("", |(_, overload)| overload);
    let overload = if overload == "List" { "Tensor" } else { overload };
    let name = format!("aten::{op}.{overload}");
    let signature = Signature { name, params, writes: given.signature.writes };
    let (mut made, from, mut ends) = (Vec::new(), node.import.position(), Vec::new());
    for k in 0..count {
        let of_one = |arg: &Arg| match arg {
            Arg::List(list) => list.get(k).cloned().unwrap_or(Arg::None),
            other => other.clone(),
        };
        let one_of: Vec<Arg> = given.args.iter().map(of_one).collect();
        let given = &NodeArgs { signature: &signature, args: one_of.into() };
        let import = &mut *node.import;
        made.extend(one(&mut Node { import, given, results: &[], out: None }, &op)?);
        ends.push(node.import.position());
    }
    node.import.merge_sets(from, &ends);
    // Variants in place return nothing.
    Ok(if in_place.is_empty() { made } else { Vec::new() })
}
