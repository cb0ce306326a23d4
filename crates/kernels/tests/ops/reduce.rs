//! `sum`, and the independence of all reductions from the number of threads.

use millstream_types::{Attrs, DType, Layout};
use proptest::prelude::*;

use millstream_testing::kernels::*;

/// Returns the sum over some dimensions, element by element.
fn reference(x: &Tensor, dims: &[usize], keep: bool, dtype: DType, index: &[usize]) -> Num {
    let mut total = if dtype.is_float() { Float(0.0) } else { Int(0) };
    for full in indices(x.shape()) {
        let rest: Vec<usize> = (0..full.len())
            .filter(|k| keep || !dims.contains(k))
            .map(|k| if dims.contains(&k) { 0 } else { full[k] })
            .collect();
        if rest == index {
            total = match (total, rounded(x.get(&full), dtype)) {
                (Int(a), Int(b)) => Int(a + b),
                (Float(a), Float(b)) => Float(a + b),
                mixed => panic!("{mixed:?}"),
            };
        }
    }
    rounded(total, dtype)
}

fn check(x: &Tensor, dims: Option<Vec<i64>>, keep: bool, dtype: Option<DType>) {
    let mut attrs = Attrs::new().with("keepdim", keep);
    if let Some(dims) = &dims {
        attrs.set("dim", dims.clone());
    }
    if let Some(dtype) = dtype {
        attrs.set("dtype", dtype);
    }
    let rank = x.shape().len();
    let named: Vec<usize> = match dims {
        Some(dims) if !dims.is_empty() => {
            dims.iter().map(|d| d.rem_euclid(rank.max(1) as i64) as usize).collect()
        }
        _ => (0..rank).collect(),
    };
    let got = one("sum", &[x], &attrs);
    let default = if x.spec.dtype.is_float() { x.spec.dtype } else { DType::I64 };
    let dtype = dtype.unwrap_or(default);
    assert_eq!(got.spec.dtype, dtype);
    for index in indices(got.shape()) {
        let expected = reference(x, &named, keep, dtype, &index);
        assert_eq!(got.get(&index), expected, "{attrs} {index:?} of {x:?}");
    }
}

#[test]
fn dtypes_dims_and_layouts() {
    // Small whole numbers: every order of additions gives the same sum.
    let small: Vec<Num> = (-7..9).map(Int).collect();
    for dtype in DType::REAL {
        for layout in layouts(&[3, 4, 5]) {
            let x = Tensor::laid(dtype, layout, &small);
            for dims in [None, Some(vec![]), Some(vec![0]), Some(vec![-1]), Some(vec![0, 2])] {
                for keep in [false, true] {
                    check(&x, dims.clone(), keep, None);
                }
            }
            check(&x, Some(vec![2, -2]), false, Some(DType::F64));
            check(&x, Some(vec![1]), false, Some(DType::U8));
        }
    }
}

#[test]
fn result_into_strided_output() {
    let small: Vec<Num> = (-7..9).map(Int).collect();
    let x = Tensor::dense(DType::F32, &[3, 40, 5], &small);
    let attrs = Attrs::new().with("dim", 1);
    let expected = one("sum", &[&x], &attrs).values();
    for layout in layouts(&[3, 5]) {
        assert_eq!(one_into("sum", &[&x], &attrs, layout).values(), expected);
    }
}

#[test]
fn empty_scalar_and_overlapping_operands() {
    check(&Tensor::floats(DType::F32, &[], &[2.5]), None, false, None);
    check(&Tensor::floats(DType::F32, &[], &[2.5]), Some(vec![-1]), true, None);
    check(&Tensor::ints(DType::Bool, &[3], &[1]), None, false, None);
    check(&Tensor::floats(DType::F32, &[0, 3], &[1.0]), Some(vec![0]), false, None);
    check(&Tensor::floats(DType::F32, &[0, 3], &[1.0]), Some(vec![1]), true, None);
    check(&Tensor::ints(DType::I32, &[0], &[1]), None, false, None);
    let row = Tensor::ints(DType::I32, &[3], &[1, 2, 3]).view(&[500, 3], &[0, 1], 0);
    check(&row, Some(vec![0]), false, None);
    check(&row, Some(vec![1]), false, None);
    let true_or = Tensor::ints(DType::I32, &[2, 3], &[0, 2, 0, 0, 0, 0]);
    check(&true_or, Some(vec![1]), false, Some(DType::Bool));
}

