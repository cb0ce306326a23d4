//! Work that fails as planned.

use std::any::Any;
use std::sync::Arc;

use anyhow::bail;

use crate::device::{Work, WorkResult};

use super::plan::Fault;
use super::state::FaultState;

/// Submitted work with its fault.
pub(super) struct FaultyWork<'a> {
    pub(super) work: &'a mut dyn Work,
    pub(super) fault: Option<Fault>,
    pub(super) device: &'a Arc<FaultState>,
}

/// The owned form of [`FaultyWork`], for devices that run work after `submit` has returned.
struct DetachedFaultyWork {
    work: Box<dyn Work>,
    fault: Option<Fault>,
    device: Arc<FaultState>,
}

fn run(
    device: &FaultState,
    fault: Option<Fault>,
    work: &mut dyn Work,
    native: &dyn Any,
) -> WorkResult {
    let Some(_running) = device.begin_work() else { bail!("{}", device.error("is lost")) };
    match fault {
        Some(Fault::WorkError) => bail!("the work fails (a planned fault)"),
        // Raised without the panic hook, which would print a message that looks like a defect.
        Some(Fault::WorkPanic) => {
            std::panic::resume_unwind(Box::new("the work panics (a planned fault)"))
        }
        Some(Fault::WorkErrorAfterRun) => {
            work.run(native)?;
            bail!("the work fails after it has run (a planned fault)")
        }
        _ => work.run(native),
    }
}

impl Work for FaultyWork<'_> {
    fn run(&mut self, native: &dyn Any) -> WorkResult {
        run(self.device, self.fault, self.work, native)
    }

    fn runs_on_host(&self) -> bool {
        self.work.runs_on_host()
    }

    fn detach(&mut self) -> Box<dyn Work> {
        let (fault, device) = (self.fault, self.device.clone());
        Box::new(DetachedFaultyWork { work: self.work.detach(), fault, device })
    }
}

impl Work for DetachedFaultyWork {
    fn run(&mut self, native: &dyn Any) -> WorkResult {
        run(&self.device, self.fault, &mut *self.work, native)
    }

    fn runs_on_host(&self) -> bool {
        self.work.runs_on_host()
    }

    fn detach(&mut self) -> Box<dyn Work> {
        let (fault, device) = (self.fault, self.device.clone());
        Box::new(DetachedFaultyWork { work: self.work.detach(), fault, device })
    }
}
