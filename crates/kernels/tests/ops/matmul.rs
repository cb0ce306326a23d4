//! `matmul`.

use millstream_types::{Attrs, DType, Layout};

use millstream_testing::kernels::*;

/// Returns one element of the product, and the sum of the magnitudes of its terms.
fn reference(x: &Tensor, y: &Tensor, index: &[usize]) -> (Num, f64) {
    let (x_rank, y_rank) = (x.shape().len(), y.shape().len());
    let columns = usize::from(y_rank > 1);
    let (batch, place) = index.split_at(index.len() - usize::from(x_rank > 1) - columns);
    let k = *x.shape().last().unwrap();
    let (mut ints, mut floats, mut size) = (0i128, 0.0, 0.0);
    for l in 0..k {
        let x_batch_shape = &x.shape()[..x_rank.saturating_sub(2)];
        let y_batch_shape = &y.shape()[..y_rank.saturating_sub(2)];
        let mut at_x = broadcast_index(x_batch_shape, batch);
        let mut at_y = broadcast_index(y_batch_shape, batch);
        if x_rank > 1 {
            at_x.push(place[0]);
        }
        at_x.push(l);
        at_y.push(l);
        if y_rank > 1 {
            at_y.push(*place.last().unwrap());
        }
        match (x.get(&at_x), y.get(&at_y)) {
            (Int(a), Int(b)) => ints += a * b,
            (Float(a), Float(b)) => {
                floats += a * b;
                size += (a * b).abs();
            }
            mixed => panic!("{mixed:?}"),
        }
    }
    let dtype = x.spec.dtype;
    (if dtype.is_float() { Float(floats) } else { rounded(Int(ints), dtype) }, size)
}

fn compare(x: &Tensor, y: &Tensor, got: &Tensor) {
    let dtype = x.spec.dtype;
    let k = *x.shape().last().unwrap() as f64;
    for index in indices(got.shape()) {
        let (expected, size) = reference(x, y, &index);
        match (got.get(&index), expected) {
            (Float(got), Float(expected)) if got.is_finite() && expected.is_finite() => {
                // The error of the sum in the dtype of the computation, plus that of the final
                // rounding.
                let (unit, last) = match dtype {
                    DType::F64 => (f64::EPSILON, f64::EPSILON),
                    DType::F16 => (f64::from(f32::EPSILON), 2f64.powi(-11)),
                    DType::BF16 => (f64::from(f32::EPSILON), 2f64.powi(-8)),
                    _ => (f64::from(f32::EPSILON), f64::from(f32::EPSILON)),
                };
                let bound = unit * (k + 1.0) * size + last * expected.abs();
                assert!((got - expected).abs() <= bound, "{got} for {expected} at {index:?}");
            }
            (got, expected) => assert_eq!(
                got,
                if dtype.is_float() { rounded(expected, dtype) } else { expected },
                "{} by {} at {index:?}",
                x.spec,
                y.spec
            ),
        }
    }
}

const NUMBERS: [DType; 9] = [
    DType::F32,
    DType::F64,
    DType::F16,
    DType::BF16,
    DType::I64,
    DType::I32,
    DType::I16,
    DType::I8,
    DType::U8,
];

fn values(dtype: DType, seed: i64) -> Vec<Num> {
    let step = |i: i64| (i * 37 + seed * 11) % 101 - 50;
    if dtype.is_float() {
        (0..97).map(|i| Float(step(i) as f64 / 8.0)).collect()
    } else {
        (0..97).map(|i| Int((step(i) * 3).into())).collect()
    }
}

#[test]
fn shapes_and_dtypes() {
    for dtype in NUMBERS {
        for (x, y) in [
            (&[5][..], &[5][..]),
            (&[3, 5], &[5]),
            (&[5], &[5, 4]),
            (&[3, 5], &[5, 4]),
            (&[1, 1], &[1, 1]),
            (&[2, 3, 5], &[5]),
            (&[5], &[2, 5, 4]),
            (&[2, 3, 5], &[5, 4]),
            (&[3, 5], &[2, 5, 4]),
            (&[2, 1, 3, 5], &[6, 5, 4]),
            (&[33, 20], &[20, 17]),
            (&[1, 300], &[300, 1]),
            (&[70, 2], &[2, 70]),
        ] {
            let x = Tensor::dense(dtype, x, &values(dtype, 1));
            let y = Tensor::dense(dtype, y, &values(dtype, 2));
            compare(&x, &y, &one("matmul", &[&x, &y], &Attrs::new()));
        }
    }
}

