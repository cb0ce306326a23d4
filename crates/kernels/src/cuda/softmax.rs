//! Softmax, its logarithm, and their gradients.

use std::ffi::CString;
use std::sync::Arc;

use anyhow::{Context, Result};

use millstream_ops::args::dimension;
use millstream_types::DType;

use super::rows::{self, Dim, Rows, Taking};
use super::source::computed;
use super::{KIND, native};
use crate::context::KernelCtx;
use crate::registry::{Kernel, KernelRegistry};

/// An op: whether it is no gradient, what is summed along a row, and what is given.
struct Op {
    op: &'static str,
    forward: bool,
    summed: &'static str,
    given: &'static str,
}

const OPS: &[Op] = &[
    Op { op: "_softmax", forward: true, summed: "exp(v - most)", given: "exp(v - most) / total" },
    Op {
        op: "_log_softmax",
        forward: true,
        summed: "exp(v - most)",
        given: "v - most - logarithm",
    },
    Op {
        op: "_softmax_backward_data",
        forward: false,
        summed: "v * w",
        given: "v * w - w * total",
    },
    Op {
        op: "_log_softmax_backward_data",
        forward: false,
        summed: "v",
        given: "v - exp(w) * total",
    },
];

impl Op {
    fn name(&self, [x, y, out]: [DType; 3], taking: Taking) -> String {
        let op = self.op.trim_start_matches('_');
        taking.name(&format!("ms_{op}__{}_{}_{}", x.name(), y.name(), out.name()))
    }

    fn source(&self, dtypes: [DType; 3], taking: Taking) -> Result<CString> {
        let body =
            include_str!("softmax.cu").replace("FORWARD", if self.forward { "1" } else { "0" });
        let body = body.replace("SUMMED", self.summed).replace("GIVEN", self.given);
        rows::source(&self.name(dtypes, taking), computed(dtypes[1]), &dtypes, taking, &body)
    }
}

impl Kernel for &'static Op {
    fn run(&self, ctx: &KernelCtx<'_>) -> Result<()> {
        // Without a gradient, the result in the second place is x, which is not read there.
        let x = ctx.operand(0)?;
        let (y, out) = match self.forward {
            true => (x, ctx.operand(1)?),
            false => (ctx.operand(1)?, ctx.operand(2)?),
        };
        let dim = ctx.attrs().int("dim")?.context("dim: expected, and not given")?;
        let dim = dimension(dim, y.shape.len())?;
        let dims: Vec<Dim<3>> = (0..y.shape.len())
            .map(|k| Dim {
                length: y.shape[k],
                kept: k != dim,
                strides: [x.strides[k], y.strides[k], out.strides[k]],
            })
            .collect();
        let rows = Rows::new(&dims, [Some(&x), Some(&y), Some(&out)])?;
        let dtypes = [x.dtype, y.dtype, out.dtype];
        // Of a gradient's kernel two operands are read twice, which is too much to hold.
        let taking = rows.taking(self.forward);
        let name = self.name(dtypes, taking);
        // SAFETY: the kernel touches the elements of the operands alone, for which the context's maker
        // answers.
        unsafe { rows.launch(native(ctx)?, (&name, &name), || self.source(dtypes, taking)) }
    }
}

/// Adds the kernels.
pub(super) fn register(kernels: &mut KernelRegistry) {
    for op in OPS {
        kernels.register(KIND, op.op, Arc::new(op));
    }
}

/// Each in two dtypes, one by one and several at once.
pub(super) fn sources() -> Vec<(String, CString)> {
    let of = |op: &'static Op| {
        let held = if op.forward { 8 } else { 0 };
        let several = Taking { at_once: 4, held };
        let same = [DType::F32; 3];
        let all = [
            (same, Taking::SINGLY),
            (same, several),
            ([DType::F16, DType::F16, DType::F32], Taking::SINGLY),
            ([DType::BF16; 3], Taking { at_once: 8, held: 0 }),
        ];
        all.into_iter().filter_map(move |(dtypes, taking)| {
            Some((op.name(dtypes, taking), op.source(dtypes, taking).ok()?))
        })
    };
    OPS.iter().flat_map(of).collect()
}
