//! The kinds of drivers.

/// The driver that runs a machine's instructions.
///
/// ```
/// # use millstream_vm::*;
/// // Every call has completed when it returns, in the order of the program.
/// let machine = Machine::new(MachineConfig::default().driver(DriverKind::Inline))?;
/// let x = Tensor::arange(0..3, &machine)?;
/// assert!(x.completion()?.query());
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DriverKind {
    /// ThreadCtx threads.
    #[default]
    Threaded,
    /// The caller's thread, in program order: the reference for the others.
    Inline,
    /// The caller's thread, in an order of steps that a seed chooses: every order that threads and
    /// devices might produce, repeated exactly. For programs that submit and wait on one thread.
    Simulated,
    /// None: calls are checked and can be listed, and no device, thread or memory is used. Each
    /// instruction counts as completed when it is emitted. Tensors have no elements; they begin
    /// with `Machine::declare`.
    Check,
}
