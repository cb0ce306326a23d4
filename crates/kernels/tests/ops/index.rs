//! Gather, scatter and indexing: errors of indices, the order of writes, and independence from the
//! number of threads.

use millstream_types::{Attrs, DType, Layout};

use millstream_testing::kernels::*;

fn count_up(shape: &[usize]) -> Tensor {
    let count = shape.iter().product::<usize>() as i64;
    Tensor::ints(DType::I64, shape, &(0..count).collect::<Vec<_>>())
}

/// Returns the error of a kernel for operands that the schema accepts.
fn error(op: &str, inputs: &[&Tensor], attrs: &Attrs, out: Option<&[usize]>) -> String {
    signature(op, inputs, attrs).unwrap();
    let out = out.map(|shape| Tensor::unwritten(DType::I64, Layout::contiguous(shape).unwrap()));
    let operands: Vec<&Tensor> = inputs.iter().copied().chain(&out).collect();
    format!("{:#}", try_launch(op, &operands, attrs, 0, 0).unwrap_err())
}

#[test]
fn errors_state_the_index_out_of_range() {
    let x = count_up(&[3, 4]);
    let along = Attrs::new().with("dim", 1);
    let bad = Tensor::ints(DType::I32, &[2, 2], &[0, 3, 4, -1]);
    assert_eq!(
        error("gather", &[&x, &bad], &along, Some(&[2, 2])),
        "index 4 at [1, 0]: expected 0 to 3"
    );
    let add = error("scatter_add_", &[&x, &bad, &count_up(&[2, 2])], &along, None);
    assert_eq!(add, "index 4 at [1, 0]: expected 0 to 3");
    let bad = Tensor::ints(DType::I64, &[2], &[0, -1]);
    let taken = error("index_select", &[&x, &bad], &along, Some(&[3, 2]));
    assert_eq!(taken, "index -1 at [1]: expected 0 to 3");
    let bad = Tensor::ints(DType::I64, &[2], &[-3, 3]);
    let picked = error("index", &[&x, &bad], &Attrs::new(), Some(&[2, 4]));
    assert_eq!(picked, "dimension 0: index 3 at [1]: expected -3 to 2");
    let empty = Tensor::ints(DType::I64, &[0, 4], &[]);
    let picked = error("index", &[&empty, &bad], &Attrs::new(), Some(&[2, 4]));
    assert_eq!(picked, "dimension 0: index -3 at [0]: the dimension has no elements");
    // The failed calls have written nothing.
    assert_eq!(x.values(), count_up(&[3, 4]).values());
}

#[test]
fn values_for_a_mask_are_counted_by_the_kernel() {
    let (x, values) = (count_up(&[3]), count_up(&[2]));
    let mask = Tensor::ints(DType::Bool, &[3], &[1, 1, 1]);
    let message = error("index_put_", &[&x, &values, &mask], &Attrs::new(), None);
    assert!(message.contains("i64[2]") && message.contains("[3]"), "{message}");
}

#[test]
fn the_last_write_wins() {
    let index = Tensor::ints(DType::I64, &[2, 3], &[0, 0, 1, 1, 0, 1]);
    let src = count_up(&[2, 3]);
    let x = Tensor::ints(DType::I64, &[2, 3], &[-1; 6]);
    call("scatter_", &[&x, &index, &src], &Attrs::new().with("dim", 0)).unwrap();
    assert_eq!(x.values(), [0, 4, -1, 3, -1, 5].map(Int));
    let x = Tensor::ints(DType::I64, &[2, 3], &[-1; 6]);
    call("scatter_", &[&x, &index, &src], &Attrs::new().with("dim", 1)).unwrap();
    assert_eq!(x.values(), [1, 2, -1, 4, 5, -1].map(Int));
    let x = Tensor::ints(DType::I64, &[3], &[-1; 3]);
    let rows = Tensor::ints(DType::I64, &[4], &[2, 0, 2, -1]);
    call("index_put_", &[&x, &count_up(&[4]), &rows], &Attrs::new()).unwrap();
    assert_eq!(x.values(), [1, -1, 3].map(Int));
}

#[test]
fn operands_that_overlap_the_target_are_read_first() {
    let x = count_up(&[4]);
    let (low, high) = (x.view(&[3], &[1], 0), x.view(&[3], &[1], 1));
    let index = Tensor::ints(DType::I64, &[3], &[0, 1, 2]);
    call("index_add_", &[&high, &index, &low], &Attrs::new().with("dim", 0)).unwrap();
    assert_eq!(x.values(), [0, 1, 3, 5].map(Int));
    // The index itself is overwritten.
    let x = Tensor::ints(DType::I64, &[3], &[2, 0, 1]);
    let src = Tensor::ints(DType::I64, &[3], &[7, 8, 9]);
    call("scatter_", &[&x, &x, &src], &Attrs::new().with("dim", 0)).unwrap();
    assert_eq!(x.values(), [8, 9, 7].map(Int));
}

#[test]
fn results_do_not_depend_on_threads() {
    let values: Vec<Num> = (0..50_021).map(|k| Float(f64::from(k * 7919 % 1000) / 8.0)).collect();
    let x = Tensor::dense(DType::F32, &[3, 50_021], &values);
    let picks: Vec<i64> = (0..50_021).map(|k| k * 104_729 % 50_021).collect();
    let row = Tensor::ints(DType::I64, &[50_021], &picks);
    let rows = Tensor::ints(DType::I64, &[3, 50_021], &picks.repeat(3));
    let last = || Attrs::new().with("dim", 1);
    let absent = Attrs::new().with("absent", vec![0]);
    let cases: [(&str, Vec<&Tensor>, Attrs); 8] = [
        ("gather", vec![&x, &rows], last()),
        ("index_select", vec![&x, &row], last()),
        ("index", vec![&x, &row], absent),
        ("scatter_add", vec![&x, &rows, &x], last()),
        ("sort", vec![&x], Attrs::new().with("dim", 0)),
        ("topk", vec![&x], last().with("k", 100)),
        ("flip", vec![&x], Attrs::new().with("dims", vec![0, 1])),
        ("roll", vec![&x], Attrs::new().with("shifts", 12_345)),
    ];
    for (op, inputs, attrs) in cases {
        let alone = call_on(op, &inputs, &attrs, 0).unwrap();
        let together = call_on(op, &inputs, &attrs, 3).unwrap();
        for (a, b) in alone.iter().zip(&together) {
            assert!(a.bytes() == b.bytes(), "{op}");
        }
    }
    let flipped = one("flip", &[&x], &Attrs::new().with("dims", vec![1]));
    let rolled = one("roll", &[&x], &Attrs::new().with("shifts", -1));
    let picked = one("gather", &[&x, &rows], &last());
    for at in (0..50_021).step_by(977) {
        assert_eq!(flipped.get(&[2, at]), x.get(&[2, 50_020 - at]));
        assert_eq!(rolled.get(&[1, at]), x.get(&[1 + (at + 1) / 50_021, (at + 1) % 50_021]));
        assert_eq!(picked.get(&[1, at]), x.get(&[1, picks[at] as usize]));
    }
}
