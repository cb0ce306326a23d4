//! Code of the program that panics: in each closure and trait that a machine takes, at each call
//! and in each drop. An error has the panic's message, nothing hangs or aborts, and the machine
//! goes on; after a panic of a backend's rare calls, every later use gets an error.
//!
//! | module | holds |
//! |---|---|
//! | `closures` | functions, callbacks, hooks and wakers |
//! | `traits` | ops, kernels, policies, backends and communicators |

mod closures;
mod traits;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc;
use std::time::Duration;

use millstream_types::{DType, DeviceId, Result};
use millstream_vm::{DriverKind, Machine, MachineConfig, Prop, Tensor, with_stream};

const DRIVERS: [DriverKind; 3] = [DriverKind::Threaded, DriverKind::Inline, DriverKind::Simulated];

/// Longer than any case takes: one that is not over by then hangs.
const LONG: Duration = Duration::from_secs(60);

/// Panics without a word of the panic hook.
fn spring(what: &str) -> ! {
    resume_unwind(Box::new(what.to_owned()))
}

/// A value whose drop panics.
struct Bomb(&'static str);

impl Drop for Bomb {
    fn drop(&mut self) {
        spring(self.0);
    }
}

/// Calls `work` for its error, or for the message of its panic.
fn told(work: impl FnOnce() -> Result<()>) -> String {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(outcome) => outcome.err().map_or_else(String::new, |error| error.to_string()),
        Err(payload) => *payload.downcast::<String>().unwrap(),
    }
}

/// Uses the host's streams and engine.
fn use_all(machine: &Machine) -> Result<()> {
    for k in 0..4 {
        let s = machine.compute(&DeviceId::cpu(0), k)?;
        let x = Tensor::ones(2, DType::F32, &s)?;
        assert_eq!(with_stream(&s, || x.add(1.0))?.to_vec::<f32>()?, [2.0; 2]);
    }
    let engine = machine.dependency_engine()?;
    for prop in [Prop::Normal, Prop::CpuPrioritized, Prop::CopyToDevice(DeviceId::cpu(0))] {
        let var = engine.var()?;
        engine.push(|| ()).writes(&[&var]).prop(prop).spawn()?;
        engine.wait_for(&var)?;
    }
    Ok(())
}

/// How a program ended, and what it left behind.
#[derive(Debug)]
struct Tried {
    /// Its error, the message of its panic, and all failures of the machine.
    told: String,
    /// The error of later uses of the machine; empty if it goes on.
    later: String,
}

/// Runs a program on a machine of its own, and drops the machine.
fn tried(
    case: &str,
    config: impl FnOnce() -> MachineConfig + Send + 'static,
    program: impl FnOnce(&Machine) -> Result<()> + Send + 'static,
) -> Tried {
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || {
        let (mut during, mut later) = (String::new(), String::new());
        let around = told(|| {
            let machine = Machine::new(config())?;
            during = told(|| program(&machine));
            later = told(|| use_all(&machine));
            for failure in machine.failures().0 {
                during += &format!("\n{failure}");
            }
            drop(machine);
            Ok(())
        });
        let _ = done.send(Tried { told: during + &around, later });
    });
    ended.recv_timeout(LONG).unwrap_or_else(|_| panic!("{case} hangs"))
}
