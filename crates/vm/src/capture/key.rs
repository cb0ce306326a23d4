//! What a capture depends on: two calls with equal keys make the same calls on the same layouts.

use millstream_runtime::engine::StreamOptions;
use millstream_runtime::engine::leases::Kind;
use millstream_types::text::print_attrs;
use millstream_types::{Attrs, DType, DeviceId, StreamKey};

use crate::gradient::autocast::current;

use crate::handle::Stream;
use crate::handle::global::Class;

use super::note::Place;

/// An input, or a gradient that the function finds, as a capture depends on it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct InputKey {
    dtype: DType,
    shape: Vec<usize>,
    strides: Vec<usize>,
    device: DeviceId,
    /// The first input in the same storage.
    shares: usize,
    /// The bytes from that input's first element to this one's.
    distance: i64,
    /// Whether tapes note the calls that depend on it.
    is_leaf: bool,
    /// The whole, if the input is global.
    class: Option<Class>,
}

impl InputKey {
    /// Returns the key of a place behind `earlier` ones.
    pub(super) fn new(place: &Place, earlier: &[Place]) -> InputKey {
        let begin = |p: &Place| (p.spec.layout.offset() * p.spec.dtype.size()) as i64;
        let first = earlier.iter().position(|p| p.storage == place.storage);
        let distance = first.map_or(0, |k| begin(place) - begin(&earlier[k]));
        InputKey {
            dtype: place.spec.dtype,
            shape: place.spec.shape().to_vec(),
            strides: place.spec.layout.strides().to_vec(),
            device: place.device.clone(),
            shares: first.unwrap_or(earlier.len()),
            distance,
            is_leaf: place.is_leaf,
            class: place.class.clone(),
        }
    }
}

/// What a capture depends on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Key {
    inputs: Vec<InputKey>,
    attrs: Attrs,
    /// The stream of calls that name none.
    stream: StreamKey,
    /// The options of that stream if it was created: then its number does not matter.
    created: Option<StreamOptions>,
    /// The dtype of the scope of autocast around the call.
    autocast: Option<DType>,
}

impl Key {
    /// Returns the key of a call.
    pub(super) fn new(inputs: &[Place], attrs: &Attrs, stream: &Stream) -> Key {
        let of = |k: usize| InputKey::new(&inputs[k], &inputs[..k]);
        let inputs = (0..inputs.len()).map(of).collect();
        let (mut key, created) = (stream.key.clone(), created_with(stream));
        if created.is_some() {
            key.index = 0;
        }
        Key { inputs, attrs: attrs.clone(), stream: key, created, autocast: current() }
    }

    /// Returns the key without the sizes of these dimensions of inputs, and without the strides of
    /// these inputs, which depend on them.
    pub(super) fn without_sizes(&self, dims: &[(usize, usize)]) -> Key {
        let mut key = self.clone();
        for &(input, dim) in dims {
            key.inputs[input].shape[dim] = usize::MAX;
            key.inputs[input].strides.clear();
        }
        key
    }

    /// Says what first differs from an earlier call's key.
    pub(super) fn difference(&self, before: &Key) -> String {
        if self.inputs.len() != before.inputs.len() {
            return format!("{} inputs instead of {}", self.inputs.len(), before.inputs.len());
        }
        for (k, (now, was)) in self.inputs.iter().zip(&before.inputs).enumerate() {
            if now.class != was.class {
                let name = |class: &Option<Class>| match class {
                    Some((spec, held)) => format!("{} held as {held}", spec.brief()),
                    None => "a tensor of this rank".to_owned(),
                };
                return format!("input {k}: {} instead of {}", name(&now.class), name(&was.class));
            }
            if now.dtype != was.dtype {
                return format!("input {k}: {} instead of {}", now.dtype, was.dtype);
            }
            if now.shape != was.shape {
                return format!("input {k}: shape {:?} instead of {:?}", now.shape, was.shape);
            }
            if now.strides != was.strides {
                let (now, was) = (&now.strides, &was.strides);
                return format!("input {k}: strides {now:?} instead of {was:?}");
            }
            if now.device != was.device {
                return format!("input {k}: on {} instead of {}", now.device, was.device);
            }
            if now.is_leaf != was.is_leaf {
                let word = if now.is_leaf { "with" } else { "without" };
                return format!("input {k}: {word} a gradient");
            }
            if (now.shares, now.distance) != (was.shares, was.distance) {
                return format!("input {k}: other memory in common with input {}", now.shares);
            }
        }
        if self.attrs != before.attrs {
            let mut text = String::from("arguments ");
            print_attrs(&self.attrs, ", ", &mut text);
            text.push_str(" instead of ");
            print_attrs(&before.attrs, ", ", &mut text);
            return text;
        }
        if self.autocast != before.autocast {
            let name = |scope: Option<DType>| scope.map_or("none", DType::name);
            return format!(
                "autocast {} instead of {}",
                name(self.autocast),
                name(before.autocast)
            );
        }
        if (&self.stream, self.created) == (&before.stream, before.created) {
            return "other gradients at its start".to_owned();
        }
        let name = |key: &Key| match key.created {
            Some(_) => format!("a created one of {}", key.stream.device),
            None => key.stream.to_string(),
        };
        format!("current stream {} instead of {}", name(self), name(before))
    }
}

/// Returns the options of a stream that was created; none for one that has a key.
pub(super) fn created_with(stream: &Stream) -> Option<StreamOptions> {
    stream.lease.as_ref()?;
    match stream.machine.shared.lock().ok()?.leases.kind(stream.id)? {
        Kind::Created(_, options) => Some(*options),
        Kind::Named(..) => None,
    }
}
