//! `masked_select`.

use millstream_types::{Attrs, DType, Layout};

use millstream_testing::kernels::*;

fn check(x: &Tensor, mask: &Tensor, shape: &[usize]) {
    let expected: Vec<Num> = indices(shape)
        .filter(|i| mask.get(&broadcast_index(mask.shape(), i)) == Int(1))
        .map(|i| x.get(&broadcast_index(x.shape(), &i)))
        .collect();
    for threads in [0, 4] {
        let got = call_on("masked_select", &[x, mask], &Attrs::new(), threads).unwrap().remove(0);
        assert_eq!(got.shape(), [expected.len()]);
        assert!(got.values() == expected, "{} where {}", x.spec, mask.spec);
    }
}

#[test]
fn dtypes_layouts_and_broadcasts() {
    let pattern = [1, 0, 0, 1, 1, 0, 1].map(Int);
    for dtype in DType::REAL {
        for x_layout in layouts(&[5, 4]) {
            for mask_layout in layouts(&[5, 4]) {
                let x = Tensor::laid(dtype, x_layout.clone(), &samples(dtype));
                let mask = Tensor::laid(DType::Bool, mask_layout, &pattern);
                check(&x, &mask, &[5, 4]);
            }
        }
        let row = Tensor::dense(dtype, &[4], &samples(dtype));
        let column = Tensor::dense(DType::Bool, &[3, 1], &pattern);
        check(&row, &column, &[3, 4]);
    }
}

#[test]
fn all_no_and_zero_elements() {
    let x = Tensor::ints(DType::I32, &[6], &[1, 2, 3, 4, 5, 6]);
    check(&x, &Tensor::ints(DType::Bool, &[6], &[1]), &[6]);
    check(&x, &Tensor::ints(DType::Bool, &[6], &[0]), &[6]);
    check(&x, &Tensor::ints(DType::Bool, &[], &[1]), &[6]);
    check(&Tensor::ints(DType::I32, &[], &[3]), &Tensor::ints(DType::Bool, &[], &[1]), &[]);
    let empty = Tensor::ints(DType::I32, &[0], &[1]);
    check(&empty, &Tensor::ints(DType::Bool, &[0], &[1]), &[0]);
}

#[test]
fn many_blocks_keep_their_order() {
    let count = 5 * millstream_ops::masked_select::SELECT_BLOCK + 19;
    let values: Vec<i64> = (0..count as i64).collect();
    let x = Tensor::ints(DType::I64, &[count], &values);
    let mask: Vec<i64> = (0..count as i64).map(|v| i64::from(v * v % 7 < 3)).collect();
    check(&x, &Tensor::ints(DType::Bool, &[count], &mask), &[count]);
}

#[test]
fn strided_output() {
    let x = Tensor::ints(DType::I32, &[4], &[1, 2, 3, 4]);
    let mask = Tensor::ints(DType::Bool, &[4], &[1, 0, 0, 1]);
    let out = Tensor::unwritten(DType::I32, Layout::strided(&[4], &[3], 2).unwrap());
    let count = Tensor::ints(DType::I64, &[], &[-1]);
    let workspace = signature("masked_select", &[&x, &mask], &Attrs::new()).unwrap().workspace;
    launch("masked_select", &[&x, &mask, &out, &count], &Attrs::new(), workspace, 0);
    assert_eq!((out.get(&[0]), out.get(&[1]), count.get(&[])), (Int(1), Int(4), Int(2)));
    out.check_gaps();
}
