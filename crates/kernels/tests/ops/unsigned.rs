//! u16, u32 and u64: conversions, comparisons, bits and moves, against numbers computed one by one.

use std::cmp::Ordering;

use millstream_types::{AttrValue, Attrs, DType, Layout};
use proptest::prelude::*;

use crate::properties::{layout, operand};
use millstream_testing::kernels::*;

const WIDE: [DType; 3] = [DType::U16, DType::U32, DType::U64];

fn wide() -> impl Strategy<Value = DType> {
    prop::sample::select(WIDE.to_vec())
}

/// Returns any dtype but complex ones.
fn real() -> impl Strategy<Value = DType> {
    prop::sample::select([&DType::REAL[..], &WIDE].concat())
}

/// Returns values of a dtype around the ends of its range, at places that depend on `seed`.
fn values(dtype: DType, seed: u64) -> Vec<Num> {
    let some = |k: u64| {
        let word = (seed ^ k).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let small = i128::from(word >> 60);
        let v = match word >> 32 & 3 {
            0 => small,
            1 => (1 << (8 * dtype.size() - 1)) - 2 + small,
            2 => -small,
            _ => i128::from(word),
        };
        rounded(Int(v), dtype)
    };
    (0..61).map(some).chain(samples(dtype)).collect()
}

/// Returns an element at an index of a shape that the tensor broadcasts to.
fn element(x: &Tensor, index: &[usize]) -> Num {
    x.get(&broadcast_index(x.shape(), index))
}

fn compare(x: Num, y: Num) -> Option<Ordering> {
    match (x, y) {
        (Int(x), Int(y)) => Some(x.cmp(&y)),
        (Float(x), Float(y)) => x.partial_cmp(&y),
        mixed => panic!("{mixed:?}"),
    }
}

/// What a comparison answers, given the order of two numbers; none with a NaN.
type Answer = fn(Option<Ordering>) -> bool;

const COMPARISONS: [(&str, Answer); 6] = [
    ("eq", |o| o == Some(Ordering::Equal)),
    ("ne", |o| o != Some(Ordering::Equal)),
    ("lt", |o| o == Some(Ordering::Less)),
    ("le", |o| o.is_some_and(Ordering::is_le)),
    ("gt", |o| o == Some(Ordering::Greater)),
    ("ge", |o| o.is_some_and(Ordering::is_ge)),
];

/// Checks an op that moves elements: it moves values as it moves their numbers. The targets of a
/// call hold numbers from 1000 on.
#[track_caller]
fn check_move(op: &str, dtype: DType, inputs: &[&Tensor], attrs: &Attrs) {
    let all = values(dtype, 7);
    let value = |v: Num| match v {
        Int(v) => all[v as usize % all.len()],
        Float(_) => v,
    };
    let moved = |x: &Tensor| match x.spec.dtype {
        DType::I64 => {
            let each: Vec<Num> = x.values().into_iter().map(value).collect();
            Tensor::dense(dtype, x.shape(), &each)
        }
        _ => x.clone(),
    };
    let operands: Vec<Tensor> = inputs.iter().map(|x| moved(x)).collect();
    let operands: Vec<&Tensor> = operands.iter().collect();
    let got = call(op, &operands, attrs).unwrap();
    let expected = call(op, inputs, attrs).unwrap();
    assert_eq!(got[0].spec.dtype, dtype, "{op}");
    let expected: Vec<Num> = expected[0].values().into_iter().map(value).collect();
    assert_eq!(got[0].values(), expected, "{op} {dtype} {attrs}");
}

