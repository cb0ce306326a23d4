//! `transpose`, `slice` and `reshape`: views, and the reshape that copies.

use millstream_types::{Attrs, DType, Layout};

use millstream_testing::kernels::*;

fn count_up(shape: &[usize]) -> Tensor {
    let values: Vec<i64> = (0..shape.iter().product::<usize>().max(1) as i64).collect();
    Tensor::ints(DType::I32, shape, &values)
}

#[test]
fn transpose_exchanges_two_dimensions() {
    let x = count_up(&[2, 3, 4]);
    for (dim0, dim1) in [(0, 2), (2, 0), (-1, 0), (1, 1), (-2, -1)] {
        let got = one("transpose", &[&x], &Attrs::new().with("dim0", dim0).with("dim1", dim1));
        let (a, b) = (dim0.rem_euclid(3) as usize, dim1.rem_euclid(3) as usize);
        for index in indices(x.shape()) {
            let mut swapped = index.clone();
            swapped.swap(a, b);
            assert_eq!(got.get(&swapped), x.get(&index));
        }
    }
    let attrs = Attrs::new().with("dim0", 0).with("dim1", -1);
    assert_eq!(one("transpose", &[&count_up(&[])], &attrs).shape(), [0; 0]);
}

#[test]
fn slice_clamps_like_a_python_slice() {
    let x = count_up(&[10]);
    let slice = |start: Option<i64>, end: Option<i64>, step: i64| {
        let mut attrs = Attrs::new().with("step", step);
        if let Some(start) = start {
            attrs.set("start", start);
        }
        if let Some(end) = end {
            attrs.set("end", end);
        }
        one("slice", &[&x], &attrs).values()
    };
    let expect = |values: &[i128]| values.iter().map(|&v| Int(v)).collect::<Vec<_>>();
    assert_eq!(slice(Some(2), Some(5), 1), expect(&[2, 3, 4]));
    assert_eq!(slice(None, None, 4), expect(&[0, 4, 8]));
    assert_eq!(slice(Some(-3), None, 1), expect(&[7, 8, 9]));
    assert_eq!(slice(None, Some(-8), 1), expect(&[0, 1]));
    assert_eq!(slice(Some(-100), Some(100), 9), expect(&[0, 9]));
    assert_eq!(slice(Some(5), Some(2), 1), expect(&[]));
    assert_eq!(slice(Some(100), None, 1), expect(&[]));
    assert_eq!(slice(Some(3), Some(i64::MAX), i64::MAX), expect(&[3]));
    assert_eq!(slice(Some(i64::MIN), Some(i64::MIN), 1), expect(&[]));
}

#[test]
fn slice_of_an_inner_dimension_of_a_view() {
    let x = count_up(&[4, 6]).view(&[3, 2], &[1, 12], 1);
    let got = one("slice", &[&x], &Attrs::new().with("dim", -1).with("start", 1));
    assert_eq!(got.values(), [13, 14, 15].map(Int));
}

#[test]
fn reshape_returns_a_view_or_a_copy() {
    for shape in [&[2, 3, 4][..], &[24], &[4, 6], &[1, 24, 1], &[2, 2, 2, 3]] {
        for new in [&[24][..], &[6, 4], &[2, 12], &[3, 1, 8], &[4, 3, 2], &[2, 3, 4]] {
            for layout in layouts(shape) {
                let x = count_up(shape).relaid(layout);
                let list: Vec<i64> = new.iter().map(|&d| d as i64).collect();
                let attrs = Attrs::new().with("shape", list);
                let got = one("reshape", &[&x], &attrs);
                assert_eq!((got.shape(), got.values()), (new, x.values()), "{}", x.spec);
                let views = signature("reshape", &[&x], &attrs).unwrap().is_view();
                assert!(views || !x.spec.layout.is_contiguous(), "{} to {new:?}", x.spec);
            }
        }
    }
}

#[test]
fn reshape_into_strided_outputs() {
    let x = count_up(&[300, 500]).view(&[500, 300], &[1, 500], 0);
    for layout in layouts(&[400, 375]) {
        let attrs = Attrs::new().with("shape", vec![400, -1]);
        let got = one_into("reshape", &[&x], &attrs, layout);
        assert!(got.values() == x.values(), "{}", got.spec);
    }
}

#[test]
fn reshape_computes_the_length_of_minus_one() {
    for (shape, new, expected) in [
        (&[2, 3][..], vec![-1], &[6][..]),
        (&[2, 3], vec![3, -1, 1], &[3, 2, 1]),
        (&[], vec![-1], &[1]),
        (&[1], vec![], &[]),
        (&[0, 4], vec![4, -1], &[4, 0]),
        (&[0, 4], vec![7, 0], &[7, 0]),
    ] {
        let got = one("reshape", &[&count_up(shape)], &Attrs::new().with("shape", new));
        assert_eq!(got.shape(), expected);
    }
}

#[test]
fn a_view_shares_memory() {
    let x = count_up(&[2, 3]);
    let row = one("slice", &[&x], &Attrs::new().with("start", 1));
    call("fill", &[&row], &Attrs::new().with("value", 9)).unwrap();
    assert_eq!(x.values(), [0, 1, 2, 9, 9, 9].map(Int));
    assert_eq!(x.viewed(Layout::contiguous(&[6]).unwrap()).values(), x.values());
}