#[test]
fn strided_operands_and_outputs() {
    for dtype in [DType::F32, DType::F64, DType::F16, DType::I32] {
        for x_layout in layouts(&[2, 9, 6]) {
            for y_layout in layouts(&[6, 7]) {
                let x = Tensor::laid(dtype, x_layout.clone(), &values(dtype, 1));
                let y = Tensor::laid(dtype, y_layout, &values(dtype, 2));
                for layout in layouts(&[2, 9, 7]) {
                    compare(&x, &y, &one_into("matmul", &[&x, &y], &Attrs::new(), layout));
                }
            }
        }
        let x = Tensor::dense(dtype, &[6], &values(dtype, 3)).view(&[9, 6], &[0, 1], 0);
        let y = Tensor::dense(dtype, &[7], &values(dtype, 3)).view(&[2, 6, 7], &[0, 0, 1], 0);
        compare(&x, &y, &one("matmul", &[&x, &y], &Attrs::new()));
        let square = Tensor::dense(dtype, &[8, 8], &values(dtype, 4));
        compare(&square, &square, &one("matmul", &[&square, &square], &Attrs::new()));
    }
}

#[test]
fn lengths_of_zero() {
    for dtype in NUMBERS {
        for (x, y, expected) in [
            (&[0][..], &[0][..], &[][..]),
            (&[3, 0], &[0, 4], &[3, 4]),
            (&[0, 5], &[5, 4], &[0, 4]),
            (&[3, 5], &[5, 0], &[3, 0]),
            (&[0, 3, 5], &[5, 4], &[0, 3, 4]),
            (&[2, 3, 0], &[0], &[2, 3]),
        ] {
            let x = Tensor::dense(dtype, x, &values(dtype, 1));
            let y = Tensor::dense(dtype, y, &values(dtype, 1));
            let got = one("matmul", &[&x, &y], &Attrs::new());
            assert_eq!(got.shape(), expected);
            let zero = rounded(Int(0), dtype);
            assert!(got.values().iter().all(|v| *v == zero), "{dtype} {got:?}");
        }
    }
    // A matrix without elements may have any strides.
    let none = Tensor::floats(DType::F32, &[0], &[0.0]).view(&[2, 0], &[usize::MAX, 1], 0);
    let other = Tensor::floats(DType::F32, &[0, 2], &[0.0]);
    assert_eq!(one("matmul", &[&none, &other], &Attrs::new()).values(), [Float(0.0); 4]);
}

#[test]
fn special_values_pass_through() {
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        // Shapes that take different paths through the arithmetic.
        for (m, k, n) in [(2, 2, 2), (3, 40, 3), (1, 40, 5), (5, 40, 1), (40, 9, 40)] {
            let x = Tensor::floats(dtype, &[m, k], &[1.0]);
            let y = Tensor::floats(dtype, &[k, n], &[1.0]);
            x.set(&[0, 0], Float(f64::NAN));
            y.set(&[k - 1, n - 1], Float(f64::INFINITY));
            compare(&x, &y, &one("matmul", &[&x, &y], &Attrs::new()));
            // Zero times infinity is NaN, not zero.
            let zeros = Tensor::floats(dtype, &[m, k], &[0.0]);
            compare(&zeros, &y, &one("matmul", &[&zeros, &y], &Attrs::new()));
        }
    }
}

#[test]
fn half_precision_rounds_once() {
    // Long enough to divide the inner dimension, with partial sums that no f16 holds.
    let k = 3000;
    for dtype in [DType::F16, DType::BF16] {
        let x = Tensor::floats(dtype, &[20, k], &[100.0]);
        let y = Tensor::floats(dtype, &[k, 20], &[1.0]);
        for l in k / 2..k {
            for column in 0..20 {
                y.set(&[l, column], Float(-1.0));
            }
        }
        x.set(&[3, 7], Float(101.0));
        let got = one("matmul", &[&x, &y], &Attrs::new());
        assert_eq!((got.get(&[3, 4]), got.get(&[4, 4])), (Float(1.0), Float(0.0)), "{dtype}");
    }
}

