//! `add_`: y is read in full before x is written, whatever memory the two share.

use millstream_types::{Attrs, DType};

use millstream_testing::kernels::*;

fn add_(x: &Tensor, y: &Tensor, attrs: &Attrs) {
    for threads in [0, 3] {
        let before = x.values();
        let expected: Vec<Num> = indices(x.shape())
            .map(|i| {
                let sum = crate::elementwise::reference("add", x, y, Int(1), &i);
                rounded(sum, x.spec.dtype)
            })
            .collect();
        call_on("add_", &[x, y], attrs, threads).unwrap();
        assert_eq!(x.values(), expected, "{} from {before:?}", x.spec);
    }
}

#[test]
fn adds_a_tensor_to_itself() {
    for layout in layouts(&[50, 30]) {
        let x = Tensor::laid(DType::F32, layout, &samples(DType::F32));
        add_(&x, &x.clone(), &Attrs::new());
    }
}

#[test]
fn adds_a_view_shifted_by_one_in_either_direction() {
    let ones = || Tensor::ints(DType::I64, &[70_000], &[1, 2, 3]);
    let whole = ones();
    add_(&whole.view(&[69_999], &[1], 1), &whole.view(&[69_999], &[1], 0), &Attrs::new());
    let whole = ones();
    add_(&whole.view(&[69_999], &[1], 0), &whole.view(&[69_999], &[1], 1), &Attrs::new());
}

#[test]
fn adds_its_own_transpose_and_one_of_its_elements() {
    let x = Tensor::ints(DType::I32, &[3, 3], &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
    add_(&x, &x.view(&[3, 3], &[1, 3], 0), &Attrs::new());
    let x = Tensor::ints(DType::I32, &[4], &[1, 2, 3, 4]);
    add_(&x, &x.view(&[], &[], 2), &Attrs::new());
    add_(&x, &x.view(&[1], &[1], 0), &Attrs::new());
    add_(&x, &x.view(&[4], &[0], 3), &Attrs::new());
}

#[test]
fn shared_memory_with_known_result() {
    let whole = Tensor::ints(DType::I32, &[4], &[1, 10, 100, 1000]);
    let (x, y) = (whole.view(&[3], &[1], 1), whole.view(&[3], &[1], 0));
    call("add_", &[&x, &y], &Attrs::new()).unwrap();
    assert_eq!(whole.values(), [1, 11, 110, 1100].map(Int));
}

#[test]
fn disjoint_views_of_one_memory() {
    let whole = Tensor::ints(DType::I32, &[6], &[1, 2, 3, 4, 5, 6]);
    let (x, y) = (whole.view(&[3], &[2], 0), whole.view(&[3], &[2], 1));
    call("add_", &[&x, &y], &Attrs::new()).unwrap();
    assert_eq!(whole.values(), [3, 2, 7, 4, 11, 6].map(Int));
}

#[test]
fn mixed_dtypes_are_computed_in_the_common_one() {
    let x = Tensor::ints(DType::U8, &[2], &[200, 1]);
    let y = Tensor::ints(DType::I32, &[2], &[100, -2]);
    add_(&x, &y, &Attrs::new());
    let x = Tensor::floats(DType::F16, &[2], &[1.0, 2048.0]);
    let y = Tensor::floats(DType::F32, &[2], &[1e-5, 1.5]);
    add_(&x, &y, &Attrs::new());
    let x = Tensor::floats(DType::F32, &[3], &[0.5, f64::NAN, f64::INFINITY]);
    let y = Tensor::ints(DType::I64, &[], &[3]);
    add_(&x, &y, &Attrs::new());
}

#[test]
fn broadcast_and_empty() {
    for layout in layouts(&[4, 3]) {
        let x = Tensor::laid(DType::F64, layout, &samples(DType::F64));
        add_(&x, &Tensor::floats(DType::F64, &[4, 1], &[1.0, 2.0, 3.0, 4.0]), &Attrs::new());
        x.check_gaps();
    }
    let x = Tensor::ints(DType::I8, &[0, 3], &[0]);
    add_(&x, &Tensor::ints(DType::I8, &[1, 3], &[1]), &Attrs::new());
}
