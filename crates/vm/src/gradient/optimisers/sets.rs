//! The steps of many parameters as few calls.

use std::ops::Range;

use millstream_ops::multi_tensor::{COLUMNS, MULTI_TENSOR, SETS, UNLESS};
use millstream_types::{Attrs, Error, Result};

use crate::handle::Tensor;
use crate::tensor::call_op;

/// The tensors of a parameter that a program uses: the parameter, its gradient, its state.
pub(super) type Set = Vec<Tensor>;

/// A tensor's place: its storage, its bytes there, and whether a program changes it. A tensor of a
/// recording has no storage yet, and counts as one of its own: the call checks its addresses.
type Place = ((bool, u64), Range<usize>, bool);

/// Runs a program for each set. The sets of a device are one call, but where a tensor of one is
/// changed and shares bytes with one of another: then the later set is in a later call. `changed`
/// are the columns that the program changes, and `shared` makes the tensors beside a parameter that
/// follow those of the sets.
///
/// # Errors
/// A call is refused.
pub(super) fn run(
    program: &str,
    changed: &[usize],
    sets: &[Set],
    shared: impl Fn(&Tensor) -> Result<Vec<Tensor>>,
    unless: Option<&Tensor>,
) -> Result<()> {
    let mut groups: Vec<(Vec<&Set>, Vec<Place>)> = Vec::new();
    for set in sets {
        let own = places(set, changed);
        let fits = |(group, taken): &&mut (Vec<&Set>, Vec<Place>)| {
            group[0][0].device() == set[0].device() && are_apart(&own, taken)
        };
        match groups.iter_mut().find(fits) {
            Some((group, taken)) => {
                group.push(set);
                taken.extend(own);
            }
            None => groups.push((vec![set], own)),
        }
    }
    for (group, _) in groups {
        let (lead, columns) = (&group[0][0], group[0].len());
        let shared = shared(lead)?;
        let tensors = group.iter().copied().flatten().chain(&shared).chain(unless);
        let tensors: Vec<&Tensor> = tensors.collect();
        let mut attrs = Attrs::new().with("program", program);
        attrs.set(COLUMNS, columns as i64);
        attrs.set(SETS, group.len() as i64);
        if unless.is_some() {
            attrs.set(UNLESS, (columns + shared.len()) as i64);
        }
        call_op(MULTI_TENSOR, &tensors, attrs)?;
    }
    Ok(())
}

fn places(set: &[Tensor], changed: &[usize]) -> Vec<Place> {
    let place = |(k, tensor): (usize, &Tensor)| {
        let spec = tensor.spec();
        let from = spec.layout.offset() * spec.dtype.size();
        let storage = match tensor.storage_number() {
            Some(number) => (true, number),
            None => (false, tensor.address() as u64),
        };
        (storage, from..spec.span_bytes(), changed.contains(&k))
    };
    set.iter().enumerate().map(place).collect()
}

/// Returns whether no tensor that is changed shares bytes with one of the others.
fn are_apart(own: &[Place], others: &[Place]) -> bool {
    let overlap = |(storage, bytes, is_changed): &Place, other: &Place| {
        (*is_changed || other.2)
            && *storage == other.0
            && bytes.start < other.1.end
            && other.1.start < bytes.end
    };
    !own.iter().any(|place| others.iter().any(|other| overlap(place, other)))
}

/// Returns the number by which a step is left out, as parts need it: of a global one this rank's
/// part. A rank outside of its mesh has none, and no parts.
///
/// # Errors
/// A global number is not whole on every rank.
pub(super) fn own_unless(unless: Option<&Tensor>) -> Result<Option<Tensor>> {
    let Some(unless) = unless else { return Ok(None) };
    match unless.global() {
        None => Ok(Some(unless.clone())),
        Some(global) if global.sharding.is_broadcast() => Ok(global.local.clone()),
        Some(global) => {
            let message = format!(
                "`unless` is held as {}; ranks would take different steps: redistribute it to B",
                global.sharding
            );
            Err(Error::Invalid { what: "setting", message })
        }
    }
}

/// A parameter as a step changes it: of a global one this rank's part.
pub(super) struct Owned {
    /// Its position among the parameters.
    pub(super) position: usize,
    pub(super) parameter: Tensor,
    /// A copy if it lies in the parameter itself, which changes.
    pub(super) gradient: Tensor,
}

/// Returns the parameters with a gradient. A rank outside of the mesh of a global parameter has
/// none of it.
///
/// # Errors
/// A global parameter or its gradient is partial, or a gradient is held otherwise than its
/// parameter; a call is refused.
pub(super) fn owned(parameters: &[&Tensor]) -> Result<Vec<Owned>> {
    let mut all = Vec::new();
    for (position, &parameter) in parameters.iter().enumerate() {
        let Some(gradient) = parameter.grad() else { continue };
        let (parameter, gradient) = match (parameter.global(), gradient.global()) {
            (None, None) => (parameter.clone(), gradient),
            (Some(own), Some(of)) if own.sharding == of.sharding && !own.sharding.is_partial() => {
                let (Some(own), Some(of)) = (&own.local, &of.local) else { continue };
                (own.clone(), of.clone())
            }
            _ => {
                let held = |tensor: &Tensor| match tensor.sharding() {
                    Some(sharding) => format!("{sharding:?}"),
                    None => "by this rank".to_owned(),
                };
                let message = format!(
                    "{} is held {}, and its gradient {}; a step changes parts, so both are held \
                     alike, and neither is partial",
                    parameter.spec().brief(),
                    held(parameter),
                    held(&gradient)
                );
                return Err(Error::Invalid { what: "parameter", message });
            }
        };
        let places = |tensor: &Tensor| places(std::slice::from_ref(tensor), &[0]);
        let gradient = match are_apart(&places(&parameter), &places(&gradient)) {
            true => gradient,
            false => gradient.copy()?,
        };
        all.push(Owned { position, parameter, gradient });
    }
    Ok(all)
}
