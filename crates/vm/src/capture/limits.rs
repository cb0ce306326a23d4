//! The bounds of captures.

/// The bounds of the captures of a traced function.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let limits = CaptureLimits { entries: 4, ..CaptureLimits::default() };
/// let f = machine.traced(|inputs, _| Ok(vec![inputs[0].relu()?])).limits(limits);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureLimits {
    /// The most captures, one for each key of the function. The default is 16.
    pub entries: usize,
    /// The most bytes of private memory, of all executables together. The default is 1 GiB.
    pub bytes: u64,
}

impl Default for CaptureLimits {
    fn default() -> CaptureLimits {
        CaptureLimits { entries: 16, bytes: 1 << 30 }
    }
}
