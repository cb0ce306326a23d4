//! `multi_tensor` leaves the bits that its steps leave one by one, set by set.

use millstream_ops::fused::{Program, Value};
use millstream_types::{Attrs, DType, Layout};

use crate::prepared::check;
use millstream_testing::kernels::*;

use DType::{BF16, F16, F32, F64, I32};

/// The programs, with the dtypes of the tensors of a set, and of those that all sets share.
const PROGRAMS: &[(&str, &[DType], &[DType])] = &[
    ("mul_(%0|other=0.9);add_(%0,%1)", &[F32, F32], &[]),
    ("mul_(%0|other=0.9);add_(%0,%1)", &[F16, F32], &[]),
    // A step of AdamW, with the number of steps and the rate.
    (
        "mul(%5|other=-0.01);add(#0|other=1);mul_(%0,#1);mul(%4|other=-0.1);expm1(#3);div(%5,#4);\
         neg(#4);sqrt(#6);lerp_(%2,%1|weight=0.1);mul_(%3|other=0.99);\
         addcmul_(%3,%1,%1|value=0.01);sqrt(%3);div_(#11,#7);add_(#11|other=1e-8);mul(%2,#5);\
         addcdiv_(%0,#14,#11)",
        &[F32, F32, F32, F32],
        &[F64, F64],
    ),
    (
        "add(%1,%0|alpha=0.5);mul_(%2|other=0.9);add_(%2,#0);addcmul_(%0,%2,%3|value=-1)",
        &[BF16, BF16, BF16],
        &[F64],
    ),
    ("cast(%0|dtype=f32);mul(#0,%1);copy_(%0,#1)", &[F16], &[F32]),
    ("mul_(%0|other=0.9);add_(%1|other=2)", &[F32, I32], &[]),
    ("gt(%0|other=0);where(#0,%1,%0);masked_fill_(%1,#0|value=3);copy_(%0,#1)", &[F32, I32], &[]),
    // With new results.
    ("tanh(%0);add(#0,%1|alpha=2)", &[F32, F16], &[]),
    ("mul(%0,%1);cast(#0|dtype=i32)", &[F64], &[F32]),
];

/// Shapes of sets: empty, of one element, and of several blocks.
const SHAPES: &[&[usize]] = &[&[5, 7], &[0, 3], &[], &[1], &[40_000], &[3, 4, 2]];

fn attrs(program: &str, columns: usize, sets: usize) -> Attrs {
    let attrs = Attrs::new().with("program", program).with("columns", columns as i64);
    attrs.with("sets", sets as i64)
}

/// Makes the tensors of all sets, and the shared ones: the same ones each time.
fn tensors(dtypes: &[DType], shared: &[DType], layout: usize) -> Vec<Tensor> {
    let mut all = Vec::new();
    for (set, shape) in SHAPES.iter().enumerate() {
        for (k, dtype) in dtypes.iter().enumerate() {
            let layouts = layouts(shape);
            let layout = layouts[layout % layouts.len()].clone();
            all.push(Tensor::laid(*dtype, layout, &samples(*dtype)[(set + k) % 4..]));
        }
    }
    // Numbers that a step may have: samples have infinities.
    let number =
        |(k, dtype): (usize, &DType)| Tensor::floats(*dtype, &[], &[3.0 - 2.75 * k as f64]);
    all.extend(shared.iter().enumerate().map(number));
    all
}

/// Makes the steps of a set one by one.
fn one_by_one(program: &Program, inputs: &[Tensor]) -> Option<Tensor> {
    let mut results: Vec<Option<Tensor>> = Vec::new();
    for step in program.steps() {
        let tensor = |operand: &Value| match *operand {
            Value::Input(k) => &inputs[k],
            Value::Step(k) => results[k].as_ref().unwrap(),
        };
        let operands: Vec<&Tensor> = step.operands.iter().map(tensor).collect();
        if step.is_in_place() {
            launch(&step.op, &operands, &step.attrs, 0, 0);
            results.push(None);
        } else {
            results.push(Some(one(&step.op, &operands, &step.attrs)));
        }
    }
    results.pop().flatten()
}