#[test]
fn elements_are_moved() {
    let numbers = |shape: &[usize], from: i64| {
        let count: usize = shape.iter().product();
        Tensor::ints(DType::I64, shape, &(from..from + count as i64).collect::<Vec<_>>())
    };
    let (x, y) = (numbers(&[4, 5], 0), numbers(&[4, 5], 1000));
    // Indices are i32 here, as tensors of i64 hold the numbers of elements.
    let index = |shape: &[usize], of: &[i64]| Tensor::ints(DType::I32, shape, of);
    let mask = Tensor::ints(DType::Bool, &[4, 5], &[1, 0, 0, 1, 0, 1, 1]);
    let none = Attrs::new();
    let dim = |dim: i64| Attrs::new().with("dim", dim);
    for dtype in WIDE {
        let check = |op: &str, inputs: &[&Tensor], attrs: &Attrs| {
            check_move(op, dtype, inputs, attrs);
        };
        check("copy", &[&x], &none);
        check("clone", &[&x.view(&[5, 4], &[1, 5], 0)], &none);
        check("copy_", &[&y, &x], &none);
        check("reshape", &[&x.view(&[5, 4], &[1, 5], 0)], &Attrs::new().with("shape", vec![20]));
        check("cat", &[&x, &y], &dim(1));
        check("stack", &[&x, &y], &dim(2));
        check("repeat", &[&x], &Attrs::new().with("repeats", vec![2, 1, 3]));
        check("flip", &[&x], &Attrs::new().with("dims", vec![0, 1]));
        check("roll", &[&x], &Attrs::new().with("shifts", vec![7]));
        check("roll", &[&x], &Attrs::new().with("shifts", vec![3]).with("dims", vec![1]));
        check("where", &[&mask, &x, &y], &none);
        check("masked_select", &[&x, &mask], &none);
        check("gather", &[&x, &index(&[2, 5], &[3, 0, 1])], &dim(0));
        check("index_select", &[&x, &index(&[3], &[4, 4, 0])], &dim(1));
        check("index", &[&x, &index(&[2], &[-1, 2]), &index(&[2], &[0, 4])], &none);
        check("index", &[&x, &mask], &none);
        check("scatter", &[&y, &index(&[2, 5], &[3, 0, 1]), &x], &dim(0));
        check("scatter_", &[&y, &index(&[2, 5], &[3, 0, 1]), &x], &dim(0));
        check(
            "index_put",
            &[&y, &numbers(&[2], 0), &index(&[2], &[1, 2]), &index(&[2], &[0, 4])],
            &none,
        );
    }
}

#[test]
fn zeros_are_known() {
    for dtype in WIDE {
        let x = Tensor::dense(dtype, &[3, 3], &[Int(1 << 15), Int(0), Int(2)]);
        let found = call("nonzero", &[&x], &Attrs::new()).unwrap();
        assert_eq!(found[0].values(), [0, 0, 0, 2, 1, 0, 1, 2, 2, 0, 2, 2].map(Int));
        let upper = one("triu", &[&x], &Attrs::new());
        assert_eq!(upper.values(), [1 << 15, 0, 2, 0, 0, 2, 0, 0, 2].map(Int));
        let pad = Attrs::new().with("pad", vec![0, 1, 0, 0]).with("value", 40_000);
        let padded = one("constant_pad_nd", &[&x], &pad);
        assert_eq!(padded.get(&[1, 3]), Int(40_000));
        assert_eq!(padded.get(&[1, 2]), Int(2));
    }
}

#[test]
fn numbers_beyond_the_signed_range() {
    let full = |dtype, value: AttrValue| {
        let attrs = Attrs::new().with("shape", vec![3]).with("dtype", dtype).with("value", value);
        one("full", &[], &attrs).get(&[1])
    };
    assert_eq!(full(DType::U16, AttrValue::Int(65_535)), Int(65_535));
    assert_eq!(full(DType::U16, AttrValue::Float(65_535.0)), Int(65_535));
    assert_eq!(full(DType::U64, AttrValue::Float(2f64.powi(63))), Int(1 << 63));
    let x = Tensor::ints(DType::U64, &[2], &[5, 6]);
    let mask = Tensor::ints(DType::Bool, &[2], &[1, 0]);
    let filled = |value: AttrValue| {
        one("masked_fill", &[&x, &mask], &Attrs::new().with("value", value)).values()
    };
    assert_eq!(filled(AttrValue::Float(2f64.powi(63))), [Int(1 << 63), Int(6)]);
    assert_eq!(filled(AttrValue::Int(-1)), [Int(u64::MAX.into()), Int(6)]);
    let lone = Tensor::floats(DType::F32, &[], &[2f64.powi(63)]);
    let got = one("masked_fill", &[&x, &mask, &lone], &Attrs::new());
    assert_eq!(got.values(), [Int(1 << 63), Int(6)]);
    let index = Tensor::ints(DType::I64, &[1], &[1]);
    let attrs = Attrs::new().with("dim", 0).with("value", 2f64.powi(63));
    assert_eq!(one("scatter", &[&x, &index], &attrs).values(), [Int(5), Int(1 << 63)]);
    let range = Attrs::new().with("start", 65_530).with("end", 65_536).with("dtype", DType::U16);
    let range = one("arange", &[], &range);
    assert_eq!(range.values(), [65_530, 65_531, 65_532, 65_533, 65_534, 65_535].map(Int));
    let negative = Attrs::new().with("shape", vec![1]).with("dtype", DType::U16).with("value", -1);
    assert!(signature("full", &[], &negative).unwrap_err().contains("u16 cannot hold -1"));
}

