//! The scalars that calls use and launches give.

use millstream_instructions::{Body, InstructionList, ScalarDecl};
use millstream_types::{AttrValue, Attrs, ListId, ScalarValue};

/// Returns the scalars and the draws of generators that a call or a launch of a list uses and the
/// list does not declare.
pub(super) fn undeclared(list: &InstructionList, body: &Body, attrs: &Attrs) -> Vec<String> {
    let mut missing = Vec::new();
    for (name, value) in attrs.iter() {
        let AttrValue::Scalar(used) = value else { continue };
        if used.scalar.index() >= list.scalars.len() {
            missing.push(used.scalar.to_string());
        } else if let Some(number) = list.generator_of(used.scalar) {
            let declared = list.generators[number].draws;
            let draws = draws(list, body, name);
            let first = u64::try_from(used.plus).ok();
            let last = first.and_then(|first| first.checked_add(draws));
            if last.is_none_or(|last| last > declared) {
                let first = used.plus;
                missing.push(format!("draw {first} of generator {number}, which has {declared},"));
            }
        }
    }
    missing
}

/// Returns how many numbers are drawn from an offset: by a call one, by a launch those of the
/// executable's generator.
fn draws(list: &InstructionList, body: &Body, name: &str) -> u64 {
    let Body::LazyJobLauncher { list: launched, .. } = body else { return 1 };
    let Some(launched) = list.executables.get(launched.index()) else { return 1 };
    let mut generators = launched.generators.iter();
    let offset_of = |scalar: usize| launched.scalars.get(scalar).is_some_and(|s| s.name == name);
    generators.find(|g| offset_of(g.offset.index())).map_or(1, |generator| generator.draws)
}

/// Returns how the scalars that a launch gives differ from those that its executable takes.
/// `outer` are those of the list that launches it.
pub(super) fn wrong(
    list: ListId,
    executable: &InstructionList,
    given: Option<&Attrs>,
    outer: &[ScalarDecl],
) -> Option<String> {
    let none = Attrs::new();
    let given = given.unwrap_or(&none);
    let number = |value: &AttrValue| match value {
        AttrValue::Scalar(used) => outer.get(used.scalar.index()).map(|scalar| scalar.value),
        value => ScalarValue::of(value),
    };
    for ScalarDecl { name, value: declared } in &executable.scalars {
        match given.get(name) {
            Some(value) if number(value).is_some_and(|n| n.is_kind_of(*declared)) => {}
            Some(value) => {
                let kind = declared.kind();
                return Some(format!("{list} takes {kind} for {name:?}, {value} given"));
            }
            None => return Some(format!("{list} takes a scalar {name:?}, none given")),
        }
    }
    let mut names = given.iter().map(|(name, _)| name);
    let unknown = names.find(|name| executable.scalars.iter().all(|s| s.name != *name))?;
    Some(format!("{list} takes no scalar {unknown:?}"))
}
