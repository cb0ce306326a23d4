//! The arguments of a call of a traced function.

use std::borrow::Cow;
use std::collections::BTreeMap;

use millstream_types::{Attrs, ScalarId, ScalarUse, ScalarValue};

/// The arguments of a call.
#[derive(Debug)]
pub(super) struct Arguments {
    /// As a function that is captured gets them, and a key holds them: scalars without their
    /// numbers.
    pub(super) attrs: Attrs,
    /// The scalars, by number.
    pub(super) scalars: Vec<(String, ScalarValue)>,
}

impl Arguments {
    /// Adds scalars, in the order of their names, to other arguments.
    pub(super) fn new(mut attrs: Attrs, scalars: BTreeMap<Cow<'static, str>, f64>) -> Arguments {
        for (k, name) in scalars.keys().enumerate() {
            attrs.set(name.clone(), ScalarUse { scalar: ScalarId(k as u32), plus: 0 });
        }
        let scalars = scalars.into_iter().map(|(name, value)| (name.into_owned(), value.into()));
        Arguments { attrs, scalars: scalars.collect() }
    }

    /// Returns the numbers of the scalars.
    pub(super) fn values(&self) -> Vec<ScalarValue> {
        self.scalars.iter().map(|(_, value)| *value).collect()
    }

    /// Returns the arguments of a function that is not captured.
    pub(super) fn plain(&self) -> Attrs {
        self.attrs.with_scalars(|used| match self.scalars.get(used.scalar.index()) {
            Some((_, value)) => (*value).into(),
            None => used.into(),
        })
    }
}
