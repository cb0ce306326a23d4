//! The time of each op's kernel on all its reference cases, one after another:
//! `cargo bench -p millstream-kernels --bench ops [NAME]`. The cases are small, so what a call
//! costs beside its elements shows, in all layouts and dtypes.
#![allow(missing_docs, reason = "a benchmark has no readers of its items")]

use std::collections::BTreeSet;

use divan::{Bencher, black_box};
use millstream_ops::{OutputSpec, Signature};
use millstream_testing::kernels::reference::{Call, calls};
use millstream_testing::kernels::{Tensor, signature, try_launch};
use millstream_types::{DType, TensorSpec};

fn main() {
    divan::main();
}

/// Returns the call's signature, and its operands with memory for the results.
fn prepared(call: &Call) -> (Signature, Vec<Tensor>) {
    let given: Vec<&Tensor> = call.inputs.iter().collect();
    let signature = signature(&call.op, &given, &call.attrs).expect("a case of the op");
    let count = TensorSpec::contiguous(DType::I64, &[]).expect("a shape");
    let mut operands = call.inputs.clone();
    for output in &signature.outputs {
        let specs = match output {
            OutputSpec::Fresh(spec) => vec![spec],
            OutputSpec::Bounded(spec) => vec![spec, &count],
            OutputSpec::View { .. } | OutputSpec::Same(_) => Vec::new(),
        };
        let fresh = |spec: &TensorSpec| Tensor::unwritten(spec.dtype, spec.layout.clone());
        operands.extend(specs.into_iter().map(fresh));
    }
    (signature, operands)
}

fn ops() -> BTreeSet<&'static str> {
    let computes = |call: &Call| !prepared(call).0.is_view();
    calls().into_iter().filter(computes).map(|call| &*call.op.leak()).collect()
}

#[divan::bench(args = ops())]
fn cases(bencher: Bencher<'_, '_>, op: &str) {
    let calls: Vec<Call> = calls().into_iter().filter(|call| call.op == op).collect();
    let operands: Vec<_> = calls.iter().map(prepared).collect();
    bencher.bench_local(|| {
        for (call, (signature, operands)) in calls.iter().zip(&operands) {
            let operands: Vec<&Tensor> = operands.iter().collect();
            // A call in place may fail on what an earlier round left behind.
            let _ = black_box(try_launch(op, &operands, &call.attrs, signature.workspace, 0));
        }
    });
}