#[test]
fn special_values_and_overflow() {
    let sum = |dtype, values: &[f64]| {
        let x = Tensor::floats(dtype, &[values.len()], values);
        one("sum", &[&x], &Attrs::new()).get(&[])
    };
    assert_eq!(sum(DType::F32, &[1.0, f64::NAN]), Float(f64::NAN));
    assert_eq!(sum(DType::F32, &[1.0, f64::INFINITY]), Float(f64::INFINITY));
    assert_eq!(sum(DType::F64, &[f64::INFINITY, f64::NEG_INFINITY]), Float(f64::NAN));
    // The sum exceeds the largest f16 on the way and returns into its range.
    assert_eq!(sum(DType::F16, &[60000.0, 60000.0, -60000.0]), Float(59968.0 + 32.0));
    assert_eq!(sum(DType::F16, &[60000.0, 60000.0]), Float(f64::INFINITY));
    let x = Tensor::ints(DType::I64, &[2], &[i64::MAX, 1]);
    assert_eq!(one("sum", &[&x], &Attrs::new()).get(&[]), Int(i64::MIN.into()));
    let ones = vec![1.0; 5000];
    assert_eq!(sum(DType::BF16, &ones), rounded(Float(5000.0), DType::BF16));
}

fn uneven(count: usize) -> Vec<f64> {
    (0..count)
        .map(|i| ((i * 7919 % 10007) as f64).sin() * 10f64.powi((i % 13) as i32 - 6))
        .collect()
}

#[test]
fn long_sums_are_accurate() {
    // Five parts, the last not full, in both layouts, so that both loading orders run.
    let length = 4 * millstream_ops::reduce::SUM_PART + 1001;
    let values = uneven(length * 3);
    let x = Tensor::floats(DType::F32, &[length, 3], &values);
    let bits = |v: Num| match v {
        Float(v) => v.to_bits(),
        Int(_) => panic!("a float"),
    };
    for x in [x.clone(), x.relaid(layouts(&[length, 3]).remove(0))] {
        let got = one("sum", &[&x], &Attrs::new().with("dim", 0));
        for column in 0..3 {
            let all: Vec<f64> = (0..length)
                .map(|i| match x.get(&[i, column]) {
                    Float(v) => v,
                    Int(_) => panic!("a float"),
                })
                .collect();
            let (exact, size): (f64, f64) = (all.iter().sum(), all.iter().map(|v| v.abs()).sum());
            let Float(got) = got.get(&[column]) else { panic!("a float") };
            // Higham's bound for pairwise sums: the unit roundoff times the number of levels (32
            // within a SIMD lane, then the tree) times the sum of magnitudes.
            let bound = f64::from(f32::EPSILON) / 2.0 * (32.0 + 24.0) * size;
            assert!((got - exact).abs() <= bound, "{got} for {exact}");
        }
    }
    // The shape alone fixes the order, so every layout gives the same sum.
    let one_way = one("sum", &[&x], &Attrs::new().with("dim", 0));
    for layout in layouts(&[length, 3]) {
        let other = one("sum", &[&x.relaid(layout)], &Attrs::new().with("dim", 0));
        let (a, b) = (one_way.values(), other.values());
        assert!(a.into_iter().map(bits).eq(b.into_iter().map(bits)));
    }
}

#[test]
fn results_do_not_depend_on_threads() {
    let length = 3 * millstream_ops::reduce::SUM_PART + 5;
    for dtype in [DType::F32, DType::F64, DType::F16] {
        let x = Tensor::floats(dtype, &[length, 5], &uneven(length * 5));
        for attrs in [
            Attrs::new(),
            Attrs::new().with("dim", 0),
            Attrs::new().with("dim", 1),
            Attrs::new().with("dim", 0).with("dtype", "f32"),
        ] {
            let runs = [0, 1, 4]
                .map(|threads| call_on("sum", &[&x], &attrs, threads).unwrap().remove(0).bytes());
            assert!(runs[0] == runs[1] && runs[1] == runs[2], "{dtype} {attrs}");
        }
    }
}

