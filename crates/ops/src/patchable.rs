//! Arguments that each launch of a list gives, as schemas see them.

use millstream_types::{AttrValue, Attrs, Error, Result};

use crate::schema::{ArgDoc, Kind};

/// Returns the arguments with numbers in place of those that each launch gives; none if it gives
/// none. The float is one that every float dtype holds, and no integer.
///
/// # Errors
/// An argument that each launch gives is not patchable.
pub(crate) fn stand_in(docs: &[ArgDoc], attrs: &Attrs) -> Result<Option<Attrs>> {
    if attrs.scalars().next().is_none() {
        return Ok(None);
    }
    let mut stand_in = attrs.clone();
    for (name, value) in attrs.iter() {
        let AttrValue::Scalar(used) = value else { continue };
        let doc = docs.iter().find(|doc| doc.name == name && doc.is_patchable);
        let Some(doc) = doc else {
            let patchable = docs.iter().filter(|doc| doc.is_patchable).map(|doc| doc.name);
            let patchable: Vec<&str> = patchable.collect();
            let known = match patchable.is_empty() {
                true => "it has no patchable arguments".to_owned(),
                false => format!("its patchable arguments are {}", patchable.join(", ")),
            };
            let message = format!("{name}: {used} is a number of each launch; {known}");
            return Err(Error::Invalid { what: "argument", message });
        };
        let number = match doc.kind {
            Kind::Int => AttrValue::Int(used.plus),
            _ => AttrValue::Float(0.5),
        };
        stand_in.set(name.to_owned(), number);
    }
    Ok(Some(stand_in))
}
