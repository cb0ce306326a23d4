//! `copy`, `cast` and `fill`.

use millstream_types::{AttrValue, Attrs, DType};

use millstream_testing::kernels::*;

#[test]
fn every_pair_of_dtypes_and_layout() {
    for from in DType::REAL {
        for to in DType::REAL {
            for layout in layouts(&[4, 7]) {
                let x = Tensor::laid(from, layout.clone(), &samples(from));
                let attrs = Attrs::new().with("dtype", to);
                for got in [one("cast", &[&x], &attrs), one_into("cast", &[&x], &attrs, layout)] {
                    for index in indices(&[4, 7]) {
                        let v = x.get(&index);
                        assert_eq!(got.get(&index), rounded(v, to), "{v:?} {from} to {to}");
                    }
                }
            }
        }
    }
}

#[test]
fn floats_to_integers() {
    let x = Tensor::floats(
        DType::F32,
        &[7],
        &[2.9, -2.9, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e10, -0.5],
    );
    for (to, expected) in [
        (DType::I8, [2, -2, 0, 127, -128, 127, 0]),
        (DType::U8, [2, 0, 0, 255, 0, 255, 0]),
        (DType::I64, [2, -2, 0, i64::MAX, i64::MIN, 10_000_000_000, 0]),
        (DType::Bool, [1, 1, 1, 1, 1, 1, 1]),
    ] {
        let got = one("cast", &[&x], &Attrs::new().with("dtype", to));
        assert_eq!(got.values(), expected.map(|v| Int(v.into())), "{to}");
    }
}

#[test]
fn copy_keeps_every_bit() {
    // Signalling NaNs, which a conversion and its reversal would change.
    for (dtype, words) in [
        (DType::F16, [0x7C01, 0xFC01, 0x0001, 0x8000]),
        (DType::BF16, [0x7F81, 0xFF81, 0x0001, 0x8000]),
    ] {
        let bits = Tensor::ints(DType::I16, &[2, 2], &words);
        let bytes = bits.bytes();
        let mut x = bits.clone();
        x.spec.dtype = dtype;
        let got = one("copy", &[&x], &Attrs::new());
        assert_eq!(got.bytes()[..8], bytes[..8], "{dtype}");
    }
}

#[test]
fn copy_of_every_layout() {
    for dtype in DType::REAL {
        for layout in layouts(&[3, 1, 5]) {
            let x = Tensor::laid(dtype, layout, &samples(dtype));
            let got = one("copy", &[&x], &Attrs::new());
            assert!(got.spec.layout.is_contiguous());
            assert_eq!(got.values(), x.values());
        }
    }
    let repeated = Tensor::ints(DType::I32, &[2], &[5, 6]).view(&[3, 2], &[0, 1], 0);
    assert_eq!(one("copy", &[&repeated], &Attrs::new()).values(), [5, 6, 5, 6, 5, 6].map(Int));
    assert_eq!(one("copy", &[&Tensor::ints(DType::U8, &[0], &[0])], &Attrs::new()).shape(), [0]);
    assert_eq!(
        one("copy", &[&Tensor::ints(DType::U8, &[], &[9])], &Attrs::new()).values(),
        [Int(9)]
    );
}

#[test]
fn fill_every_dtype_and_layout() {
    for dtype in DType::REAL {
        for value in [AttrValue::Int(1), AttrValue::Float(1.0), AttrValue::Bool(true)] {
            for layout in layouts(&[3, 4]) {
                let x = Tensor::unwritten(dtype, layout);
                let got = one("fill", &[&x], &Attrs::new().with("value", value.clone()));
                assert!(got.values().iter().all(|v| *v == rounded(Int(1), dtype)), "{dtype}");
                got.check_gaps();
            }
        }
    }
}

#[test]
fn fill_rounds_once_and_takes_special_values() {
    let fill = |dtype, value: AttrValue| {
        let x = Tensor::unwritten(dtype, millstream_types::Layout::contiguous(&[]).unwrap());
        one("fill", &[&x], &Attrs::new().with("value", value)).get(&[])
    };
    // By way of f64, this value would round twice: up to an even f64, then down.
    let odd = (1 << 62) + (1 << 38) + 1;
    assert_eq!(fill(DType::F32, AttrValue::Int(odd)), Float((odd as f32).into()));
    assert_eq!(fill(DType::F32, AttrValue::Float(f64::NAN)), Float(f64::NAN));
    assert_eq!(fill(DType::F16, AttrValue::Float(f64::INFINITY)), Float(f64::INFINITY));
    assert_eq!(fill(DType::Bool, AttrValue::Float(0.5)), Int(1));
    assert_eq!(fill(DType::I64, AttrValue::Int(i64::MIN)), Int(i64::MIN.into()));
    assert_eq!(fill(DType::I16, AttrValue::Float(-3.0)), Int(-3));
}

#[test]
fn fill_of_overlapping_elements() {
    let memory = Tensor::ints(DType::I32, &[6], &[0]);
    let attrs = Attrs::new().with("value", 7);
    call_on("fill", &[&memory.view(&[1000, 2], &[0, 1], 1)], &attrs, 4).unwrap();
    assert_eq!(memory.values(), [0, 7, 7, 0, 0, 0].map(Int));
    call_on("fill", &[&memory.view(&[2, 3], &[1, 1], 2)], &attrs, 4).unwrap();
    assert_eq!(memory.values(), [0, 7, 7, 7, 7, 7].map(Int));
}

/// Elements that follow one another along different dimensions are copied in tiles.
#[test]
fn copies_in_tiles() {
    for dtype in [DType::U8, DType::F16, DType::F32, DType::F64] {
        let numbers: Vec<Num> = (0..251).map(Int).collect();
        for (shape, strides) in [
            (vec![70, 37], vec![1, 70]),
            (vec![70, 37], vec![2, 150]),
            (vec![3, 40, 2, 33], vec![2640, 1, 40, 80]),
            (vec![40, 3, 33], vec![1, 0, 40]),
        ] {
            let count = shape.iter().zip(&strides).map(|(d, s)| (d - 1) * s).sum::<usize>() + 1;
            let x = Tensor::dense(dtype, &[count], &numbers).view(&shape, &strides, 0);
            for threads in [0, 3] {
                let got = call_on("copy", &[&x], &Attrs::new(), threads).unwrap().remove(0);
                assert_eq!(got.values(), x.values(), "{dtype} {shape:?} {strides:?}");
            }
        }
    }
}
