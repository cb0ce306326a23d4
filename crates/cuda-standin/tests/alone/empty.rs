//! Tensors without elements: their addresses are those of no memory, and nothing is launched for
//! them.

use millstream::ep::cuda::CudaConfig;
use millstream::{Attrs, DType, DeviceId, DriverKind, Machine, Stream, Tensor};

use crate::{machine, no_violations, nothing_is_open, read, stand_in};

fn zeros(m: &Machine, s: &Stream, shape: &[i64], dtype: DType) -> Tensor {
    let attrs = Attrs::new().with("shape", shape.to_vec()).with("value", 0i64).with("dtype", dtype);
    m.call("full", &[]).attrs(attrs).one(s).unwrap()
}

#[test]
fn calls_on_no_elements_launch_nothing_for_them() {
    if !millstream_cuda_standin::compiles() {
        println!("skipped: no C++ compiler");
        return;
    }
    let _turn = stand_in().turn();
    let m = machine(DriverKind::Inline, CudaConfig::default());
    let s = m.compute(&DeviceId::cuda(0), 0).unwrap();
    let none = zeros(&m, &s, &[0, 4], DType::F64);
    m.synchronize().unwrap();
    let before = stand_in().count("cuLaunchKernel");
    let cast = m.call("cast", &[&none]).attr("dtype", DType::F32).one(&s).unwrap();
    let transposed = m.call("t", &[&cast]).one(&s).unwrap();
    let clone = m.call("clone", &[&transposed]).one(&s).unwrap();
    let sum = m.call("add", &[&cast, &cast]).one(&s).unwrap();
    m.call("copy_", &[&sum, &none]).on(&s).unwrap();
    m.call("mul_", &[&cast]).attr("other", 2.0).on(&s).unwrap();
    for x in [&cast, &clone, &sum] {
        assert!(read(x).unwrap().is_empty());
    }
    assert_eq!(stand_in().count("cuLaunchKernel"), before);
    // Results that are not empty.
    let attrs = Attrs::new().with("input_sizes", vec![1i64, 4]).with("dim", 0i64);
    let attrs = attrs.with("start", 1i64).with("end", 1i64).with("step", 1i64);
    let grad = m.call("slice_backward", &[&cast]).attrs(attrs).one(&s).unwrap();
    assert_eq!(read(&grad).unwrap(), [0.0; 4]);
    let total = m.call("sum", &[&cast]).one(&s).unwrap();
    assert_eq!(read(&total).unwrap(), [0.0]);
    let row = zeros(&m, &s, &[1, 4], DType::F32);
    let joined = m.call("cat", &[&cast, &row, &cast]).attr("dim", 0).one(&s).unwrap();
    assert_eq!(read(&joined).unwrap(), [0.0; 4]);
    let product = m.call("matmul", &[&transposed, &cast]).one(&s).unwrap();
    assert_eq!(read(&product).unwrap(), [0.0; 16]);
    drop((none, cast, transposed, clone, sum, grad, total, row, joined, product, s, m));
    no_violations();
    nothing_is_open();
}
