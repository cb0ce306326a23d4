//! Scalar formals of a list: the numbers that each launch gives, and the generators that they are
//! the state of.

use millstream_ops::Op;
use millstream_types::{AttrValue, Attrs, Error, Result, ScalarId, ScalarValue};

use crate::list::InstructionList;

/// A scalar formal: a number that each launch gives, for attributes of calls.
///
/// ```
/// # use millstream_instructions::*;
/// let list = text::parse_list("millstream-list 1\nscalar $0 \"seed0\" 7")?;
/// assert_eq!(list.scalars[0], ScalarDecl { name: "seed0".to_owned(), value: 7.into() });
/// # Ok::<(), text::TextError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalarDecl {
    /// The name by which a launch gives it.
    pub name: String,
    /// Its value in launches that have no other. All launches give numbers of its kind.
    pub value: ScalarValue,
}

/// Checks the scalars that a call of an op uses: each is declared, of the kind that the argument
/// takes.
///
/// # Errors
/// [`Error::Op`] with the argument.
pub fn check_uses(op: &dyn Op, attrs: &Attrs, declared: &[ScalarDecl]) -> Result<()> {
    let refused = |message: String| Err(Error::Op { op: op.name().to_owned(), message });
    for (name, value) in attrs.iter() {
        let AttrValue::Scalar(used) = value else { continue };
        let Some(ScalarDecl { name: scalar, value }) = declared.get(used.scalar.index()) else {
            return refused(format!(
                "{used} is a number of each launch of another list; expected a number, or a \
                 scalar or a draw of the list that makes the call"
            ));
        };
        let doc = op.attrs().iter().find(|doc| doc.name == name);
        if doc.is_some_and(|doc| doc.is_patchable && !doc.takes_scalar(*value)) {
            let kind = value.kind();
            return refused(format!(
                "{name}: the scalar {scalar:?} is {kind}, which this argument does not take"
            ));
        }
    }
    Ok(())
}

/// A generator of random numbers that a list draws from: two scalars, and the number of its draws.
/// The draw of number k is the one whose offset is that of the launch plus k.
///
/// ```
/// # use millstream_instructions::*;
/// # use millstream_types::ScalarId;
/// let list = text::parse_list(
///     "millstream-list 1
///      scalar $0 \"seed0\" 7
///      scalar $1 \"offset0\" 0
///      generator seed $0 offset $1 draws 2",
/// )?;
/// assert_eq!(list.generators[0].draws, 2);
/// # Ok::<(), text::TextError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeneratorDecl {
    /// The scalar of its seed.
    pub seed: ScalarId,
    /// The scalar of the offset of the launch's first draw.
    pub offset: ScalarId,
    /// How many offsets a launch takes.
    pub draws: u64,
}

impl InstructionList {
    /// Returns a launch's values for the scalars: `value` of each, by name; none if there are no
    /// scalars.
    ///
    /// ```
    /// # use millstream_instructions::*;
    /// let list = text::parse_list("millstream-list 1\nscalar $0 \"seed0\" 7")?;
    /// let given = list.given_scalars(|_, declared| declared.value.into());
    /// assert_eq!(given.unwrap().to_string(), "{seed0=7}");
    /// # Ok::<(), text::TextError>(())
    /// ```
    pub fn given_scalars(&self, value: impl Fn(usize, &ScalarDecl) -> AttrValue) -> Option<Attrs> {
        let mut given = Attrs::new();
        for (k, declared) in self.scalars.iter().enumerate() {
            given.set(declared.name.clone(), value(k, declared));
        }
        (!given.is_empty()).then_some(given)
    }

    /// Returns the generator whose offset is this scalar.
    ///
    /// ```
    /// # use millstream_instructions::*;
    /// # use millstream_types::ScalarId;
    /// let list = text::parse_list("millstream-list 1\nscalar $0 \"rate\" 7")?;
    /// assert_eq!(list.generator_of(ScalarId(0)), None);
    /// # Ok::<(), text::TextError>(())
    /// ```
    pub fn generator_of(&self, offset: ScalarId) -> Option<usize> {
        self.generators.iter().position(|generator| generator.offset == offset)
    }
}