#[test]
fn sums_of_index_put_wrap() {
    for dtype in WIDE {
        let most = rounded(Int(-1), dtype);
        let x = Tensor::dense(dtype, &[2], &[most, Int(1)]);
        let two = Tensor::ints(dtype, &[1], &[2]);
        let index = Tensor::ints(DType::I64, &[1], &[0]);
        let attrs = Attrs::new().with("accumulate", true);
        assert_eq!(one("index_put", &[&x, &two, &index], &attrs).values(), [Int(1), Int(1)]);
    }
}

#[test]
fn what_is_not_defined_is_refused() {
    let x = Tensor::ints(DType::U16, &[2], &[1, 2]);
    for op in ["add", "neg", "sum", "amax", "exp", "matmul", "topk", "cumsum"] {
        let inputs = if ["add", "matmul"].contains(&op) { vec![&x, &x] } else { vec![&x] };
        let error = signature(op, &inputs, &Attrs::new()).unwrap_err();
        assert!(error.contains("not defined for u16, u32 and u64, got u16[2]"), "{op}: {error}");
    }
    let random = Attrs::new().with("shape", vec![2]).with("dtype", DType::U32);
    assert!(signature("uniform", &[], &random).is_err());
    let signed = Tensor::ints(DType::I32, &[2], &[1, 2]);
    for op in ["eq", "lt", "bitwise_and", "cat"] {
        let error = signature(op, &[&x, &signed], &Attrs::new()).unwrap_err();
        assert!(error.contains("u16 and i32 have no common dtype"), "{op}: {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn conversions(
        (from, to, swap) in (wide(), real(), any::<bool>()),
        (own, out) in prop::collection::vec(0..7usize, 0..4)
            .prop_flat_map(|shape| (layout(shape.clone()), layout(shape))),
        seed in any::<u64>(),
    ) {
        let (from, to) = if swap { (to, from) } else { (from, to) };
        let x = Tensor::laid(from, own, &values(from, seed));
        let got = one_into("cast", &[&x], &Attrs::new().with("dtype", to), out);
        for index in indices(got.shape()) {
            prop_assert_eq!(got.get(&index), rounded(x.get(&index), to), "{:?} to {}", x, to);
        }
    }

    #[test]
    fn comparisons(
        (dtype, float) in (wide(), prop::option::of(prop::sample::select(vec![
            DType::F16, DType::BF16, DType::F32, DType::F64,
        ]))),
        (one_shape, other) in prop::collection::vec(0..7usize, 0..4)
            .prop_flat_map(|shape| (layout(shape.clone()), operand(shape))),
        (seed, swap, op) in (any::<u64>(), any::<bool>(), 0..COMPARISONS.len()),
    ) {
        let y_dtype = float.unwrap_or(dtype);
        let x = Tensor::laid(dtype, one_shape, &values(dtype, seed));
        let y = Tensor::laid(y_dtype, other, &values(y_dtype, seed / 3));
        let (x, y) = if swap { (y, x) } else { (x, y) };
        let (name, expected) = COMPARISONS[op];
        // Beside a float without dimensions, or in one, the float decides alone.
        let common = float.unwrap_or(dtype);
        let got = one(name, &[&x, &y], &Attrs::new());
        for index in indices(got.shape()) {
            let of = |t: &Tensor| rounded(element(t, &index), common);
            let expected = Int(expected(compare(of(&x), of(&y))).into());
            prop_assert_eq!(got.get(&index), expected, "{}: {:?} and {:?}", name, of(&x), of(&y));
        }
    }

    #[test]
    fn comparisons_with_numbers(
        dtype in wide(), seed in any::<u64>(), op in 0..COMPARISONS.len(), number in any::<i64>(),
        small in any::<bool>(),
    ) {
        let number = if small { number % 3 } else { number };
        let x = Tensor::dense(dtype, &[70], &values(dtype, seed));
        let (name, expected) = COMPARISONS[op];
        let got = one(name, &[&x], &Attrs::new().with("other", number));
        // A tensor of another integer dtype without dimensions converts as a number does.
        let lone = one(name, &[&x, &Tensor::ints(DType::I64, &[], &[number])], &Attrs::new());
        let number = rounded(Int(number.into()), dtype);
        for index in indices(&[70]) {
            let expected = Int(expected(compare(x.get(&index), number)).into());
            prop_assert_eq!(got.get(&index), expected, "{:?} {} {:?}", x.get(&index), name, number);
            prop_assert_eq!(lone.get(&index), expected);
        }
    }

    #[test]
    fn bits(
        dtype in wide(),
        (own, other, out) in prop::collection::vec(0..7usize, 0..4).prop_flat_map(|shape| {
            (layout(shape.clone()), operand(shape.clone()), layout(shape))
        }),
        (seed, op) in (any::<u64>(), 0..3usize),
    ) {
        let x = Tensor::laid(dtype, own, &values(dtype, seed));
        let y = Tensor::laid(dtype, other, &values(dtype, seed / 3));
        let name = ["bitwise_and", "bitwise_or", "bitwise_xor"][op];
        let got = one_into(name, &[&x, &y], &Attrs::new(), out);
        let not = one("bitwise_not", &[&x], &Attrs::new());
        for index in indices(got.shape()) {
            let (Int(a), Int(b)) = (x.get(&index), element(&y, &index)) else { unreachable!() };
            let expected = [a & b, a | b, a ^ b][op];
            prop_assert_eq!(got.get(&index), Int(expected));
            prop_assert_eq!(not.get(&index), rounded(Int(!a), dtype));
        }
    }

    #[test]
    fn sorts(dtype in wide(), seed in any::<u64>(), length in 1..40usize, down in any::<bool>()) {
        let x = Tensor::dense(dtype, &[2, length], &values(dtype, seed));
        let attrs = Attrs::new().with("descending", down);
        let sorted = call("sort", &[&x], &attrs).unwrap();
        let positions = one("argsort", &[&x], &attrs);
        for row in 0..2 {
            let value = |at: usize| match x.get(&[row, at]) {
                Int(v) => v,
                Float(_) => unreachable!(),
            };
            let mut order: Vec<usize> = (0..length).collect();
            order.sort_by_key(|&at| if down { -value(at) } else { value(at) });
            for (to, &at) in order.iter().enumerate() {
                prop_assert_eq!(sorted[0].get(&[row, to]), Int(value(at)));
                prop_assert_eq!(sorted[1].get(&[row, to]), Int(at as i128));
                prop_assert_eq!(positions.get(&[row, to]), Int(at as i128));
            }
        }
        let mut distinct: Vec<i128> = x.values().into_iter().map(|v| match v {
            Int(v) => v,
            Float(_) => unreachable!(),
        }).collect();
        distinct.sort_unstable();
        distinct.dedup();
        let unique = call("unique", &[&x], &Attrs::new()).unwrap();
        let distinct: Vec<Num> = distinct.into_iter().map(Int).collect();
        prop_assert_eq!(unique[0].values(), distinct);
    }
}

/// The hash is the exclusive or of elements as f64 or as integers of 64 bits.
#[test]
fn hashes() {
    let word = |v: Num| match v {
        Int(v) => v as u64,
        Float(v) => v.to_bits(),
    };
    for dtype in [&DType::REAL[..], &WIDE].concat() {
        // NaN has many bit patterns.
        let all: Vec<Num> =
            values(dtype, 3).into_iter().filter(|v| *v != Float(f64::NAN)).collect();
        for layout in layouts(&[3, 700]) {
            let x = Tensor::laid(dtype, layout, &all);
            let rows = one("hash_tensor", &[&x], &Attrs::new().with("dim", 1));
            let hash = |row: usize| (0..700).fold(0, |bits, k| bits ^ word(x.get(&[row, k])));
            let expected: Vec<u64> = (0..3).map(hash).collect();
            let whole = expected.iter().fold(0, |a, b| a ^ b);
            assert_eq!(rows.spec.dtype, DType::U64);
            let expected: Vec<Num> = expected.into_iter().map(|v| Int(v.into())).collect();
            assert_eq!(rows.values(), expected, "{dtype}");
            let all = call_on("hash_tensor", &[&x], &Attrs::new(), 3).unwrap().remove(0);
            assert_eq!(all.values(), [Int(whole.into())], "{dtype}");
        }
        let none = Tensor::dense(dtype, &[0, 2], &[Int(0)]);
        let attrs = Attrs::new().with("dim", 0).with("keepdim", true).with("mode", 0);
        assert_eq!(one("hash_tensor", &[&none], &attrs).values(), [Int(0), Int(0)]);
    }
    let x = Tensor::ints(DType::I64, &[2], &[1, 2]);
    assert!(signature("hash_tensor", &[&x], &Attrs::new().with("mode", 1)).is_err());
}

/// Copies to other dtypes overlap as copies of one do, and rows of any step agree with dense ones.
#[test]
fn conversions_over_shared_memory() {
    let memory = Tensor::ints(DType::U32, &[64], &(0..64).map(|k| k << 26).collect::<Vec<_>>());
    let x = memory.view(&[20], &[1], 0);
    let words = Layout::strided(&[20], &[2], 3).unwrap();
    let narrow = memory.viewed_as(words, DType::U16);
    let expected: Vec<Num> = x.values().into_iter().map(|v| rounded(v, DType::U16)).collect();
    call("copy_", &[&narrow, &x], &Attrs::new()).unwrap();
    assert_eq!(narrow.values(), expected);
}