#[test]
fn half_precision_blocks_meet_at_their_edges() {
    // One element more than a block in each direction, and both lines of memory.
    for (dtype, [m, k, n]) in [
        (DType::F16, [513, 3, 20]),
        (DType::BF16, [20, 3, 514]),
        (DType::F16, [30, 1025, 2]),
        (DType::BF16, [1, 600, 1]),
        (DType::F16, [1, 300, 513]),
    ] {
        let x = Tensor::dense(dtype, &[m, k], &values(dtype, 1));
        let y = Tensor::dense(dtype, &[k, n], &values(dtype, 2));
        let turned = |t: &Tensor| {
            let &[rows, columns] = t.shape() else { panic!("a matrix") };
            t.relaid(Layout::strided(&[rows, columns], &[1, rows], 0).unwrap())
        };
        let expected = one("matmul", &[&x, &y], &Attrs::new());
        compare(&x, &y, &expected);
        for (x, y) in [(turned(&x), turned(&y)), (turned(&x), y)] {
            compare(&x, &y, &one("matmul", &[&x, &y], &Attrs::new()));
            let out = Layout::strided(&[m, n], &[1, m], 0).unwrap();
            compare(&x, &y, &one_into("matmul", &[&x, &y], &Attrs::new(), out));
        }
    }
}

#[test]
fn half_precision_sums_with_a_bias_round_once() {
    let attrs = Attrs::new().with("alpha", 0.5).with("beta", 3.0);
    for dtype in [DType::F16, DType::BF16] {
        // Small whole numbers, so that f32 is exact: only the result is rounded.
        for [m, k, n] in [[3, 5, 4], [2, 600, 515], [3, 0, 2]] {
            let of = |shape: &[usize], by: i64| {
                let numbers = (0..97).map(|i| Float(((i * by) % 7 - 3) as f64));
                Tensor::dense(dtype, shape, &numbers.collect::<Vec<Num>>())
            };
            let (bias, x, y) = (of(&[n], 5), of(&[m, k], 3), of(&[k, n], 4));
            let got = one("addmm", &[&bias, &x, &y], &attrs);
            for index in indices(got.shape()) {
                let (product, _) = reference(&x, &y, &index);
                let (Float(product), Float(bias)) = (product, bias.get(&index[1..])) else {
                    panic!("floats");
                };
                let expected = rounded(Float(0.5 * product + 3.0 * bias), dtype);
                assert_eq!(got.get(&index), expected, "{dtype} {m} {k} {n} at {index:?}");
            }
        }
    }
}

#[test]
fn integers_wrap() {
    let x = Tensor::ints(DType::I8, &[1, 2], &[100, 100]);
    let y = Tensor::ints(DType::I8, &[2, 1], &[2, 2]);
    assert_eq!(one("matmul", &[&x, &y], &Attrs::new()).values(), [Int(400 - 512)]);
}

#[test]
fn results_do_not_depend_on_threads() {
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16, DType::I32] {
        for (x, y) in [
            (&[300, 40][..], &[40, 290][..]),
            (&[300, 600], &[600, 30]),
            (&[1, 7], &[7, 40_000]),
            (&[9, 40, 50], &[50, 30]),
            (&[40_000, 3], &[3]),
        ] {
            let x = Tensor::dense(dtype, x, &values(dtype, 1));
            let y = Tensor::dense(dtype, y, &values(dtype, 2));
            let runs = [0, 1, 4].map(|threads| {
                call_on("matmul", &[&x, &y], &Attrs::new(), threads).unwrap().remove(0)
            });
            assert!(runs[0].bytes() == runs[1].bytes() && runs[1].bytes() == runs[2].bytes());
        }
    }
}

#[test]
fn tiles_meet_at_their_edges() {
    for (m, n) in [(129, 257), (1, 16_385), (16_385, 1), (128, 128), (130, 2)] {
        let x = Tensor::dense(DType::F64, &[m, 3], &values(DType::F64, 1));
        let y = Tensor::dense(DType::F64, &[3, n], &values(DType::F64, 2));
        let got = call_on("matmul", &[&x, &y], &Attrs::new(), 2).unwrap().remove(0);
        compare(&x, &y, &got);
    }
}
