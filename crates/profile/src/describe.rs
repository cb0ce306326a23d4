//! What an instruction is called, and what a call asks beside its operands.

use std::borrow::Cow;

use millstream_instructions::{Body, Class, InstructionList};
use millstream_ops::random::{OFFSET, SEED};
use millstream_types::text::print_attrs;
use millstream_types::{AttrValue, Attrs};

use crate::model::Role;

/// Returns the name and the role of an instruction.
pub(crate) fn describe(list: &InstructionList, body: &Body) -> (String, Role) {
    let role = match body.class() {
        Class::Computes if body.list().is_some() => Role::Launch,
        Class::Computes => Role::Work,
        Class::Begins if body.view_of().is_some() => Role::View,
        Class::Begins => Role::Allocate,
        Class::Ends => Role::Release,
        Class::Orders | Class::Annotates => Role::Order,
        Class::Records => Role::Record,
        Class::Waits => Role::Wait,
        Class::Fences => Role::Fence,
        Class::Observes => Role::Observe,
    };
    (list.name_of(body).to_owned(), role)
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
