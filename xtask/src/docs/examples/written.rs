//! Examples that are written by hand: of calls that PyTorch lacks, whose results are random, that
//! fail, or that need several ranks.
//!
//! Long because each example has its lines.

/// An example of several items.
pub(super) struct Written {
    /// The methods, options (`Options`) and setters (`Options::option`).
    pub(super) of: &'static [&'static str],
    /// Whether two ranks run it, each with its number as `rank`.
    pub(super) on_ranks: bool,
    pub(super) code: &'static str,
}

const fn one(of: &'static [&'static str], code: &'static str) -> Written {
    Written { of, on_ranks: false, code }
}

const fn on_ranks(of: &'static [&'static str], code: &'static str) -> Written {
    Written { of, on_ranks: true, code }
}

/// All examples. An item takes the first that lists it.
pub(super) const WRITTEN: &[Written] = &[
    one(
        &["hash_tensor"],
        "let x = Tensor::from_slice(&[1i64, 2, 4], 3, &machine)?;
        assert_eq!(x.hash_tensor(..)?.item::<u64>()?, 7);",
    ),
    one(
        &["hash_tensor_with", "HashTensor", "HashTensor::keepdim"],
        "let x = Tensor::from_slice(&[1.0f32, 1.0, 0.0, 0.5], (2, 2), &machine)?;
        let y = x.hash_tensor_with(1, options::HashTensor::default().keepdim(true))?;
        assert_eq!(y.shape(), [2, 1]);
        assert_eq!(y.to_vec::<u64>()?, [0, 0.5f64.to_bits()]);",
    ),
    one(
        &["uniform_"],
        "let x = Tensor::zeros(4, DType::F32, &machine)?;
        x.uniform_(7)?;
        assert!(x.to_vec::<f32>()?.iter().all(|v| (0.0..1.0).contains(v)));",
    ),
    one(
        &["uniform_with_", "Uniform", "Uniform::from", "Uniform::to"],
        "let x = Tensor::zeros(4, DType::F32, &machine)?;
        x.uniform_with_(7, options::Uniform::default().from(5).to(6))?;
        assert!(x.to_vec::<f32>()?.iter().all(|v| (5.0..=6.0).contains(v)));",
    ),
    one(
        &["normal_"],
        "let x = Tensor::zeros(4, DType::F32, &machine)?;
        let y = Tensor::zeros(4, DType::F32, &machine)?;
        x.normal_(7)?;
        y.normal_(7)?;
        assert_eq!(x.to_vec::<f32>()?, y.to_vec::<f32>()?); // equal seeds, equal numbers",
    ),
    one(
        &["normal_with_", "Normal", "Normal::mean", "Normal::std"],
        "let x = Tensor::zeros(1000, DType::F32, &machine)?;
        x.normal_with_(7, options::Normal::default().mean(100).std(0.5))?;
        assert!((x.mean(..)?.item::<f32>()? - 100.0).abs() < 0.1);",
    ),
    one(
        &["exponential_"],
        "let x = Tensor::zeros(1000, DType::F32, &machine)?;
        x.exponential_(7)?;
        assert!((x.mean(..)?.item::<f32>()? - 1.0).abs() < 0.1);",
    ),
    one(
        &["exponential_with_", "Exponential", "Exponential::lambd"],
        "let x = Tensor::zeros(1000, DType::F32, &machine)?;
        x.exponential_with_(7, options::Exponential::default().lambd(4))?;
        assert!((x.mean(..)?.item::<f32>()? - 0.25).abs() < 0.1); // 1 / lambd",
    ),
    one(
        &["randint_"],
        "let x = Tensor::zeros(100, DType::I64, &machine)?;
        x.randint_(6, 7)?; // numbers below 6, of seed 7
        assert!(x.to_vec::<i64>()?.iter().all(|v| (0..6).contains(v)));",
    ),
    one(
        &["randint_with_", "Randint", "Randint::low"],
        "let x = Tensor::zeros(100, DType::I64, &machine)?;
        x.randint_with_(7, 7, options::Randint::default().low(1))?;
        assert!(x.to_vec::<i64>()?.iter().all(|v| (1..7).contains(v)));",
    ),
    one(
        &["bernoulli"],
        "let p = Tensor::from_slice(&[0.0f32, 1.0, 0.0], 3, &machine)?;
        assert_eq!(p.bernoulli(7)?.to_vec::<f32>()?, [0.0, 1.0, 0.0]);",
    ),
    one(
        &["bernoulli_with", "Bernoulli", "Bernoulli::p"],
        "let x = Tensor::zeros(1000, DType::F32, &machine)?;
        let y = x.bernoulli_with(7, options::Bernoulli::default().p(0.25))?;
        assert!((y.mean(..)?.item::<f32>()? - 0.25).abs() < 0.1);",
    ),
    one(
        &["bernoulli_"],
        "let x = Tensor::zeros(1000, DType::F32, &machine)?;
        x.bernoulli_(7)?;
        assert!((x.mean(..)?.item::<f32>()? - 0.5).abs() < 0.1);",
    ),
    one(
        &["bernoulli_with_"],
        "let x = Tensor::zeros(1000, DType::F32, &machine)?;
        x.bernoulli_with_(7, options::Bernoulli::default().p(0.25))?;
        assert!((x.mean(..)?.item::<f32>()? - 0.25).abs() < 0.1);",
    ),
    one(
        &["dropout"],
        "let x = Tensor::ones(1000, DType::F32, &machine)?;
        let y = x.dropout(0.75, 7)?; // the others are 4
        assert!(y.to_vec::<f32>()?.iter().all(|v| [0.0, 4.0].contains(v)));
        assert!((y.mean(..)?.item::<f32>()? - 1.0).abs() < 0.3);",
    ),
    one(
        &["dropout_with", "Dropout", "Dropout::train"],
        "let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
        let y = x.dropout_with(0.5, 7, options::Dropout::default().train(false))?;
        assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0]); // unchanged",
    ),
    one(
        &["native_dropout"],
        "let x = Tensor::ones(100, DType::F32, &machine)?;
        let (y, mask) = x.native_dropout(0.5, 7)?;
        assert_eq!(y.to_vec::<f32>()?, mask.cast(DType::F32)?.mul(2)?.to_vec::<f32>()?);",
    ),
    one(
        &["native_dropout_with"],
        "let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
        let (y, mask) = x.native_dropout_with(0.5, 7, options::Dropout::default().train(false))?;
        assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0]);
        assert_eq!(mask.to_vec::<bool>()?, [true, true]);",
    ),
    one(
        &["fused"],
        "let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
        let y = Tensor::from_slice(&[3.0f32, 5.0], 2, &machine)?;
        let z = Tensor::fused(&[&x, &y], \"neg(%0);mul(#0,%1)\")?; // -x, and that times y
        assert_eq!(z.to_vec::<f32>()?, [-3.0, -10.0]);",
    ),
    one(
        &["Conv1d"],
        "let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 1, 4), &machine)?;
        let weight = Tensor::from_slice(&[1.0f32, 1.0], (1, 1, 2), &machine)?;
        let y = x.conv1d(&weight, options::Conv1d::default().stride(2))?;
        assert_eq!(y.to_vec::<f32>()?, [3.0, 7.0]);",
    ),
    one(
        &["Conv2d"],
        "let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 1, 2, 2), &machine)?;
        let weight = Tensor::ones((1, 1, 2, 2), DType::F32, &machine)?;
        let y = x.conv2d(&weight, options::Conv2d::default().padding((0, 1)))?;
        assert_eq!(y.to_vec::<f32>()?, [4.0, 10.0, 6.0]);",
    ),
    one(
        &["Conv3d"],
        "let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 1, 1, 2, 2), &machine)?;
        let weight = Tensor::ones((1, 1, 1, 1, 2), DType::F32, &machine)?;
        let y = x.conv3d(&weight, options::Conv3d::default().stride((1, 2, 1)))?;
        assert_eq!(y.to_vec::<f32>()?, [3.0]);",
    ),
    one(
        &["embedding_with", "Embedding", "Embedding::padding_idx"],
        "let table = Tensor::from_slice(&[1.0f32, 2.0], (2, 1), &machine)?.with_grad()?;
        let indices = Tensor::from_slice(&[0i64, 1], 2, &machine)?;
        let tape = machine.tape();
        let rows = table.embedding_with(&indices, options::Embedding::default().padding_idx(1))?;
        tape.backward(&rows.sum(..)?)?;
        assert_eq!(table.grad().unwrap().to_vec::<f32>()?, [1.0, 0.0]);",
    ),
    one(
        &["Embedding::scale_grad_by_freq"],
        "let table = Tensor::from_slice(&[1.0f32, 2.0], (2, 1), &machine)?.with_grad()?;
        let indices = Tensor::from_slice(&[0i64, 0, 1], 3, &machine)?;
        let tape = machine.tape();
        let by_uses = options::Embedding::default().scale_grad_by_freq(true);
        tape.backward(&table.embedding_with(&indices, by_uses)?.sum(..)?)?;
        assert_eq!(table.grad().unwrap().to_vec::<f32>()?, [1.0, 1.0]); // not 2 of row 0",
    ),
    one(
        &["LinalgCholeskyEx::check_errors"],
        "let a = Tensor::from_slice(&[1.0f32, 2.0, 2.0, 1.0], (2, 2), &machine)?; // not definite
        let (_, info) = a.linalg_cholesky_ex()?;
        assert_eq!(info.item::<i32>()?, 2);
        let checked = options::LinalgCholeskyEx::default().check_errors(true);
        assert!(a.linalg_cholesky_ex_with(checked)?.0.to_vec::<f32>().is_err());",
    ),
    one(
        &["LinalgLuFactorEx::check_errors"],
        "let a = Tensor::from_slice(&[1.0f32, 2.0, 2.0, 4.0], (2, 2), &machine)?; // singular
        let (_, _, info) = a.linalg_lu_factor_ex()?;
        assert_eq!(info.item::<i32>()?, 2);
        let checked = options::LinalgLuFactorEx::default().check_errors(true);
        assert!(a.linalg_lu_factor_ex_with(checked)?.0.to_vec::<f32>().is_err());",
    ),
    one(
        &["linalg_inv_ex_with", "LinalgInvEx", "LinalgInvEx::check_errors"],
        "let a = Tensor::from_slice(&[1.0f32, 2.0, 2.0, 4.0], (2, 2), &machine)?; // singular
        let checked = options::LinalgInvEx::default().check_errors(true);
        assert!(a.linalg_inv_ex_with(checked)?.0.to_vec::<f32>().is_err());",
    ),
    one(
        &["LinalgLdlFactorEx::check_errors"],
        "let a = Tensor::from_slice(&[0.0f32, 0.0, 0.0, 0.0], (2, 2), &machine)?;
        let checked = options::LinalgLdlFactorEx::default().check_errors(true);
        assert!(a.linalg_ldl_factor_ex_with(checked)?.0.to_vec::<f32>().is_err());",
    ),
    one(
        &["BatchNorm::momentum"],
        "let x = Tensor::from_slice(&[1.0f32, 3.0], (2, 1), &machine)?;
        let mean = Tensor::zeros(1, DType::F32, &machine)?;
        let var = Tensor::ones(1, DType::F32, &machine)?;
        let half = options::BatchNorm::default().running_mean(&mean).running_var(&var);
        let half = half.momentum(0.5);
        x.batch_norm(true, half)?;
        assert_eq!(mean.to_vec::<f32>()?, [1.0]); // half way from 0 to 2",
    ),
    one(
        &["histc"],
        "let x = Tensor::from_slice(&[1.0f32, 2.0, 2.0, 4.0], 4, &machine)?;
        let counts = x.histc()?;
        assert_eq!(counts.shape(), [100]); // bins
        assert_eq!(counts.sum(..)?.item::<f32>()?, 4.0);",
    ),
    one(
        &["LinalgSvd::full_matrices"],
        "let a = Tensor::from_slice(&[3.0f32, 4.0], (2, 1), &machine)?;
        let full = options::LinalgSvd::default().full_matrices(true);
        let (u, s, _) = a.linalg_svd_with(full)?;
        assert_eq!(u.shape(), [2, 2]);
        assert!((s.item::<f32>()? - 5.0).abs() < 1e-5);",
    ),
    one(
        &["CtcLoss::zero_infinity"],
        "let x = Tensor::zeros((1, 1, 3), DType::F32, &machine)?.with_grad()?; // one step
        let targets = Tensor::from_slice(&[1i64, 2], (1, 2), &machine)?; // of two labels
        let one = Tensor::full(1, 1, &machine)?;
        let two = Tensor::full(1, 2, &machine)?;
        let tape = machine.tape();
        let zero = options::CtcLoss::default().zero_infinity(true);
        let (loss, _) = x._ctc_loss_with(&targets, &one, &two, 2, zero)?;
        tape.backward(&loss.sum(..)?)?;
        assert_eq!(x.grad().unwrap().to_vec::<f32>()?, [0.0; 3]);",
    ),
    on_ranks(
        &["allreduce_"],
        "let x = Tensor::from_slice(&[[1.0f32, 10.0][rank]], 1, &machine)?;
        Tensor::allreduce_(&[&x])?;
        assert_eq!(x.to_vec::<f32>()?, [11.0]);",
    ),
    on_ranks(
        &["allreduce_with_", "Allreduce", "Allreduce::op"],
        "let x = Tensor::from_slice(&[[1.0f32, 10.0][rank]], 1, &machine)?;
        Tensor::allreduce_with_(&[&x], options::Allreduce::default().op(\"max\"))?;
        assert_eq!(x.to_vec::<f32>()?, [10.0]);",
    ),
    on_ranks(
        &["Allreduce::group"],
        "let x = Tensor::from_slice(&[[1.0f32, 10.0][rank]], 1, &machine)?;
        Tensor::allreduce_with_(&[&x], options::Allreduce::default().group(rank))?;
        assert_eq!(x.to_vec::<f32>()?, [[1.0, 10.0][rank]]); // each rank alone",
    ),
    on_ranks(
        &["Allreduce::group_index"],
        "let x = Tensor::from_slice(&[[1.0f32, 10.0][rank]], 1, &machine)?;
        let second = options::Allreduce::default().group((0, 1)).group_index(1);
        Tensor::allreduce_with_(&[&x], second)?; // a group of its own, of both ranks
        assert_eq!(x.to_vec::<f32>()?, [11.0]);",
    ),
    on_ranks(
        &["reduce_"],
        "let x = Tensor::from_slice(&[[1.0f32, 10.0][rank]], 1, &machine)?;
        Tensor::reduce_(&[&x], 0)?;
        if rank == 0 {
            assert_eq!(x.to_vec::<f32>()?, [11.0]);
        }",
    ),
    on_ranks(
        &["reduce_with_", "Reduce", "Reduce::op"],
        "let x = Tensor::from_slice(&[[1.0f32, 10.0][rank]], 1, &machine)?;
        Tensor::reduce_with_(&[&x], 0, options::Reduce::default().op(\"mean\"))?;
        if rank == 0 {
            assert_eq!(x.to_vec::<f32>()?, [5.5]);
        }",
    ),
    on_ranks(
        &["Reduce::group"],
        "let x = Tensor::from_slice(&[[1.0f32, 10.0][rank]], 1, &machine)?;
        Tensor::reduce_with_(&[&x], rank, options::Reduce::default().group(rank))?;
        assert_eq!(x.to_vec::<f32>()?, [[1.0, 10.0][rank]]); // each rank alone",
    ),
    on_ranks(
        &["Reduce::group_index"],
        "let x = Tensor::from_slice(&[[1.0f32, 10.0][rank]], 1, &machine)?;
        let second = options::Reduce::default().group((0, 1)).group_index(1);
        Tensor::reduce_with_(&[&x], 0, second)?; // a group of its own, of both ranks
        if rank == 0 {
            assert_eq!(x.to_vec::<f32>()?, [11.0]);
        }",
    ),
    on_ranks(
        &["broadcast_"],
        "let x = Tensor::from_slice(&[[1.0f32, 10.0][rank]], 1, &machine)?;
        Tensor::broadcast_(&[&x], 1)?;
        assert_eq!(x.to_vec::<f32>()?, [10.0]);",
    ),
    on_ranks(
        &["broadcast_with_", "Broadcast", "Broadcast::group", "Broadcast::group_index"],
        "let x = Tensor::from_slice(&[[1.0f32, 10.0][rank]], 1, &machine)?;
        let second = options::Broadcast::default().group((0, 1)).group_index(1);
        Tensor::broadcast_with_(&[&x], 1, second)?; // a group of its own, of both ranks
        assert_eq!(x.to_vec::<f32>()?, [10.0]);",
    ),
    on_ranks(
        &["allgather_"],
        "let x = Tensor::from_slice(&[[1.0f32, 10.0][rank]], 1, &machine)?;
        let out = Tensor::zeros(2, DType::F32, &machine)?;
        out.allgather_(&x)?;
        assert_eq!(out.to_vec::<f32>()?, [1.0, 10.0]);",
    ),
    on_ranks(
        &["allgather_with_", "Allgather", "Allgather::splits"],
        "let x = Tensor::full(rank + 1, rank as f32 + 1.0, &machine)?; // one row, or two
        let out = Tensor::zeros(3, DType::F32, &machine)?;
        out.allgather_with_(&x, options::Allgather::default().splits((1, 2)))?;
        assert_eq!(out.to_vec::<f32>()?, [1.0, 2.0, 2.0]);",
    ),
    on_ranks(
        &["Allgather::group", "Allgather::group_index"],
        "let x = Tensor::from_slice(&[[1.0f32, 10.0][rank]], 1, &machine)?;
        let out = Tensor::zeros(2, DType::F32, &machine)?;
        let second = options::Allgather::default().group((0, 1)).group_index(1);
        out.allgather_with_(&x, second)?; // a group of its own, of both ranks
        assert_eq!(out.to_vec::<f32>()?, [1.0, 10.0]);",
    ),
    on_ranks(
        &["reduce_scatter_"],
        "let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
        let out = Tensor::zeros(1, DType::F32, &machine)?;
        out.reduce_scatter_(&x, Default::default())?;
        assert_eq!(out.to_vec::<f32>()?, [[2.0, 4.0][rank]]); // twice the rank's part of x",
    ),
    on_ranks(
        &["ReduceScatter", "ReduceScatter::op"],
        "let x = Tensor::from_slice(&[3.0f32, 4.0], 2, &machine)?;
        let out = Tensor::zeros(1, DType::F32, &machine)?;
        out.reduce_scatter_(&x, options::ReduceScatter::default().op(\"product\"))?;
        assert_eq!(out.to_vec::<f32>()?, [[9.0, 16.0][rank]]);",
    ),
    on_ranks(
        &["ReduceScatter::splits"],
        "let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
        let out = Tensor::zeros(rank + 1, DType::F32, &machine)?;
        out.reduce_scatter_(&x, options::ReduceScatter::default().splits((1, 2)))?;
        assert_eq!(out.to_vec::<f32>()?, [vec![2.0], vec![4.0, 6.0]][rank]);",
    ),
    on_ranks(
        &["ReduceScatter::group", "ReduceScatter::group_index"],
        "let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
        let out = Tensor::zeros(1, DType::F32, &machine)?;
        let second = options::ReduceScatter::default().group((0, 1)).group_index(1);
        out.reduce_scatter_(&x, second)?; // a group of its own, of both ranks
        assert_eq!(out.to_vec::<f32>()?, [[2.0, 4.0][rank]]);",
    ),
    on_ranks(
        &["alltoall_"],
        "let x = Tensor::from_slice(&[[1.0f32, 2.0], [10.0, 20.0]][rank], 2, &machine)?;
        let out = Tensor::zeros(2, DType::F32, &machine)?;
        out.alltoall_(&x, Default::default())?;
        assert_eq!(out.to_vec::<f32>()?, [[1.0, 10.0], [2.0, 20.0]][rank]);",
    ),
    on_ranks(
        &["Alltoall", "Alltoall::input_splits", "Alltoall::output_splits"],
        "let x = Tensor::from_slice(&[[1.0f32, 2.0, 3.0], [10.0, 20.0, 30.0]][rank], 3, &machine)?;
        let out = Tensor::zeros([2, 4][rank], DType::F32, &machine)?;
        let parts = options::Alltoall::default().input_splits((1, 2)).output_splits([rank + 1; 2]);
        out.alltoall_(&x, parts)?;
        assert_eq!(out.to_vec::<f32>()?, [vec![1.0, 10.0], vec![2.0, 3.0, 20.0, 30.0]][rank]);",
    ),
    on_ranks(
        &["Alltoall::group", "Alltoall::group_index"],
        "let x = Tensor::from_slice(&[[1.0f32, 2.0], [10.0, 20.0]][rank], 2, &machine)?;
        let out = Tensor::zeros(2, DType::F32, &machine)?;
        let second = options::Alltoall::default().group((0, 1)).group_index(1);
        out.alltoall_(&x, second)?; // a group of its own, of both ranks
        assert_eq!(out.to_vec::<f32>()?, [[1.0, 10.0], [2.0, 20.0]][rank]);",
    ),
    on_ranks(
        &["gather_to_", "GatherTo", "GatherTo::out"],
        "let x = Tensor::from_slice(&[[1.0f32, 10.0][rank]], 1, &machine)?;
        let out = Tensor::zeros(2, DType::F32, &machine)?;
        if rank == 0 {
            x.gather_to_(0, options::GatherTo::default().out(&out))?;
            assert_eq!(out.to_vec::<f32>()?, [1.0, 10.0]);
        } else {
            x.gather_to_(0, Default::default())?;
        }",
    ),
    on_ranks(
        &["GatherTo::splits"],
        "let x = Tensor::full(rank + 1, rank as f32 + 1.0, &machine)?; // one row, or two
        let out = Tensor::zeros(3, DType::F32, &machine)?;
        let parts = options::GatherTo::default().splits((1, 2));
        if rank == 0 {
            x.gather_to_(0, parts.out(&out))?;
            assert_eq!(out.to_vec::<f32>()?, [1.0, 2.0, 2.0]);
        } else {
            x.gather_to_(0, parts)?;
        }",
    ),
    on_ranks(
        &["GatherTo::group", "GatherTo::group_index"],
        "let x = Tensor::from_slice(&[[1.0f32, 10.0][rank]], 1, &machine)?;
        let out = Tensor::zeros(2, DType::F32, &machine)?;
        let second = options::GatherTo::default().group((0, 1)).group_index(1); // of both ranks
        if rank == 0 {
            x.gather_to_(0, second.out(&out))?;
            assert_eq!(out.to_vec::<f32>()?, [1.0, 10.0]);
        } else {
            x.gather_to_(0, second)?;
        }",
    ),
    on_ranks(
        &["scatter_from_", "ScatterFrom", "ScatterFrom::x"],
        "let x = Tensor::from_slice(&[1.0f32, 10.0], 2, &machine)?;
        let out = Tensor::zeros(1, DType::F32, &machine)?;
        if rank == 0 {
            out.scatter_from_(0, options::ScatterFrom::default().x(&x))?;
        } else {
            out.scatter_from_(0, Default::default())?;
        }
        assert_eq!(out.to_vec::<f32>()?, [[1.0, 10.0][rank]]);",
    ),
    on_ranks(
        &["ScatterFrom::splits"],
        "let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
        let out = Tensor::zeros(rank + 1, DType::F32, &machine)?;
        let parts = options::ScatterFrom::default().splits((1, 2));
        out.scatter_from_(0, if rank == 0 { parts.x(&x) } else { parts })?;
        assert_eq!(out.to_vec::<f32>()?, [vec![1.0], vec![2.0, 3.0]][rank]);",
    ),
    on_ranks(
        &["ScatterFrom::group", "ScatterFrom::group_index"],
        "let x = Tensor::from_slice(&[1.0f32, 10.0], 2, &machine)?;
        let out = Tensor::zeros(1, DType::F32, &machine)?;
        let second = options::ScatterFrom::default().group((0, 1)).group_index(1); // of both ranks
        out.scatter_from_(0, if rank == 0 { second.x(&x) } else { second })?;
        assert_eq!(out.to_vec::<f32>()?, [[1.0, 10.0][rank]]);",
    ),
    on_ranks(
        &["barrier_"],
        "let x = Tensor::from_slice(&[1.0f32], 1, &machine)?;
        Tensor::barrier_(&[&x])?;
        assert_eq!(x.to_vec::<f32>()?, [1.0]); // both ranks have got to the barrier",
    ),
    on_ranks(
        &["barrier_with_", "Barrier", "Barrier::group", "Barrier::group_index"],
        "let x = Tensor::from_slice(&[1.0f32], 1, &machine)?;
        let second = options::Barrier::default().group((0, 1)).group_index(1);
        Tensor::barrier_with_(&[&x], second)?; // a group of its own, of both ranks
        assert_eq!(x.to_vec::<f32>()?, [1.0]);",
    ),
    on_ranks(
        &["send", "recv_"],
        "let x = Tensor::from_slice(&[[1.0f32, 10.0][rank]], 1, &machine)?;
        if rank == 0 {
            Tensor::send(&[&x], 1)?;
        } else {
            Tensor::recv_(&[&x], 0)?;
        }
        assert_eq!(x.to_vec::<f32>()?, [1.0]);",
    ),
    on_ranks(
        &["send_with", "Send", "Send::tag", "recv_with_", "Recv", "Recv::tag"],
        "let x = Tensor::from_slice(&[[1.0f32, 10.0][rank]], 1, &machine)?;
        if rank == 0 {
            Tensor::send_with(&[&x], 1, options::Send::default().tag(5))?;
        } else {
            Tensor::recv_with_(&[&x], 0, options::Recv::default().tag(5))?;
        }
        assert_eq!(x.to_vec::<f32>()?, [1.0]);",
    ),
];
