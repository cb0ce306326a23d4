//! Calls whose launches are chosen once: which calls have plans, and which are no calls of them.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use millstream::ep::cuda::CudaConfig;
use millstream::kernels::{Kernel, KernelCtx, KernelSpec, PlannedKernel};
use millstream::{Attrs, DType, DeviceId, DriverKind, Machine, Stream, Tensor, TensorSpec};

use crate::{call, kernels, machine_with, no_violations, nothing_is_open, read, stand_in, upload};

/// A kernel of the device that counts its runs in context.
struct Counting {
    own: Arc<dyn Kernel>,
    runs: Arc<AtomicUsize>,
}

impl Kernel for Counting {
    fn run(&self, ctx: &KernelCtx<'_>) -> anyhow::Result<()> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        self.own.run(ctx)
    }

    fn plan(
        &self,
        call: KernelSpec<'_>,
        written: &[bool],
        native: &dyn Any,
    ) -> Option<Arc<dyn PlannedKernel>> {
        self.own.plan(call, written, native)
    }
}

const OPS: [&str; 8] =
    ["add", "add_", "relu", "sum", "_softmax", "matmul", "addmm", "index_select"];

/// Runs a test with a machine, under two drivers, and with a function that returns the runs in
/// context since it was last called.
fn each(test: impl Fn(&Machine, &dyn Fn() -> usize)) {
    if !millstream_cuda_standin::compiles() {
        println!("skipped: no C++ compiler");
        return;
    }
    for driver in [DriverKind::Inline, DriverKind::Threaded] {
        let _turn = stand_in().turn();
        let mut kernels = kernels();
        let runs = Arc::new(AtomicUsize::new(0));
        for op in OPS {
            let own = kernels.get("cuda", op).unwrap().clone();
            kernels.register("cuda", op, Arc::new(Counting { own, runs: runs.clone() }));
        }
        let m = machine_with(driver, CudaConfig::default(), kernels);
        test(&m, &|| {
            m.synchronize().unwrap();
            runs.swap(0, Ordering::Relaxed)
        });
        drop(m);
        no_violations();
        nothing_is_open();
    }
}

fn stream(m: &Machine, device: u32) -> Stream {
    m.compute(&DeviceId::cuda(device), 0).unwrap()
}

/// Returns a matrix of two rows.
fn rows(m: &Machine, s: &Stream, values: &[f32]) -> Tensor {
    let columns = values.len() as i64 / 2;
    m.call("view", &[&upload(m, s, values)]).attr("size", vec![2, columns]).one(s).unwrap()
}

/// Returns an index.
fn index_of(m: &Machine, s: &Stream, index: i64) -> Tensor {
    let spec = TensorSpec::contiguous(DType::I64, &[1]).unwrap();
    m.upload(s, spec, index.to_ne_bytes().to_vec()).unwrap()
}

/// The first call of a kind runs in its context, and makes the plan of all others.
#[test]
fn later_calls_are_planned() {
    each(|m, runs| {
        let s = stream(m, 0);
        for k in 0..4 {
            let k = k as f32;
            let (x, y) = (upload(m, &s, &[k, -2.0]), upload(m, &s, &[1.0, k]));
            assert_eq!(read(&call(m, "add", &[&x, &y], &s)).unwrap(), [k + 1.0, k - 2.0]);
            assert_eq!(read(&call(m, "relu", &[&x], &s)).unwrap(), [k, 0.0]);
            // A sum of several parts, whose results lie in scratch memory.
            let many = upload(m, &s, &[k; 20_000]);
            assert_eq!(read(&call(m, "sum", &[&many], &s)).unwrap(), [20_000.0 * k]);
            let (a, b) = (rows(m, &s, &[k, 1.0, 2.0, 3.0]), rows(m, &s, &[1.0, 0.0, k, 1.0]));
            let product = [k + k, 1.0, 2.0 + 3.0 * k, 3.0];
            assert_eq!(read(&call(m, "matmul", &[&a, &b], &s)).unwrap(), product);
            // The bias, then the product.
            let sum = product.map(|p| p + k);
            let bias = upload(m, &s, &[k, k]);
            assert_eq!(read(&call(m, "addmm", &[&bias, &a, &b], &s)).unwrap(), sum);
            let softmax = m.call("_softmax", &[&a]).attr("dim", 1).one(&s).unwrap();
            let (e, e3) = ((k - 1.0).exp(), (-1.0_f32).exp());
            let expected = [e / (e + 1.0), 1.0 / (e + 1.0), e3 / (e3 + 1.0), 1.0 / (e3 + 1.0)];
            for (got, expected) in read(&softmax).unwrap().iter().zip(expected) {
                assert!((got - expected).abs() < 1e-6, "{got} and {expected}");
            }
            assert_eq!(runs(), if k == 0.0 { 6 } else { 0 }, "call {k}");
        }
    });
}

