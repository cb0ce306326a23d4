//! Steps as numbers, for the search for repeats.

use std::hash::{DefaultHasher, Hash, Hasher};

use millstream_ops::collective;
use millstream_types::{AttrValue, Attrs, Origin};

use crate::api::handle::Tensor;
use crate::capture::note::Step;

/// The bit of tokens that occur once.
const UNIQUE: u64 = 1 << 63;

/// Returns a token that differs from all others, by its number.
pub(super) const fn unique(number: u64) -> u64 {
    number | UNIQUE
}

/// Returns the token of a step: equal for steps that ask for the same of tensors of equal specs, at
/// the same place of the program. None if a sequence cannot hold the step.
pub(super) fn token(step: &Step<'_>, origin: &Origin) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    match *step {
        // Other ranks wait for it.
        Step::Call { name, .. } if collective::is(name) => return None,
        Step::Call { name, inputs, out, attrs, stream, priority } => {
            name.hash(&mut hasher);
            tensors(inputs, &mut hasher);
            tensors(out.unwrap_or_default(), &mut hasher);
            attributes(attrs, &mut hasher);
            (stream.id, priority.0).hash(&mut hasher);
        }
        Step::Empty { spec, bytes, stream } => {
            (1_u8, spec, bytes, stream.id).hash(&mut hasher);
        }
        Step::View { of, spec } => (2_u8, of.spec(), spec).hash(&mut hasher),
        Step::Release { tensor } => (3_u8, tensor.spec()).hash(&mut hasher),
        Step::Upload { .. }
        | Step::Read { .. }
        | Step::RecordEvent { .. }
        | Step::WaitEvent { .. }
        | Step::WaitStream { .. }
        | Step::Barrier { .. }
        | Step::Touch { .. } => return None,
    }
    match origin {
        Origin::Unknown => {}
        Origin::Code(location) => (location.line(), location.column()).hash(&mut hasher),
        Origin::Trace(_, line) => line.hash(&mut hasher),
        Origin::Text(text) => text.hash(&mut hasher),
    }
    Some(hasher.finish() & !UNIQUE)
}

fn tensors(tensors: &[&Tensor], hasher: &mut DefaultHasher) {
    tensors.len().hash(hasher);
    for tensor in tensors {
        (tensor.spec(), tensor.device()).hash(hasher);
    }
}

fn attributes(attrs: &Attrs, hasher: &mut DefaultHasher) {
    for (name, value) in attrs.iter() {
        name.hash(hasher);
        std::mem::discriminant(value).hash(hasher);
        match value {
            AttrValue::Int(value) => value.hash(hasher),
            AttrValue::Float(value) => value.to_bits().hash(hasher),
            AttrValue::Bool(value) => value.hash(hasher),
            AttrValue::Str(value) => value.hash(hasher),
            AttrValue::Ints(values) => values.hash(hasher),
            AttrValue::Floats(values) => values.iter().for_each(|v| v.to_bits().hash(hasher)),
            AttrValue::DType(value) => value.hash(hasher),
            AttrValue::Scalar(value) => value.hash(hasher),
        }
    }
}
