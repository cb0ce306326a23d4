//! Elementwise ops over random shapes, layouts, dtypes and values.

use millstream_types::{Attrs, DType, Layout};
use proptest::prelude::*;

use crate::elementwise::reference;
use millstream_testing::kernels::*;

/// Returns layouts of `shape` with dimensions in any order, gaps and an offset.
pub(crate) fn layout(shape: Vec<usize>) -> impl Strategy<Value = Layout> {
    let rank = shape.len();
    let order = Just((0..rank).collect::<Vec<_>>()).prop_shuffle();
    (order, prop::collection::vec(1..3usize, rank), 0..4usize).prop_map(
        move |(order, gaps, offset)| {
            let mut strides = vec![0; rank];
            let mut next = 1;
            for k in order {
                next *= gaps[k];
                strides[k] = next;
                next *= shape[k].max(1);
            }
            Layout::strided(&shape, &strides, offset).unwrap()
        },
    )
}

/// Returns layouts of shapes that broadcast to `shape`, with or without overlapping elements.
pub(crate) fn operand(shape: Vec<usize>) -> impl Strategy<Value = Layout> {
    let rank = shape.len();
    let dropped = 0..=rank;
    let kept = prop::collection::vec(0..6u8, rank);
    (dropped, kept).prop_flat_map(move |(dropped, kept)| {
        let narrow: Vec<usize> =
            (dropped..rank).map(|k| if kept[k] == 0 { 1 } else { shape[k] }).collect();
        let repeats: Vec<bool> = (dropped..rank).map(|k| kept[k] == 1).collect();
        layout(narrow).prop_map(move |l| {
            let strides: Vec<usize> = l
                .strides()
                .iter()
                .zip(&repeats)
                .map(|(&s, &repeat)| if repeat { 0 } else { s })
                .collect();
            Layout::strided(l.shape(), &strides, l.offset()).unwrap()
        })
    })
}

fn dtype() -> impl Strategy<Value = DType> {
    prop::sample::select(DType::REAL.to_vec())
}

#[derive(Debug)]
struct Case {
    x: (DType, Layout),
    y: (DType, Layout),
    out: Layout,
}

fn case() -> impl Strategy<Value = Case> {
    prop::collection::vec(0..7usize, 0..4).prop_flat_map(|shape| {
        let x = (dtype(), layout(shape.clone()));
        let y = (dtype(), operand(shape.clone()));
        (x, y, layout(shape)).prop_map(|(x, y, out)| Case { x, y, out })
    })
}

/// Shapes with sides of less and more than a tile.
fn tiled_case() -> impl Strategy<Value = Case> {
    let shapes = vec![[2, 9, 270], [1, 300, 20], [3, 17, 33], [1, 8, 1040], [2, 7, 40]];
    prop::sample::select(shapes).prop_flat_map(|shape| {
        let shape = shape.to_vec();
        let x = (dtype(), layout(shape.clone()));
        let y = (dtype(), operand(shape.clone()));
        (x, y, layout(shape)).prop_map(|(x, y, out)| Case { x, y, out })
    })
}

#[test]
fn a_zero_divisor_in_a_tile_is_found() {
    let x = Tensor::ints(DType::I64, &[40, 50], &[7]);
    let y = Tensor::ints(DType::I64, &[50, 40], &[2]).view(&[40, 50], &[1, 40], 0);
    assert_eq!(one("remainder", &[&x, &y], &Attrs::new()).values(), [Int(1); 2000]);
    y.set(&[39, 49], Int(0));
    let error = call("remainder", &[&x, &y], &Attrs::new()).unwrap_err();
    assert!(error.contains("i64 divided by zero"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Transposed inputs are computed in tiles; dense ones are computed in one row.
    #[test]
    fn tiles_leave_what_one_row_leaves(case in tiled_case(), threads in 0..4usize) {
        let shape = case.out.shape();
        let (x_dense, out_dense) = (Layout::contiguous(shape).unwrap(), case.out.clone());
        let x = Tensor::laid(case.x.0, case.x.1, &samples(case.x.0));
        let y = Tensor::laid(case.y.0, case.y.1, &samples(case.y.0)[1..]);
        let full: Vec<Num> =
            indices(shape).map(|i| y.get(&broadcast_index(y.shape(), &i))).collect();
        let dense = [x.relaid(x_dense), Tensor::dense(case.y.0, shape, &full)];
        let expected = one("mul", &[&dense[0], &dense[1]], &Attrs::new());
        let got = Tensor::unwritten(expected.spec.dtype, out_dense);
        launch("mul", &[&x, &y, &got], &Attrs::new(), 0, threads);
        prop_assert_eq!(got.values(), expected.values());
        got.check_gaps();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn binary_ops(
        case in case(),
        op in prop::sample::select(vec!["add", "sub", "mul"]),
        shift in 0..5usize,
    ) {
        let bool_operand = case.x.0 == DType::Bool || case.y.0 == DType::Bool;
        prop_assume!(op != "sub" || !bool_operand);
        let x = Tensor::laid(case.x.0, case.x.1, &samples(case.x.0));
        let y = Tensor::laid(case.y.0, case.y.1, &samples(case.y.0)[shift..]);
        let got = one_into(op, &[&x, &y], &Attrs::new(), case.out);
        for index in indices(got.shape()) {
            let expected = reference(op, &x, &y, Int(1), &index);
            prop_assert_eq!(got.get(&index), expected, "{:?} of {:?} and {:?}", index, &x, &y);
        }
    }

    #[test]
    fn casts(case in case()) {
        let x = Tensor::laid(case.x.0, case.x.1, &samples(case.x.0));
        let to = case.y.0;
        let got = one_into("cast", &[&x], &Attrs::new().with("dtype", to), case.out);
        for index in indices(got.shape()) {
            prop_assert_eq!(got.get(&index), rounded(x.get(&index), to));
        }
    }

    #[test]
    fn in_place_over_shared_memory(
        shape in prop::collection::vec(1..5usize, 1..3),
        offsets in (0..6usize, 0..6usize),
        strides in prop::collection::vec(0..8usize, 2),
    ) {
        let memory = Tensor::ints(DType::I32, &[200], &(0..200).collect::<Vec<_>>());
        let x = memory.viewed({
            let dense = Layout::contiguous(&shape).unwrap();
            Layout::strided(&shape, dense.strides(), offsets.0).unwrap()
        });
        let y = memory.view(&shape, &strides[..shape.len()], offsets.1);
        let expected: Vec<Num> =
            indices(&shape).map(|i| reference("add", &x, &y, Int(1), &i)).collect();
        call("add_", &[&x, &y], &Attrs::new()).unwrap();
        prop_assert_eq!(x.values(), expected);
    }
}
