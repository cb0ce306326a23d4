//! `add`, `sub`, `mul` and `relu`.

use millstream_ops::promotion::common_dtype;
use millstream_types::{Attrs, DType};

use millstream_testing::kernels::*;

/// Returns x op y in the common dtype, with each step rounded as documented.
pub(crate) fn reference(op: &str, x: &Tensor, y: &Tensor, alpha: Num, index: &[usize]) -> Num {
    let tensors = [x, y].map(|t| (t.spec.dtype, t.shape().len()));
    let common = common_dtype(tensors, []).unwrap();
    let wide = if common.is_float() && common.size() == 2 { DType::F32 } else { common };
    let read = |t: &Tensor| rounded(t.get(&broadcast_index(t.shape(), index)), common);
    let (x, y) = (read(x), read(y));
    let to_wide = |v: Num| rounded(v, wide);
    let combine = |a: Num, b: Num, times: bool| match (a, b) {
        (Int(a), Int(b)) if times => to_wide(Int(a * b)),
        (Int(a), Int(b)) => to_wide(Int(a + b)),
        (Float(a), Float(b)) if times => to_wide(Float(a * b)),
        (Float(a), Float(b)) => to_wide(Float(a + b)),
        mixed => panic!("{mixed:?}"),
    };
    let negated = match alpha {
        Int(v) if op == "sub" => Int(-v),
        Float(v) if op == "sub" => Float(-v),
        other => other,
    };
    let wide_result = match op {
        "mul" => combine(x, y, true),
        _ => combine(x, combine(to_wide(negated), y, true), false),
    };
    rounded(wide_result, common)
}

fn check(op: &str, x: &Tensor, y: &Tensor, attrs: &Attrs, alpha: Num) {
    let got = one(op, &[x, y], attrs);
    for index in indices(got.shape()) {
        let expected = reference(op, x, y, alpha, &index);
        assert_eq!(got.get(&index), expected, "{op}{attrs} {index:?} of {x:?} and {y:?}");
    }
}

#[test]
fn every_pair_of_dtypes() {
    for op in ["add", "sub", "mul"] {
        for a in DType::REAL {
            for b in DType::REAL {
                if op == "sub" && (a == DType::Bool || b == DType::Bool) {
                    continue;
                }
                for (x_shape, y_shape) in [(&[13, 10][..], &[10][..]), (&[7], &[]), (&[], &[])] {
                    let x = Tensor::dense(a, x_shape, &samples(a));
                    let y = Tensor::dense(b, y_shape, &samples(b));
                    check(op, &x, &y, &Attrs::new(), Int(1));
                    check(op, &y, &x, &Attrs::new(), Int(1));
                }
            }
        }
    }
}

#[test]
fn every_layout_of_inputs_and_output() {
    for dtype in [DType::F32, DType::BF16, DType::I64, DType::U8, DType::Bool] {
        for x_layout in layouts(&[3, 4, 5]) {
            for y_layout in layouts(&[4, 1]) {
                let x = Tensor::laid(dtype, x_layout.clone(), &samples(dtype));
                let y = Tensor::laid(dtype, y_layout, &samples(dtype)[1..]);
                for out_layout in layouts(&[3, 4, 5]) {
                    let got = one_into("add", &[&x, &y], &Attrs::new(), out_layout);
                    for index in indices(got.shape()) {
                        assert_eq!(got.get(&index), reference("add", &x, &y, Int(1), &index));
                    }
                }
            }
        }
    }
}

#[test]
fn operands_with_overlapping_elements() {
    let x = Tensor::floats(DType::F32, &[3], &[1.0, 2.0, 3.0]).view(&[2, 3], &[0, 1], 0);
    let y = Tensor::floats(DType::F32, &[1], &[10.0]).view(&[2, 3], &[0, 0], 0);
    let sum = one("add", &[&x, &y], &Attrs::new());
    assert_eq!(sum.values(), [11.0, 12.0, 13.0, 11.0, 12.0, 13.0].map(Float));
}

#[test]
fn alpha() {
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        let x = Tensor::dense(dtype, &[13], &samples(dtype));
        let y = Tensor::dense(dtype, &[13], &samples(dtype)[2..]);
        for op in ["add", "sub"] {
            check(op, &x, &y, &Attrs::new().with("alpha", 0.1), Float(0.1));
            check(op, &x, &y, &Attrs::new().with("alpha", -3), Int(-3));
        }
    }
    for dtype in [DType::I64, DType::I8, DType::U8] {
        let x = Tensor::dense(dtype, &[13], &samples(dtype));
        let y = Tensor::dense(dtype, &[13], &samples(dtype)[2..]);
        for op in ["add", "sub"] {
            check(op, &x, &y, &Attrs::new().with("alpha", 77), Int(77));
        }
    }
    let (f, t) = (Int(0), Int(1));
    let x = Tensor::dense(DType::Bool, &[4], &[f, f, t, t]);
    let y = Tensor::dense(DType::Bool, &[4], &[f, t, f, t]);
    let never = Attrs::new().with("alpha", false);
    assert_eq!(one("add", &[&x, &y], &never).values(), [f, f, t, t]);
    assert_eq!(one("add", &[&x, &y], &Attrs::new()).values(), [f, t, t, t]);
    assert_eq!(one("mul", &[&x, &y], &Attrs::new()).values(), [f, f, f, t]);
}

