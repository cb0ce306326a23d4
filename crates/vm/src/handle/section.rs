//! Critical sections.

use std::fmt;

use millstream_instructions::Outcome;
use millstream_instructions::builder::SectionId;
use millstream_runtime::engine::{Engine, Release};
use millstream_runtime::scope::origin;
use millstream_types::{Origin, Point, Result};

use crate::handle::machine::Machine;

use super::Completion;
use super::request::{self, Request, Sole, Verb};

/// An exclusive hold of tensors, which ends when it is dropped.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
/// let section = machine.critical_section(&[&x])?;
/// assert!(x.relu().is_err()); // the section holds x
/// let y = machine.call("relu", &[&x]).within(&section).run()?.remove(0);
/// section.end()?;
/// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
pub struct Section {
    machine: Machine,
    id: SectionId,
    origin: Origin,
    ended: bool,
}

impl Section {
    pub(crate) const fn new(machine: Machine, id: SectionId, origin: Origin) -> Section {
        Section { machine, id, origin, ended: false }
    }

    pub(crate) const fn machine(&self) -> &Machine {
        &self.machine
    }

    pub(crate) const fn id(&self) -> SectionId {
        self.id
    }

    /// Ends the hold.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let section = machine.critical_section(&[&x])?;
    /// section.end()?.wait()?;
    /// assert_eq!(x.relu()?.shape(), [2, 2]); // x is free again
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The machine has been shut down.
    #[track_caller]
    pub fn end(mut self) -> Result<Completion> {
        let point = self.end_at(&origin::caller())?;
        Ok(self.machine.completion_of(point))
    }

    fn end_at(&mut self, origin: &Origin) -> Result<Point> {
        self.ended = true;
        let (id, machine) = (self.id, &self.machine);
        let end = Request::new(Verb::EndSection { machine }, origin);
        let Sole(point) = request::submit(end, |_| {
            let ended = machine.shared.emit(origin, |e| {
                let Engine { builder, router, .. } = e;
                builder.end_critical_section(router, id, origin).map(Outcome::Done)
            });
            ended.map(Sole)
        })?;
        Ok(point)
    }
}

impl Drop for Section {
    /// Ends the hold with the next emission at the latest. Never blocks, and is allowed from within
    /// a kernel or callback.
    fn drop(&mut self) {
        if !self.ended {
            let origin = std::mem::take(&mut self.origin);
            self.machine.shared.release(Release::Section(self.id, origin));
        }
    }
}

impl fmt::Debug for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Section({})", self.origin)
    }
}
