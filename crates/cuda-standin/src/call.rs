//! The encoding of a call of a host kernel as the arguments of a CUDA kernel, so that a launch
//! carries everything that the host kernel needs.
//!
//! The CUDA kernel has two arguments: the number of bytes, and the bytes.

use anyhow::{Context, Result, bail, ensure};

use millstream_kernels::KernelCtx;
use millstream_types::layout::numel;
use millstream_types::{AttrValue, Attrs, DType};

/// An operand, by its address.
pub(crate) struct Operand {
    pub(crate) address: u64,
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    pub(crate) strides: Vec<usize>,
}

/// A decoded call.
pub(crate) struct Call {
    pub(crate) operands: Vec<Operand>,
    pub(crate) attrs: Attrs,
    pub(crate) workspace: (u64, u64),
}

impl Operand {
    /// Returns the bytes from the first element to the end of the last.
    pub(crate) fn span(&self) -> u64 {
        if numel(&self.shape) == 0 {
            return 0;
        }
        let last: usize = self.shape.iter().zip(&self.strides).map(|(&d, &s)| (d - 1) * s).sum();
        ((last + 1) * self.dtype.size()) as u64
    }
}

/// Encodes a call.
///
/// # Errors
/// The schema and the kernel disagree about the operands; or the call is captured in a graph, and
/// each launch gives some of its arguments.
pub fn encode(ctx: &KernelCtx<'_>) -> Result<Vec<u8>> {
    let given = ctx.attrs().scalars().next();
    ensure!(given.is_none(), "a kernel of the host cannot read the numbers of a graph's launches");
    let mut to = Vec::new();
    number(&mut to, ctx.operands() as u64);
    for k in 0..ctx.operands() {
        let operand = ctx.operand(k)?;
        number(&mut to, operand.data.addr() as u64);
        text(&mut to, operand.dtype.name());
        numbers(&mut to, operand.shape.iter().map(|&d| d as u64));
        numbers(&mut to, operand.strides.iter().map(|&s| s as u64));
    }
    let (workspace, bytes) = ctx.workspace();
    number(&mut to, workspace.addr() as u64);
    number(&mut to, bytes as u64);
    let attrs: Vec<_> = ctx.attrs().iter().collect();
    number(&mut to, attrs.len() as u64);
    for (name, value) in attrs {
        text(&mut to, name);
        attr(&mut to, value);
    }
    Ok(to)
}

fn number(to: &mut Vec<u8>, value: u64) {
    to.extend(value.to_ne_bytes());
}

fn numbers(to: &mut Vec<u8>, values: impl ExactSizeIterator<Item = u64>) {
    number(to, values.len() as u64);
    values.for_each(|value| number(to, value));
}

fn text(to: &mut Vec<u8>, text: &str) {
    number(to, text.len() as u64);
    to.extend(text.bytes());
}

fn attr(to: &mut Vec<u8>, value: &AttrValue) {
    let tag = |to: &mut Vec<u8>, tag| number(to, tag);
    match value {
        AttrValue::Int(v) => (tag(to, 0), number(to, *v as u64)).1,
        AttrValue::Float(v) => (tag(to, 1), number(to, v.to_bits())).1,
        AttrValue::Bool(v) => (tag(to, 2), number(to, u64::from(*v))).1,
        AttrValue::Str(v) => (tag(to, 3), text(to, v)).1,
        AttrValue::Ints(v) => (tag(to, 4), numbers(to, v.iter().map(|&x| x as u64))).1,
        AttrValue::Floats(v) => (tag(to, 5), numbers(to, v.iter().map(|x| x.to_bits()))).1,
        AttrValue::DType(v) => (tag(to, 6), text(to, v.name())).1,
        // `encode` refuses it.
        AttrValue::Scalar(_) => {}
    }
}

/// Decodes a call.
///
/// # Errors
/// The bytes are not an encoded call.
pub(crate) fn decode(bytes: &[u8]) -> Result<Call> {
    let mut from = Reader(bytes);
    let mut operands = Vec::new();
    for _ in 0..from.number()? {
        operands.push(Operand {
            address: from.number()?,
            dtype: from.text()?.parse()?,
            shape: from.numbers()?.into_iter().map(|d| d as usize).collect(),
            strides: from.numbers()?.into_iter().map(|s| s as usize).collect(),
        });
    }
    let workspace = (from.number()?, from.number()?);
    let mut attrs = Attrs::new();
    for _ in 0..from.number()? {
        let name = from.text()?;
        let value = from.attr()?;
        attrs.set(name, value);
    }
    ensure!(from.0.is_empty(), "{} bytes too many", from.0.len());
    Ok(Call { operands, attrs, workspace })
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn number(&mut self) -> Result<u64> {
        let (number, rest) = self.0.split_first_chunk().context("the bytes end too soon")?;
        self.0 = rest;
        Ok(u64::from_ne_bytes(*number))
    }

    fn numbers(&mut self) -> Result<Vec<u64>> {
        (0..self.number()?).map(|_| self.number()).collect()
    }

    fn text(&mut self) -> Result<String> {
        let length = self.number()? as usize;
        let (text, rest) = self.0.split_at_checked(length).context("the bytes end too soon")?;
        self.0 = rest;
        Ok(std::str::from_utf8(text)?.to_owned())
    }

    fn attr(&mut self) -> Result<AttrValue> {
        Ok(match self.number()? {
            0 => AttrValue::Int(self.number()? as i64),
            1 => AttrValue::Float(f64::from_bits(self.number()?)),
            2 => AttrValue::Bool(self.number()? != 0),
            3 => AttrValue::Str(self.text()?),
            4 => AttrValue::Ints(self.numbers()?.into_iter().map(|v| v as i64).collect()),
            5 => AttrValue::Floats(self.numbers()?.into_iter().map(f64::from_bits).collect()),
            6 => AttrValue::DType(self.text()?.parse()?),
            other => bail!("{other} is not a tag of an argument"),
        })
    }
}
