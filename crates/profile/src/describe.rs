//! What an instruction is called, and what a call asks beside its operands.

use std::borrow::Cow;

use millstream_instructions::{Body, InstructionList};
use millstream_ops::random::{OFFSET, SEED};
use millstream_types::text::print_attrs;
use millstream_types::{AttrValue, Attrs};

use crate::model::Role;

/// Returns the name and the role of an instruction.
pub(crate) fn describe(list: &InstructionList, body: &Body) -> (String, Role) {
    let kind = || body.kind().name().to_owned();
    match body {
        Body::OpCall { op, .. } => {
            let name = body.function_name().unwrap_or_else(|| list.ops.name(*op));
            (name.to_owned(), Role::Work)
        }
        Body::AccessBlobByCallback { .. } | Body::SyncRead { .. } => (kind(), Role::Work),
        Body::AllocateTensor { .. } => (kind(), Role::Allocate),
        Body::ViewTensor { .. } => (kind(), Role::View),
        Body::ReleaseTensor { .. } => (kind(), Role::Release),
        Body::TouchTensors { .. }
        | Body::CriticalSectionBegin { .. }
        | Body::CriticalSectionEnd { .. }
        | Body::SoftSyncStream { .. } => (kind(), Role::Order),
        Body::RecordEvent { .. } => (kind(), Role::Record),
        Body::StreamWaitEvent { .. } | Body::StreamWait { .. } => (kind(), Role::Wait),
        Body::Barrier { .. } | Body::GlobalSync { .. } => (kind(), Role::Fence),
        Body::HostObserved { .. } => (kind(), Role::Observe),
        Body::LazyJobLauncher { .. } => (kind(), Role::Launch),
    }
}

/// Returns the arguments of an op's call as text, without the seed and the offset of a draw; None
/// for what the host does.
pub(crate) fn arguments(body: &Body) -> Option<String> {
    let Body::OpCall { attrs, .. } = body else { return None };
    if body.function_name().is_some() {
        return None;
    }
    let mut text = String::new();
    if let Some(attrs) = attrs {
        let mut named = Cow::Borrowed(&**attrs);
        if attrs.get(SEED).is_some() {
            let rest = attrs.iter().filter(|(name, _)| ![SEED, OFFSET].contains(name));
            let with = |all: Attrs, (name, value): (&str, &_)| {
                all.with(name.to_owned(), AttrValue::clone(value))
            };
            named = Cow::Owned(rest.fold(Attrs::new(), with));
        }
        print_attrs(&named, ", ", &mut text);
    }
    Some(text)
}