#[test]
fn no_reduction_depends_on_threads() {
    let length = 2 * millstream_ops::reduce::SUM_PART + 5;
    let x = Tensor::floats(DType::F32, &[length, 17], &uneven(length * 17));
    for op in ["mean", "prod", "var", "linalg_vector_norm", "logsumexp", "amax", "argmin", "cumsum"]
    {
        for dim in [0, 1] {
            let attrs = Attrs::new().with("dim", dim);
            let runs = [0, 1, 4]
                .map(|threads| call_on(op, &[&x], &attrs, threads).unwrap().remove(0).bytes());
            assert!(runs[0] == runs[1] && runs[1] == runs[2], "{op} {attrs}");
        }
    }
}

/// Rows, columns and copies of elements are reduced by different loops.
#[test]
fn no_reduction_depends_on_the_layout() {
    for (rows, columns) in [(1000, 150), (2 * millstream_ops::reduce::SUM_PART + 5, 17)] {
        let x = Tensor::floats(DType::F32, &[rows, columns], &uneven(rows * columns));
        let strided = |strides: &[usize]| Layout::strided(&[rows, columns], strides, 0).unwrap();
        let others = [strided(&[1, rows]), strided(&[3 * columns, 3])];
        for op in ["sum", "mean", "amax", "amin", "max", "argmax", "linalg_vector_norm"] {
            for dim in [0, 1] {
                let attrs = Attrs::new().with("dim", dim);
                let expected = one(op, &[&x], &attrs).bytes();
                for layout in &others {
                    let got = one(op, &[&x.relaid(layout.clone())], &attrs);
                    assert!(got.bytes() == expected, "{op} {attrs} {layout:?}");
                }
            }
        }
    }
}

#[test]
fn extremes_of_long_rows_are_the_first() {
    for (values, greatest) in [
        (vec![(70, 5.0), (300, 5.0), (33, -5.0)], 70),
        (vec![(290, f64::NAN), (301, f64::NAN), (12, 9.0)], 290),
        (vec![(0, 0.0), (1, -0.0)], 0),
    ] {
        let mut all = vec![-1.0; 333];
        values.iter().for_each(|&(at, v)| all[at] = v);
        let x = Tensor::floats(DType::F32, &[1, 333], &all);
        assert_eq!(one("argmax", &[&x], &Attrs::new().with("dim", 1)).get(&[0]), Int(greatest));
    }
}

proptest! {
    /// Rows in place are reduced in any order of comparisons, copies in order; zeros have signs.
    #[test]
    fn extremes_do_not_depend_on_the_order_of_comparisons(
        values in prop::collection::vec(
            prop::sample::select(vec![-2.0, -1.0, -0.0, 0.0, 1.0, 2.0, f64::INFINITY, f64::NAN]),
            1..700,
        ),
        most in -2..4i8,
        dtype in prop::sample::select(vec![DType::F32, DType::F64, DType::I64]),
    ) {
        // Few values are left, so that zeros and infinities are extremes as well.
        let value = |v: f64| match v {
            v if v > f64::from(most) => -f64::INFINITY,
            v if v.is_nan() && most < 3 => -3.0,
            v => v,
        };
        let count = values.len();
        let row: Vec<f64> = values.into_iter().map(value).collect();
        let row: Vec<Num> = row.iter().map(|&v| rounded(Float(v), dtype)).collect();
        let x = Tensor::dense(dtype, &[2, count], &row);
        let apart = x.relaid(Layout::strided(&[2, count], &[3 * count, 3], 0).unwrap());
        let number = |v: Num| match v {
            Int(v) => v as f64,
            Float(v) => v,
        };
        for (op, index, sign) in [("amax", "argmax", 1.0), ("amin", "argmin", -1.0)] {
            let attrs = Attrs::new().with("dim", 1);
            prop_assert_eq!(one(op, &[&x], &attrs).bytes(), one(op, &[&apart], &attrs).bytes());
            let all: Vec<f64> = row.iter().map(|&v| sign * number(v)).collect();
            let greatest = (1..count).fold(0, |best, k| if all[k] > all[best] { k } else { best });
            let first = all.iter().position(|v| v.is_nan()).unwrap_or(greatest);
            for x in [&x, &apart] {
                prop_assert_eq!(one(index, &[x], &attrs).get(&[1]), Int(first as i128));
                prop_assert_eq!(one(op, &[x], &attrs).get(&[1]), row[first]);
            }
        }
    }
}
