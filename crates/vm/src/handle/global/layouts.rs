//! How the ranks of a mesh hold the tensors of a function, call by call.

use std::fmt;

use millstream_types::{Origin, Sharding};

/// How the ranks hold the tensors of a function that is compiled for a mesh, and what each call
/// has them exchange. The text has a line for each call:
///
/// ```text
/// matmul(f32[8,16] S0, f32[16,4] S0 → B) = f32[8,4] S0  256 B
/// ```
///
/// ```
/// # use millstream_vm::*;
/// # use millstream_types::{Mesh, sbp::B};
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let mesh = Mesh::new([0])?;
/// # let w = Tensor::from_slice_global(&[1.0f32, 2.0], 2, &machine, &mesh, [B])?;
/// let f = machine.shard(&mesh, |_| Ok(vec![w.neg()?])).compile()?;
/// let layouts: &Layouts = f.layouts();
/// assert_eq!(layouts.calls[0].to_string(), "neg(f32[2] B) = f32[2] B  on every rank");
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Layouts {
    /// The inputs.
    pub inputs: Vec<(String, Sharding)>,
    /// The calls, in order.
    pub calls: Vec<CallLayout>,
    /// The outputs.
    pub outputs: Vec<(String, Sharding)>,
    /// The bytes that all ranks receive, those for outputs included. What a tape exchanges for
    /// gradients is not counted.
    pub received: u64,
}

/// How one call is divided.
///
/// ```
/// # use millstream_vm::*;
/// # use millstream_types::{Mesh, sbp::B};
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let mesh = Mesh::new([0])?;
/// # let w = Tensor::from_slice_global(&[1.0f32, 2.0], 2, &machine, &mesh, [B])?;
/// # let f = machine.shard(&mesh, |_| Ok(vec![w.neg()?])).compile()?;
/// let call: &CallLayout = &f.layouts().calls[0];
/// assert_eq!((&*call.op, call.received), ("neg", 0));
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CallLayout {
    /// The op.
    pub op: String,
    /// The operands: dtype and shape, the sharding, and the one that the call takes.
    pub operands: Vec<(String, Sharding, Sharding)>,
    /// The results: dtype and shape, and the sharding.
    pub results: Vec<(String, Sharding)>,
    /// The bytes that all ranks receive for the operands.
    pub received: u64,
    /// Whether ranks do different work; otherwise all make the whole call.
    pub is_divided: bool,
    /// The place of the call.
    pub origin: Origin,
}

impl fmt::Display for CallLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.op)?;
        for (k, (brief, own, taken)) in self.operands.iter().enumerate() {
            let comma = if k > 0 { ", " } else { "" };
            match own == taken {
                true => write!(f, "{comma}{brief} {own}")?,
                false => write!(f, "{comma}{brief} {own} → {taken}")?,
            }
        }
        let results = self.results.iter().map(|(brief, held)| format!("{brief} {held}"));
        write!(f, ") = {}", results.collect::<Vec<_>>().join(", "))?;
        if !self.is_divided {
            f.write_str("  on every rank")?;
        }
        match self.received {
            0 => Ok(()),
            bytes => write!(f, "  {bytes} B"),
        }
    }
}

impl fmt::Display for Layouts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (k, (brief, held)) in self.inputs.iter().enumerate() {
            writeln!(f, "input {k}: {brief} {held}")?;
        }
        for call in &self.calls {
            writeln!(f, "{call}")?;
        }
        for (k, (brief, held)) in self.outputs.iter().enumerate() {
            writeln!(f, "output {k}: {brief} {held}")?;
        }
        write!(f, "{} B received by all ranks", self.received)
    }
}
