//! Work that fails as planned.

use std::any::Any;
use std::ops::DerefMut;
use std::sync::Arc;

use anyhow::bail;

use crate::device::{Work, WorkResult};

use super::plan::Fault;
use super::state::FaultState;

/// Submitted work with its fault: borrowed, or owned by a device that runs it after `submit` has
/// returned.
pub(super) struct FaultyWork<W> {
    pub(super) work: W,
    pub(super) fault: Option<Fault>,
    pub(super) device: Arc<FaultState>,
}

fn run(
    device: &FaultState,
    fault: Option<Fault>,
    work: &mut (impl Work + ?Sized),
    native: &dyn Any,
) -> WorkResult {
    let Some(_running) = device.begin_work() else { bail!("{}", device.error("is lost")) };
    match fault {
        Some(Fault::WorkError) => bail!("the work fails (a planned fault)"),
        // `resume_unwind` does not call the panic hook, so a planned panic prints nothing.
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

impl<W: DerefMut<Target: Work> + Send> Work for FaultyWork<W> {
    fn run(&mut self, native: &dyn Any) -> WorkResult {
        run(&self.device, self.fault, &mut *self.work, native)
    }

    fn runs_on_host(&self) -> bool {
        self.work.runs_on_host()
    }

    fn detach(&mut self) -> Box<dyn Work> {
        let (fault, device) = (self.fault, self.device.clone());
        Box::new(FaultyWork { work: self.work.detach(), fault, device })
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use millstream_types::DeviceId;

    use super::*;
    use crate::faults::FaultPlan;
    use millstream_types::catch_panic;

    struct Nothing;

    impl Work for Nothing {
        fn run(&mut self, _: &dyn Any) -> WorkResult {
            Ok(())
        }

        fn detach(&mut self) -> Box<dyn Work> {
            Box::new(Nothing)
        }
    }

    #[test]
    fn work_panics_as_planned() {
        let device = FaultState::new(DeviceId::cpu(0), FaultPlan::new(), false);
        let panicked = catch_panic(|| run(&device, Some(Fault::WorkPanic), &mut Nothing, &()));
        assert!(panicked.unwrap_err().to_string().contains("a planned fault"));
    }

    #[test]
    fn a_planned_panic_prints_nothing() {
        let tests = std::env::current_exe().unwrap();
        let planned = "faults::work::tests::work_panics_as_planned";
        let mut command = Command::new(tests);
        let command = command.args(["--exact", planned, "--nocapture"]).env("RUST_BACKTRACE", "1");
        let output = command.output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }
}
