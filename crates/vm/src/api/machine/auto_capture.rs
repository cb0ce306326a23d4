//! How calls reach automatic capture, and the capture of a traced function.

use std::sync::{Arc, Weak};

use millstream_instructions::{Outcome, Protection, TensorRef};
use millstream_types::{Origin, Result};

use crate::api::handle::Tensor;
use crate::capture::{self, Auto, AutoCaptureReport, CaptureLimits, Step};
use crate::emission::Emission;
use crate::emission::guard::EmissionGuard;

use super::Machine;

/// A machine's automatic capture, as its handles know it. It ends with the program's last
/// [`Machine`]: what it holds are handles, which must not keep it alive.
#[derive(Clone)]
pub(crate) enum AutoCapture {
    Off,
    Machine(Arc<Auto>),
    Handle(Weak<Auto>),
}

/// What is to be done about a step.
pub(crate) enum Begun {
    /// Nothing: these are its results.
    Known(Vec<Tensor>),
    /// It is to be made, and then told to [`Machine::end_step`].
    Make(Making),
}

/// What is to be done about a step with one result.
pub(crate) enum BegunOne {
    Known(Tensor),
    Make(Making),
}

/// A step that is being made.
pub(crate) enum Making {
    /// Nothing notes it.
    Plain,
    /// A traced function's session notes it.
    Traced,
    /// Automatic capture notes it, by this number.
    Auto(u64),
}

impl Machine {
    /// Returns the machine with automatic capture, if it orders what it runs by itself.
    pub(super) fn with_auto_capture(self, limits: CaptureLimits) -> Machine {
        if self.shared.protection != Protection::default() {
            return self;
        }
        let auto = Auto::new(self.clone(), limits);
        Machine { capture: AutoCapture::Machine(auto), ..self }
    }

    /// Returns the machine as a handle holds it.
    pub(crate) fn of_handle(&self) -> Machine {
        let capture = match &self.capture {
            AutoCapture::Off => AutoCapture::Off,
            AutoCapture::Machine(auto) => AutoCapture::Handle(Arc::downgrade(auto)),
            AutoCapture::Handle(auto) => AutoCapture::Handle(auto.clone()),
        };
        Machine { shared: self.shared.clone(), capture }
    }

    fn auto(&self) -> Option<Arc<Auto>> {
        match &self.capture {
            AutoCapture::Off => None,
            AutoCapture::Machine(auto) => Some(auto.clone()),
            AutoCapture::Handle(auto) => auto.upgrade(),
        }
    }

    /// Returns what automatic capture found and replayed so far; none if the machine has none.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// let machine = Machine::new(MachineConfig::default().auto_capture(true))?;
    /// let x = Tensor::ones(4, millstream_types::DType::F32, &machine)?;
    /// for _ in 0..100 {
    ///     x.mul(2.0)?.sum(..)?.item::<f32>()?;
    /// }
    /// println!("{}", machine.auto_capture_report().expect("it was asked for"));
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn auto_capture_report(&self) -> Option<AutoCaptureReport> {
        Some(self.auto()?.report())
    }

    /// Makes the calls that automatic capture holds.
    ///
    /// # Errors
    /// Why a call could not be made.
    pub(crate) fn end_sequence(&self) -> Result<()> {
        self.auto().map_or(Ok(()), |auto| auto.end_sequence())
    }

    /// Makes the calls that automatic capture holds, and gives up what it has captured.
    pub(super) fn end_auto_capture(&self) {
        if let Some(auto) = self.auto() {
            // The tensors hold the error.
            let _ = auto.end_sequence();
            auto.give_up_all();
        }
    }

    /// Emits an instruction that automatic capture does not hold.
    pub(crate) fn emit<T>(
        &self,
        origin: &Origin,
        emit: impl FnMut(&mut Emission) -> Result<Outcome<T>>,
    ) -> Result<T> {
        self.end_sequence()?;
        self.emit_step(origin, emit)
    }

    /// Emits a step. If there is no memory for it, automatic capture gives up its own.
    pub(crate) fn emit_step<T>(
        &self,
        origin: &Origin,
        mut emit: impl FnMut(&mut Emission) -> Result<Outcome<T>>,
    ) -> Result<T> {
        match self.shared.emit(origin, &mut emit) {
            Err(error)
                if capture::is_out_of_memory(&error)
                    && self.auto().is_some_and(|auto| auto.give_up_all()) =>
            {
                self.shared.emit(origin, emit)
            }
            result => result,
        }
    }

    /// Enters the emission, with all calls made that automatic capture held.
    pub(crate) fn lock(&self) -> Result<EmissionGuard<'_>> {
        self.end_sequence()?;
        self.shared.lock()
    }

    /// Asks the captures what is to be done about a step.
    ///
    /// # Errors
    /// A traced function makes another call than it did; or a call that was held cannot be made.
    pub(crate) fn begin_step(&self, step: &Step<'_>, origin: &Origin) -> Result<Begun> {
        let auto = self.auto();
        if capture::is_active() {
            if let Some(auto) = auto {
                auto.end_sequence()?;
            }
            let known = capture::replayed(self, step, origin)?;
            return Ok(known.map_or(Begun::Make(Making::Traced), Begun::Known));
        }
        let Some(auto) = auto else { return Ok(Begun::Make(Making::Plain)) };
        Ok(match auto.begin(step, origin)? {
            capture::Begun::Held(results) => Begun::Known(results),
            capture::Begun::Make(Some(number)) => Begun::Make(Making::Auto(number)),
            capture::Begun::Make(None) => Begun::Make(Making::Plain),
        })
    }

    /// As [`Machine::begin_step`], for a step with one result.
    pub(crate) fn begin_one(&self, step: &Step<'_>, origin: &Origin) -> Result<BegunOne> {
        Ok(match self.begin_step(step, origin)? {
            Begun::Make(making) => BegunOne::Make(making),
            Begun::Known(mut results) => match results.pop() {
                Some(tensor) => BegunOne::Known(tensor),
                None => BegunOne::Make(Making::Plain),
            },
        })
    }

    /// Tells the captures the results of a step.
    pub(crate) fn end_step(
        &self,
        making: Making,
        step: &Step<'_>,
        results: &[Tensor],
        origin: &Origin,
    ) {
        match making {
            Making::Plain => {}
            Making::Traced => capture::note(self, step, results, origin),
            Making::Auto(number) => {
                if let Some(auto) = self.auto() {
                    auto.end(number, step, results, origin);
                }
            }
        }
    }

    /// Tells automatic capture that a tensor ended.
    pub(crate) fn note_end(&self, tensor: TensorRef) {
        if let Some(auto) = self.auto() {
            auto.ended(tensor);
        }
    }
}