/// Operands that overlap a written one are copied first, at every call.
#[test]
fn overlapping_operands_run_in_context() {
    each(|m, runs| {
        let s = stream(m, 0);
        let part = |x: &Tensor, from: i64| {
            let attrs = Attrs::new().with("dim", 0).with("start", from).with("length", 3);
            m.call("narrow", &[x]).attrs(attrs).one(&s).unwrap()
        };
        let apart = upload(m, &s, &[0.0, 10.0, 20.0, 30.0]);
        let mut expected = [1.0, 2.0, 3.0, 4.0];
        let x = upload(m, &s, &expected);
        for k in 0..6 {
            // In turn with a part of another tensor, of the same layout.
            let overlaps = k % 2 == 1;
            let from = if overlaps { &x } else { &apart };
            m.call("add_", &[&part(&x, 0), &part(from, 1)]).run().unwrap();
            let added: [f32; 3] = match overlaps {
                true => [expected[1], expected[2], expected[3]],
                false => [10.0, 20.0, 30.0],
            };
            (0..3).for_each(|k| expected[k] += added[k]);
            assert_eq!(read(&x).unwrap(), expected, "call {k}");
            assert_eq!(runs(), usize::from(k == 0 || overlaps), "call {k}");
        }
        // Two operands that nothing writes may be one.
        for k in 0..3 {
            assert_eq!(read(&call(m, "add", &[&x, &x], &s)).unwrap(), expected.map(|x| x + x));
            assert_eq!(runs(), usize::from(k == 0), "call {k}");
        }
    });
}

/// A plan is one of a device. The calls of another one are right, too.
#[test]
fn other_devices() {
    each(|m, _| {
        for k in 0..6 {
            let s = stream(m, k % 2);
            let x = upload(m, &s, &[k as f32, -1.0]);
            assert_eq!(read(&call(m, "add", &[&x, &x], &s)).unwrap(), [2.0 * k as f32, -2.0]);
        }
    });
}

/// A kernel that takes a flag for errors has no plan.
#[test]
fn kernels_that_need_more_than_launches() {
    each(|m, runs| {
        let s = stream(m, 0);
        let x = upload(m, &s, &[1.0, 2.0, 3.0]);
        for k in 0..3 {
            let index = index_of(m, &s, k);
            let attrs = Attrs::new().with("dim", 0);
            let y = m.call("index_select", &[&x, &index]).attrs(attrs).one(&s).unwrap();
            assert_eq!(read(&y).unwrap(), [1.0 + k as f32]);
            assert_eq!(runs(), 1, "call {k}");
        }
        // The call before left a plan that is none; one out of range still fails.
        let index = index_of(m, &s, 7);
        let attrs = Attrs::new().with("dim", 0);
        let y = m.call("index_select", &[&x, &index]).attrs(attrs).one(&s).unwrap();
        assert!(read(&y).unwrap_err().to_string().contains("index"));
        m.clear_failures();
        assert_eq!(runs(), 1);
    });
}
