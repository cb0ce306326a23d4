//! The arguments of a call of a traced function.

use std::borrow::Cow;
use std::collections::BTreeMap;

use smallvec::SmallVec;

use millstream_types::{Attrs, ScalarId, ScalarUse, ScalarValue};

use crate::handle::Tensor;

use super::key::Key;

/// The arguments of a call.
#[derive(Debug)]
pub(super) struct Arguments {
    /// As a function that is captured gets them, and a key holds them: scalars without their
    /// numbers.
    pub(super) attrs: Attrs,
    /// The scalars, by number.
    pub(super) scalars: Vec<(String, ScalarValue)>,
    /// The dimensions whose size is symbolic: of the input of a number, the dimension of a number.
    pub(super) dims: SmallVec<[(usize, usize); 2]>,
}

impl Arguments {
    /// Adds scalars, in the order of their names, to other arguments.
    pub(super) fn new(
        mut attrs: Attrs,
        scalars: BTreeMap<Cow<'static, str>, f64>,
        dims: SmallVec<[(usize, usize); 2]>,
    ) -> Arguments {
        for (k, name) in scalars.keys().enumerate() {
            attrs.set(name.clone(), ScalarUse { scalar: ScalarId(k as u32), plus: 0 });
        }
        let scalars = scalars.into_iter().map(|(name, value)| (name.into_owned(), value.into()));
        Arguments { attrs, scalars: scalars.collect(), dims }
    }

    /// Returns the symbolic size of a call with these inputs, and its key without the size; none if
    /// it marks no dimension.
    pub(super) fn size(&self, inputs: &[Tensor], key: &Key) -> Option<(usize, Key)> {
        let (input, dim) = *self.dims.first()?;
        let size = *inputs.get(input)?.spec().shape().get(dim)?;
        Some((size, key.without_sizes(&self.dims)))
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
