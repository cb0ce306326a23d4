//! How a push uses variables.

use std::borrow::Cow;

use smallvec::SmallVec;

use millstream_instructions::{Priority, TensorRef};
use millstream_types::{Access, Error, Result};

use crate::engine::closure_calls::ClosureForm;

/// The variables of a push, each once, with its use.
#[derive(Clone, Debug)]
pub struct Uses {
    all: SmallVec<[(TensorRef, Access); 4]>,
    /// Whether no variable stands for a tensor.
    pub are_plain: bool,
    /// Whether a variable is another machine's.
    is_foreign: bool,
}

impl Default for Uses {
    fn default() -> Uses {
        Uses { all: SmallVec::new(), are_plain: true, is_foreign: false }
    }
}

/// The order of accesses among the operands of `closure`.
const ORDER: [Access; 3] = [Access::Read, Access::ReadWrite, Access::Write];

impl Uses {
    /// Adds a use of a variable. A variable that is used in two ways is read and written.
    pub fn add(&mut self, slot: TensorRef, access: Access, is_plain: bool, is_own: bool) {
        self.are_plain &= is_plain;
        self.is_foreign |= !is_own;
        match self.all.iter_mut().find(|(known, _)| *known == slot) {
            Some((_, used)) if *used == access => {}
            Some((_, used)) => *used = Access::ReadWrite,
            None => self.all.push((slot, access)),
        }
    }

    /// Adds the uses of a function that runs after this one, as a part of the same push. What the
    /// first overwrites, the second may read.
    pub fn then(&mut self, later: &Uses) {
        self.are_plain &= later.are_plain;
        self.is_foreign |= later.is_foreign;
        for &(slot, access) in &later.all {
            match self.all.iter_mut().find(|(known, _)| *known == slot) {
                Some((_, used)) if *used == Access::Read && access.writes() => {
                    *used = Access::ReadWrite;
                }
                Some(_) => {}
                None => self.all.push((slot, access)),
            }
        }
    }

    /// Checks that the variables are those of the machine.
    pub fn check(&self) -> Result<()> {
        match self.is_foreign {
            true => Err(Error::Foreign { what: "a variable".to_owned() }),
            false => Ok(()),
        }
    }

    /// Returns the form of the push's call, and its operands in order.
    #[inline]
    pub fn form(
        &self,
        priority: Priority,
        name: Option<Cow<'static, str>>,
    ) -> (ClosureForm, SmallVec<[TensorRef; 4]>) {
        let mut operands = SmallVec::new();
        let mut counts = [0; 3];
        for (count, wanted) in counts.iter_mut().zip(ORDER) {
            // A loop, as extending a short list costs more.
            for &(slot, access) in &self.all {
                if access == wanted {
                    operands.push(slot);
                }
            }
            *count = operands.len() as u32;
        }
        let [reads, written, all] = counts;
        let (writes, overwrites) = (written - reads, all - written);
        (ClosureForm { reads, writes, overwrites, priority, name }, operands)
    }

    /// Returns the uses.
    pub fn iter(&self) -> impl Iterator<Item = (TensorRef, Access)> + '_ {
        self.all.iter().copied()
    }
}
