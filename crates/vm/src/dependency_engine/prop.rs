//! Properties of functions.

use millstream_types::DeviceId;

/// The kind of a function, which determines its worker.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let engine = machine.dependency_engine()?;
/// # let a = engine.var()?;
/// engine.push(|| ()).writes(&[&a]).prop(Prop::Async).spawn()?; // on this thread
/// engine.wait_for(&a)?;
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Prop {
    /// The function runs on the workers of the engine.
    #[default]
    Normal,
    /// The function copies from this device: it runs in the order of the device's stream of copies
    /// to the host, on a thread of the host.
    CopyFromDevice(DeviceId),
    /// The function copies to this device: it runs in the order of the device's stream of copies
    /// from the host, on a thread of the host.
    CopyToDevice(DeviceId),
    /// The function is urgent: it runs on a worker of its own kind, which normal functions never
    /// occupy. If it uses a variable that a normal function wrote, it waits for the normal
    /// functions pushed up to that one.
    CpuPrioritized,
    /// The function returns at once: if nothing that it must come after is pending, the pushing
    /// thread runs it, before the push returns. Otherwise it is a normal function.
    Async,
}