#[test]
fn sets_have_the_bits_of_single_calls() {
    for &(text, dtypes, shared) in PROGRAMS {
        let program = Program::parse(text).unwrap();
        let columns = dtypes.len();
        for layout in 0..3 {
            let expected = tensors(dtypes, shared, layout);
            let common = &expected[columns * SHAPES.len()..];
            let made: Vec<Option<Tensor>> = expected[..columns * SHAPES.len()]
                .chunks(columns)
                .map(|set| one_by_one(&program, &[set, common].concat()))
                .collect();
            for threads in [0, 3] {
                let given = tensors(dtypes, shared, layout);
                let all: Vec<&Tensor> = given.iter().collect();
                let attrs = attrs(text, columns, SHAPES.len());
                let got = call_on("multi_tensor", &all, &attrs, threads).unwrap();
                for (k, (got, wanted)) in given.iter().zip(&expected).enumerate() {
                    assert!(
                        got.bytes() == wanted.bytes(),
                        "{text}, tensor {k}: {got:?}, {wanted:?}"
                    );
                }
                for (got, wanted) in got.iter().zip(&made) {
                    let Some(wanted) = wanted else { continue };
                    assert!(got.bytes() == wanted.bytes(), "{text}: {got:?}, {wanted:?}");
                }
                given.iter().for_each(Tensor::check_gaps);
            }
            let again = || tensors(dtypes, shared, layout);
            assert!(check("multi_tensor", &attrs(text, columns, SHAPES.len()), again));
        }
    }
}

#[test]
fn a_number_keeps_all_tensors_as_they_are() {
    let attrs = attrs("mul_(%0|other=2.0)", 1, 2).with("unless", 1);
    for (number, expected) in [(0.0, [2.0, 8.0]), (1.0, [1.0, 4.0]), (f64::NAN, [1.0, 4.0])] {
        let given = [1.0, 4.0, number].map(|v| Tensor::floats(F32, &[], &[v]));
        call("multi_tensor", &given.iter().collect::<Vec<_>>(), &attrs).unwrap();
        let expected = expected.map(|v| Tensor::floats(F32, &[], &[v]).bytes());
        assert_eq!([given[0].bytes(), given[1].bytes()], expected, "unless {number}");
    }
}

#[test]
fn an_element_that_is_not_finite_is_found() {
    let attrs = attrs("mul_(%0,%1)", 1, 2).with("found", 2);
    for dtype in [F16, BF16, F32, F64] {
        for wrong in [None, Some(f64::INFINITY), Some(f64::NEG_INFINITY), Some(f64::NAN)] {
            for at in [0, 41_000] {
                let mut values = vec![1.5; 41_001];
                values[at] = wrong.unwrap_or(2.0);
                let (small, large) = (Tensor::floats(dtype, &[1], &[1.0]), &values[..]);
                let large = Tensor::floats(dtype, &[values.len()], large);
                let half = Tensor::floats(dtype, &[], &[0.5]);
                let found = Tensor::floats(F32, &[], &[0.0]);
                let given = [&small, &large, &half, &found];
                call_on("multi_tensor", &given, &attrs, 3).unwrap();
                let expected = Tensor::floats(F32, &[], &[f64::from(u8::from(wrong.is_some()))]);
                assert_eq!(found.bytes(), expected.bytes(), "{dtype} {wrong:?} at {at}");
                assert_eq!(small.bytes(), Tensor::floats(dtype, &[1], &[0.5]).bytes());
            }
        }
    }
}

#[test]
fn tensors_that_share_memory_are_refused() {
    let x = Tensor::floats(F32, &[8], &[1.0; 8]);
    let halves = [0, 4].map(|from| x.viewed(Layout::strided(&[4], &[1], from).unwrap()));
    let overlapping = x.viewed(Layout::strided(&[4], &[1], 2).unwrap());
    let attrs = attrs("mul_(%0|other=2.0)", 1, 2);
    call("multi_tensor", &[&halves[0], &halves[1]], &attrs).unwrap();
    assert_eq!(x.bytes(), Tensor::floats(F32, &[8], &[2.0; 8]).bytes());
    let error = try_launch("multi_tensor", &[&halves[0], &overlapping], &attrs, 0, 0).unwrap_err();
    assert!(error.contains("share memory"), "{error}");
}
