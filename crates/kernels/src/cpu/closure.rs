//! The kernel of `closure`: it refuses, because the machine runs a function itself.

use anyhow::{Result, bail};
use millstream_ops::closure::{CLOSURE, NAME};
use millstream_types::AttrValue;

use super::Kernel;
use crate::context::KernelCtx;

pub(crate) const KERNELS: &[Kernel] = &[(CLOSURE, closure)];

fn closure(ctx: &KernelCtx<'_>) -> Result<()> {
    let name = match ctx.attrs().get(NAME) {
        Some(AttrValue::Str(name)) => name,
        _ => "it",
    };
    bail!("{name} is a function of the program that was recorded, which this run does not have")
}