#[test]
fn half_precision_rounds_once() {
    // 1 + 2^-11 lies halfway between two f16 values; twice as much lies beyond. Rounding the
    // product first would lose the difference.
    let x = Tensor::floats(DType::F16, &[1], &[1.0]);
    let y = Tensor::floats(DType::F16, &[1], &[f64::from(2f32.powi(-12))]);
    let got = one("add", &[&x, &y], &Attrs::new().with("alpha", 2.001));
    assert_eq!(got.values(), [Float(1.0 + 2f64.powi(-10))]);
}

#[test]
fn integers_wrap() {
    let x = Tensor::ints(DType::U8, &[2], &[250, 0]);
    let y = Tensor::ints(DType::U8, &[2], &[10, 1]);
    assert_eq!(one("add", &[&x, &y], &Attrs::new()).values(), [Int(4), Int(1)]);
    assert_eq!(one("sub", &[&x, &y], &Attrs::new()).values(), [Int(240), Int(255)]);
    let low = Tensor::ints(DType::I64, &[1], &[i64::MIN]);
    let one_less = Tensor::ints(DType::I64, &[1], &[1]);
    assert_eq!(one("sub", &[&low, &one_less], &Attrs::new()).values(), [Int(i64::MAX.into())]);
}

#[test]
fn no_elements() {
    for (x, y, expected) in
        [(&[0][..], &[1][..], &[0][..]), (&[2, 0, 3], &[3], &[2, 0, 3]), (&[0], &[], &[0])]
    {
        let x = Tensor::ints(DType::F32, x, &[1]);
        let y = Tensor::ints(DType::I32, y, &[1]);
        assert_eq!(one("mul", &[&x, &y], &Attrs::new()).shape(), expected);
    }
}

#[test]
fn relu() {
    for dtype in DType::REAL.into_iter().filter(|&d| d != DType::Bool) {
        for layout in layouts(&[5, 3]) {
            let x = Tensor::laid(dtype, layout.clone(), &samples(dtype));
            let got = one_into("relu", &[&x], &Attrs::new(), layout);
            for index in indices(&[5, 3]) {
                let expected = match x.get(&index) {
                    Int(v) => Int(v.max(0)),
                    Float(v) if v < 0.0 => Float(0.0),
                    Float(v) => Float(v),
                };
                assert_eq!(got.get(&index), expected, "{dtype} {index:?}");
            }
        }
    }
}

#[test]
fn an_output_may_be_an_input() {
    for layout in layouts(&[40, 30]) {
        let x = Tensor::laid(DType::I32, layout.clone(), &samples(DType::I32));
        let y = Tensor::laid(DType::I32, layout.clone(), &samples(DType::I32)[3..]);
        let expected = one("mul", &[&x, &y], &Attrs::new()).values();
        let over_x = x.relaid(layout.clone());
        launch("mul", &[&over_x, &y, &over_x], &Attrs::new(), 0, 3);
        assert_eq!(over_x.values(), expected);
        let over_y = y.relaid(layout.clone());
        launch("mul", &[&x, &over_y, &over_y], &Attrs::new(), 0, 3);
        assert_eq!(over_y.values(), expected);
        let positive = one("relu", &[&x], &Attrs::new()).values();
        launch("relu", &[&x, &x], &Attrs::new(), 0, 3);
        assert_eq!(x.values(), positive);
    }
}

#[test]
fn many_blocks() {
    // Several blocks, the last not full.
    let values: Vec<i64> = (0..(3 << 15) + 77).collect();
    let x = Tensor::ints(DType::I32, &[values.len()], &values);
    let y = Tensor::ints(DType::F64, &[1], &[1]);
    let got = call_on("add", &[&x, &y], &Attrs::new(), 4).unwrap().remove(0);
    assert!(got.values().iter().zip(&values).all(|(got, &v)| *got == Float(v as f64 + 1.0)));
}

#[test]
fn integer_division_by_zero_is_an_error() {
    let x = Tensor::ints(DType::I64, &[3], &[5]);
    let y = Tensor::ints(DType::I64, &[3], &[1, 0, 2]);
    let error = call("remainder", &[&x, &y], &Attrs::new()).unwrap_err();
    assert!(error.contains("i64 divided by zero"), "{error}");
}

#[test]
fn the_least_integer_divided_by_minus_one_wraps() {
    let x = Tensor::ints(DType::I64, &[1], &[i64::MIN]);
    let y = Tensor::ints(DType::I64, &[1], &[-1]);
    for (mode, op) in [("floor", "div"), ("trunc", "div")] {
        let got = one(op, &[&x, &y], &Attrs::new().with("rounding_mode", mode));
        assert_eq!(got.values(), [Int(i64::MIN.into())]);
    }
    for op in ["remainder", "fmod"] {
        assert_eq!(one(op, &[&x, &y], &Attrs::new()).values(), [Int(0)]);
    }
}
