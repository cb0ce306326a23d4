//! Collectives of ranks in one process.

use std::sync::Arc;

use millstream_comm::{Communicator, LocalGroup, SingleRank};
use millstream_types::{Attrs, DType, Layout};

use millstream_testing::kernels::{Float, Int, Num, Tensor, start_on_rank};

/// Runs an op on every rank with the operands from `operands`, and returns the first operand of
/// each rank.
fn all_ranks(
    ranks: usize,
    op: &str,
    attrs: &dyn Fn(usize) -> Attrs,
    operands: impl Fn(usize) -> Vec<Tensor>,
) -> Vec<Vec<Num>> {
    let communicators = LocalGroup::communicators(ranks).into_iter();
    let communicators: Vec<Arc<dyn Communicator>> =
        communicators.map(|communicator| Arc::new(communicator) as _).collect();
    let tensors: Vec<Vec<Tensor>> = (0..ranks).map(operands).collect();
    let outcomes: Vec<_> = (0..ranks)
        .map(|rank| {
            let given: Vec<&Tensor> = tensors[rank].iter().collect();
            start_on_rank(op, &given, &attrs(rank), &communicators[rank])
        })
        .collect();
    outcomes.iter().for_each(|outcome| outcome.try_recv().expect("an outcome").unwrap());
    tensors.iter().map(|of_rank| of_rank[0].values()).collect()
}

/// Returns the same arguments for every rank.
fn same(attrs: Attrs) -> impl Fn(usize) -> Attrs {
    move |_| attrs.clone()
}

fn of_rank(rank: usize, count: usize) -> Vec<Num> {
    (0..count).map(|k| Float((rank * 10 + k) as f64)).collect()
}

#[test]
fn reductions() {
    let transposed = Layout::strided(&[2, 3], &[1, 2], 4).unwrap();
    for (op, expected) in [
        ("sum", [30.0, 33.0, 36.0, 39.0, 42.0, 45.0]),
        ("min", [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]),
        ("max", [20.0, 21.0, 22.0, 23.0, 24.0, 25.0]),
        ("mean", [10.0, 11.0, 12.0, 13.0, 14.0, 15.0]),
        ("product", [0.0, 231.0, 528.0, 897.0, 1344.0, 1875.0]),
    ] {
        let attrs = Attrs::new().with("op", op);
        let operands = |rank| vec![Tensor::laid(DType::F32, transposed.clone(), &of_rank(rank, 6))];
        let expected: Vec<Num> = expected.iter().map(|&v| Float(v)).collect();
        assert_eq!(
            all_ranks(3, "allreduce_", &same(attrs.clone()), operands),
            vec![expected; 3],
            "{op}"
        );
    }
    // 2048 + 1 + 1 is 2050 in f16 only if the sum is computed in f32 and rounded once.
    let half = |rank| {
        let value = if rank == 0 { 2048.0 } else { 1.0 };
        vec![Tensor::dense(DType::F16, &[1], &[Float(value)])]
    };
    assert_eq!(all_ranks(3, "allreduce_", &same(Attrs::new()), half), vec![vec![Float(2050.0)]; 3]);
}

#[test]
fn broadcast_sends_the_tensors_of_the_root() {
    let attrs = Attrs::new().with("root", 2);
    let operands = |rank| vec![Tensor::ints(DType::I16, &[2], &[rank as i64, 7])];
    assert_eq!(
        all_ranks(4, "broadcast_", &same(attrs.clone()), operands),
        vec![vec![Int(2), Int(7)]; 4]
    );
}

#[test]
fn allgather_reduce_scatter_and_alltoall() {
    let gather = |rank| {
        let out = Tensor::dense(DType::F64, &[3, 2], &[Float(0.0)]);
        vec![out, Tensor::dense(DType::F64, &[2], &of_rank(rank, 2))]
    };
    let expected: Vec<Num> = (0..3).flat_map(|rank| of_rank(rank, 2)).collect();
    assert_eq!(all_ranks(3, "allgather_", &same(Attrs::new()), gather), vec![expected; 3]);

    let scatter = |rank| {
        let out = Tensor::dense(DType::F32, &[2], &[Float(0.0)]);
        vec![out, Tensor::dense(DType::F32, &[4], &of_rank(rank, 4))]
    };
    let expected = [[10.0, 12.0], [14.0, 16.0]].map(|v| v.map(Float).to_vec());
    assert_eq!(all_ranks(2, "reduce_scatter_", &same(Attrs::new()), scatter), expected);

    let exchange = |rank| {
        let out = Tensor::dense(DType::F32, &[2, 2], &[Float(0.0)]);
        vec![out, Tensor::dense(DType::F32, &[2, 2], &of_rank(rank, 4))]
    };
    let expected = [[0.0, 1.0, 10.0, 11.0], [2.0, 3.0, 12.0, 13.0]].map(|v| v.map(Float).to_vec());
    assert_eq!(all_ranks(2, "alltoall_", &same(Attrs::new()), exchange), expected);

    // Rank 0 keeps one row and sends two; rank 1 sends none and keeps three.
    let uneven = |rank: usize| {
        let rows = [1, 5][rank];
        let out = Tensor::dense(DType::F32, &[rows], &[Float(-1.0)]);
        vec![out, Tensor::dense(DType::F32, &[3], &of_rank(rank, 3))]
    };
    let splits = |rank: usize| {
        let (from, to): ([i64; 2], [i64; 2]) = [([1, 0], [1, 2]), ([2, 3], [0, 3])][rank];
        let attrs = Attrs::new().with("output_splits", from.to_vec());
        attrs.with("input_splits", to.to_vec())
    };
    let got = all_ranks(2, "alltoall_", &splits, uneven);
    let expected = [vec![0.0], vec![1.0, 2.0, 10.0, 11.0, 12.0]]
        .map(|v| v.into_iter().map(Float).collect::<Vec<_>>());
    assert_eq!(got, expected);
}

#[test]
fn a_program_of_one_rank() {
    let single: Arc<dyn Communicator> = Arc::new(SingleRank);
    let run = |op: &str, tensors: &[&Tensor], attrs: &Attrs| {
        start_on_rank(op, tensors, attrs, &single).try_recv().expect("an outcome")
    };
    let x = Tensor::dense(DType::F32, &[3], &of_rank(1, 3));
    run("allreduce_", &[&x], &Attrs::new()).unwrap();
    assert_eq!(x.values(), of_rank(1, 3));
    let out = Tensor::dense(DType::F32, &[3], &[Float(0.0)]);
    run("allgather_", &[&out, &x], &Attrs::new()).unwrap();
    assert_eq!(out.values(), of_rank(1, 3));
    let error = run("send", &[&x], &Attrs::new().with("to", 1)).unwrap_err();
    assert!(error.contains("to: expected a rank below 1, got 1"), "{error}");
    let error = run("broadcast_", &[&x], &Attrs::new().with("root", 4)).unwrap_err();
    assert!(error.contains("root: expected a rank below 1, got 4"), "{error}");
}
