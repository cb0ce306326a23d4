//! Ops of a program's own, with kernels that have no unsafe code.

use std::sync::Arc;

use millstream::kernels::{TypedCall, typed};
use millstream::ops::{ArgDoc, CallSpec, Op, Signature};
use millstream::*;
use millstream_testing::machine::*;

use super::floats;

/// An op `own(x, y)`, which adds x to y in place and returns their product as a new tensor.
#[derive(Clone)]
struct Own;

impl Op for Own {
    fn name(&self) -> &str {
        "own"
    }

    fn summary(&self) -> &str {
        "a test's own"
    }

    fn inputs(&self) -> &[ArgDoc] {
        const { &[ArgDoc::new("x", "f32"), ArgDoc::new("y", "f32; changed in place")] }
    }

    fn signature(&self, call: CallSpec<'_>) -> Result<Signature> {
        let spec = TensorSpec::contiguous(DType::F32, call.inputs[0].shape())?;
        let mut signature = Signature::reads(2, spec);
        signature.accesses[1] = Access::ReadWrite;
        Ok(signature)
    }
}

/// Returns a machine whose op `own` has this kernel.
fn machine(kernel: fn(&TypedCall<'_>) -> anyhow::Result<()>) -> Machine {
    let mut config = config(DriverKind::Inline, SyncPolicy::Frontier);
    config.ops.register(Arc::new(Own));
    config.kernels.register("cpu", "own", Arc::new(typed(Own, kernel)));
    Machine::new(config).unwrap()
}

fn call(m: &Machine) -> (Tensor, Tensor) {
    let x = floats(m, &[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).t().unwrap();
    let y = floats(m, &[2, 3], &[10.0; 6]);
    let product = m.call("own", &[&x, &y]).run().unwrap().remove(0);
    (y, product)
}

#[test]
fn elements_are_numbered_in_the_order_of_indices() {
    let m = machine(|call| {
        anyhow::ensure!(call.operands() == 3);
        let (x, y) = (call.read::<f32>(0)?, call.write::<f32>(1)?);
        anyhow::ensure!(x.shape() == [2, 3] && x.strides() == [1, 2] && !x.is_empty());
        let product = call.write::<f32>(2)?;
        for k in 0..x.len() {
            product.set(k, x.get(k) * y.get(k));
            y.set(k, x.get(k) + y.get(k));
        }
        Ok(())
    });
    let (y, product) = call(&m);
    assert_eq!(y.to_vec::<f32>().unwrap(), [11.0, 13.0, 15.0, 12.0, 14.0, 16.0]);
    assert_eq!(product.to_vec::<f32>().unwrap(), [10.0, 30.0, 50.0, 20.0, 40.0, 60.0]);
}

#[test]
fn operands_may_share_memory() {
    let m = machine(|call| {
        let (x, y) = (call.read::<f32>(0)?, call.write::<f32>(1)?);
        (0..x.len()).for_each(|k| y.set(k, x.get(k) + y.get(k)));
        let product = call.write::<f32>(2)?;
        (0..x.len()).for_each(|k| product.set(k, x.get(k)));
        Ok(())
    });
    let x = floats(&m, &[2], &[1.0, 2.0]);
    let seen = m.call("own", &[&x, &x]).run().unwrap().remove(0);
    assert_eq!(seen.to_vec::<f32>().unwrap(), [2.0, 4.0]);
}

#[test]
fn what_the_signature_does_not_allow_fails_the_call() {
    #[track_caller]
    fn fails(kernel: fn(&TypedCall<'_>) -> anyhow::Result<()>, why: &str) {
        let (_, product) = call(&machine(kernel));
        let error = product.read().unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    fails(|call| call.write::<f32>(0).map(drop), "operand 0: the op only reads this operand");
    fails(|call| call.read::<f64>(0).map(drop), "the elements are f32, not f64");
    fails(|call| call.read::<f32>(3).map(drop), "operand 3 of 3");
    fails(
        |call| {
            call.read::<f32>(0)?.get(6);
            Ok(())
        },
        "element 6 of 6",
    );
}
