//! Softmax, log-softmax, and their gradients.

use std::ffi::CString;
use std::sync::Arc;

use anyhow::Result;

use millstream_types::DType;

use super::row_reduction::{self, RowAccess, RowArgs, RowDim};
use super::source::computed;
use super::{KIND, native};
use crate::context::KernelCtx;
use crate::data_movement::required_dim;
use crate::registry::{Kernel, KernelRegistry};

/// An op: whether it is a forward op, the term that is summed along a row, and the result.
struct Op {
    op: &'static str,
    forward: bool,
    term: &'static str,
    result: &'static str,
}

const OPS: &[Op] = &[
    Op { op: "_softmax", forward: true, term: "exp(v - greatest)", result: "term * by_total" },
    Op {
        op: "_log_softmax",
        forward: true,
        term: "exp(v - greatest)",
        result: "v - greatest - logarithm",
    },
    Op { op: "_softmax_backward_data", forward: false, term: "v * w", result: "v * w - w * total" },
    Op {
        op: "_log_softmax_backward_data",
        forward: false,
        term: "v",
        result: "v - exp(w) * total",
    },
];

impl Op {
    fn name(&self, [x, y, out]: [DType; 3], access: RowAccess) -> String {
        let op = self.op.trim_start_matches('_');
        access.name(&format!("ms_{op}__{}_{}_{}", x.name(), y.name(), out.name()))
    }

    fn source(&self, dtypes: [DType; 3], access: RowAccess) -> Result<CString> {
        let body =
            include_str!("softmax.cu").replace("FORWARD", if self.forward { "1" } else { "0" });
        let uses_term = if self.result.contains("term") { "1" } else { "0" };
        let body = body.replace("USES_TERM", uses_term).replace("TERM", self.term);
        let body = body.replace("RESULT", self.result);
        row_reduction::source(
            &self.name(dtypes, access),
            computed(dtypes[1]),
            &dtypes,
            access,
            &body,
        )
    }
}

impl Kernel for &'static Op {
    fn run(&self, ctx: &KernelCtx<'_>) -> Result<()> {
        // A forward op has no second input. Its kernel does not read that operand, so pass x.
        let x = ctx.operand(0)?;
        let (y, out) = match self.forward {
            true => (x, ctx.operand(1)?),
            false => (ctx.operand(1)?, ctx.operand(2)?),
        };
        let dim = required_dim(ctx, y.shape.len())?;
        let dims: Vec<RowDim<3>> = (0..y.shape.len())
            .map(|k| RowDim {
                length: y.shape[k],
                kept: k != dim,
                strides: [x.strides[k], y.strides[k], out.strides[k]],
            })
            .collect();
        let rows = RowArgs::new(&dims, [Some(&x), Some(&y), Some(&out)])?;
        let dtypes = [x.dtype, y.dtype, out.dtype];
        // The gradient reads two operands twice, which do not fit into registers.
        let access = rows.access(self.forward);
        let name = self.name(dtypes, access);
        // SAFETY: the kernel accesses only the operands, which `KernelCtx::new` promises to be
        // valid.
        unsafe { rows.launch(native(ctx)?, (&name, &name), || self.source(dtypes, access)) }
    }
}

/// Registers the kernels.
pub(super) fn register(kernels: &mut KernelRegistry) {
    for op in OPS {
        kernels.register(KIND, op.op, Arc::new(op));
    }
}

/// Returns sources of each op for several dtypes, with and without vector loads.
pub(super) fn sources() -> Vec<(String, CString)> {
    let of = |op: &'static Op| {
        let register_loads = if op.forward { 8 } else { 0 };
        let vectors = RowAccess { vector_width: 4, register_loads };
        let same = [DType::F32; 3];
        let all = [
            (same, RowAccess::SCALAR),
            (same, vectors),
            ([DType::F16, DType::F16, DType::F32], RowAccess::SCALAR),
            ([DType::BF16; 3], RowAccess { vector_width: 8, register_loads: 0 }),
        ];
        all.into_iter().filter_map(move |(dtypes, access)| {
            Some((op.name(dtypes, access), op.source(dtypes, access).ok()?))
        })
    };
    OPS.iter().flat_map(of).collect()
}
