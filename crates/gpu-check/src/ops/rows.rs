//! Cases of reductions, of softmax and of normalisation.

use millstream::DType;

use super::case::{Arrangement, Case, Given, Values};

/// The factor by which sums of many terms may exceed the error that their dtype allows.
const SUMS: f64 = 20.0;

const REDUCTIONS: &[&str] = &[
    "sum",
    "mean",
    "prod",
    "any",
    "all",
    "count_nonzero",
    "var",
    "std",
    "linalg_vector_norm",
    "logsumexp",
    "amax",
    "amin",
    "max",
    "min",
    "argmax",
    "argmin",
];

pub(super) fn cases(dtypes: &dyn Fn(usize) -> Vec<DType>) -> Vec<Case> {
    let mut all = Vec::new();
    for (turn, op) in REDUCTIONS.iter().enumerate() {
        for dtype in dtypes(turn) {
            all.extend(reductions(op, dtype));
        }
    }
    for dtype in dtypes(0).into_iter().chain(dtypes(1)).filter(|dtype| dtype.is_float()) {
        all.extend(softmax(dtype));
        all.extend(layers(dtype));
        all.extend(batches(dtype));
    }
    all
}

fn reductions(op: &str, dtype: DType) -> Vec<Case> {
    let one = ["max", "min", "argmax", "argmin"].contains(&op);
    let case = |shape: &[usize], arrangement: Arrangement| {
        Case::new(op, vec![Given::new(dtype, shape).arranged(arrangement)]).slack(SUMS)
    };
    let mut all = Vec::new();
    // Over all elements: fewer than a block has, more, and several parts.
    for shape in [&[][..], &[1], &[70], &[33, 65], &[3, 5, 7]] {
        all.push(case(shape, Arrangement::Dense));
    }
    all.push(case(&[40_000], Arrangement::Dense));
    all.push(case(&[9, 31], Arrangement::Gaps));
    let shapes: &[&[usize]] = &[&[3, 5, 7], &[33, 65], &[2, 300], &[300, 2], &[5, 1, 4]];
    for (k, shape) in shapes.iter().enumerate() {
        for dim in 0..shape.len() as i64 {
            let arrangement = [Arrangement::Dense, Arrangement::Transposed, Arrangement::Gaps]
                [(k + dim as usize) % 3];
            all.push(case(shape, arrangement).attr("dim", dim));
            all.push(case(shape, arrangement).attr("dim", dim).attr("keepdim", true));
        }
    }
    // Rows that are read 16 bytes at a time: by a few threads, a warp, a block, and in several
    // parts.
    for shape in [[5, 48], [33, 64], [3, 4096], [3, 16_400]] {
        all.push(case(&shape, Arrangement::Dense).attr("dim", 1));
    }
    all.push(case(&[20_000, 3], Arrangement::Dense).attr("dim", 0));
    all.push(case(&[3, 20_000], Arrangement::Dense).attr("dim", 1));
    if !one {
        all.push(case(&[3, 5, 7, 2], Arrangement::Dense).attr("dim", vec![0, 2]));
        all.push(
            case(&[3, 5, 7, 2], Arrangement::Transposed)
                .attr("dim", vec![1, 3])
                .attr("keepdim", true),
        );
        all.push(case(&[3, 4, 5, 16], Arrangement::Dense).attr("dim", vec![1, 3]));
        all.push(case(&[0, 4], Arrangement::Dense).attr("dim", 0));
    }
    if op == "linalg_vector_norm" {
        for ord in [0.0, 1.0, 3.0, f64::INFINITY, f64::NEG_INFINITY] {
            all.push(case(&[33, 65], Arrangement::Dense).attr("ord", ord).attr("dim", 1));
        }
    }
    if ["var", "std"].contains(&op) {
        all.push(case(&[33, 65], Arrangement::Dense).attr("correction", 0).attr("dim", 1));
    }
    if ["sum", "mean", "prod"].contains(&op) {
        all.push(case(&[33, 5], Arrangement::Dense).attr("dim", 1).attr("dtype", DType::F64));
        all.push(case(&[33, 5], Arrangement::Dense).attr("dim", 0).attr("dtype", DType::F16));
    }
    all
}

fn softmax(dtype: DType) -> Vec<Case> {
    let mut all = Vec::new();
    for op in ["_softmax", "_log_softmax"] {
        // Some rows are read 16 bytes at a time; the last ones are too long for the registers of a
        // block.
        for (shape, dim) in [
            (&[33, 65][..], 1),
            (&[33, 65], 0),
            (&[3, 5, 7], 1),
            (&[2, 3000], -1),
            (&[33, 48], 1),
            (&[5, 1024], 1),
            (&[2, 20_480], 1),
        ] {
            for arrangement in [Arrangement::Dense, Arrangement::Transposed] {
                let given = || Given::new(dtype, shape).arranged(arrangement);
                let of = |op: &str, given| Case::new(op, given).attr("dim", dim).slack(SUMS);
                all.push(of(op, vec![given()]).attr("half_to_float", false));
                // The values that a result of softmax can have: shares, or their logarithms.
                let values = match op {
                    "_softmax" => Values::Between(0.0, 0.05),
                    _ => Values::Between(-9.0, -2.0),
                };
                let backward = format!("{op}_backward_data");
                let both = vec![given(), given().values(values)];
                all.push(of(&backward, both).attr("input_dtype", dtype));
            }
        }
    }
    all
}

fn layers(dtype: DType) -> Vec<Case> {
    let mut all = Vec::new();
    for (shape, own, arrangement) in [
        (&[33, 65][..], &[65][..], Arrangement::Dense),
        (&[4, 3, 300], &[300], Arrangement::Transposed),
        (&[6, 5, 7], &[5, 7], Arrangement::Dense),
        (&[33, 48], &[48], Arrangement::Dense),
        (&[3, 20_480], &[20_480], Arrangement::Dense),
        // So many rows that the gradients of the parameters are sums of parts.
        (&[1500, 24], &[24], Arrangement::Dense),
    ] {
        let x = || Given::new(dtype, shape).arranged(arrangement);
        let parameter = || Given::new(dtype, own);
        let shape_attr: Vec<i64> = own.iter().map(|&d| d as i64).collect();
        let of = |op: &str, given| {
            Case::new(op, given).attr("normalized_shape", shape_attr.clone()).slack(SUMS)
        };
        all.push(of("native_layer_norm", vec![x(), parameter(), parameter()]).attr("eps", 1e-5));
        all.push(of("native_layer_norm", vec![x()]).attr("eps", 1e-5));
        let mut saved = shape.to_vec();
        saved[shape.len() - own.len()..].fill(1);
        let saved = || Given::new(dtype, &saved);
        let given = vec![x(), x(), saved(), saved(), parameter(), parameter()];
        all.push(of("native_layer_norm_backward", given).slack(10.0 * SUMS));
    }
    for (images, places) in [(3, [5, 3]), (40, [16, 16usize])] {
        let x = || Given::new(dtype, &[images, 8, places[0], places[1]]);
        let own = || Given::new(dtype, &[8]);
        let saved = || Given::new(dtype, &[images, 4]);
        for (op, given) in [
            ("native_group_norm", vec![x(), own(), own()]),
            ("native_group_norm_backward", vec![x(), x(), saved(), saved(), own()]),
        ] {
            let case = Case::new(op, given).attr("N", images as i64).attr("C", 8);
            let case = case.attr("HxW", (places[0] * places[1]) as i64).attr("group", 4);
            let case = if op.ends_with("backward") { case } else { case.attr("eps", 1e-5) };
            all.push(case.slack(10.0 * SUMS));
        }
    }
    all
}

fn batches(dtype: DType) -> Vec<Case> {
    let mut all = Vec::new();
    for shape in [&[5, 8, 7, 3][..], &[70, 8], &[5, 8, 4, 8]] {
        let x = || Given::new(dtype, shape);
        let own = || Given::new(dtype, &[8]);
        let positive = || own().values(Values::Between(0.5, 2.0));
        for training in [true, false] {
            let given = vec![x(), own(), own(), own(), positive()];
            let case = Case::new("native_batch_norm", given).attr("training", training);
            all.push(case.attr("momentum", 0.1).attr("eps", 1e-5).slack(SUMS));
            let given = vec![x(), x(), own(), own(), positive(), own(), positive()];
            let case = Case::new("native_batch_norm_backward", given).attr("train", training);
            all.push(case.attr("eps", 1e-5).slack(10.0 * SUMS));
        }
    }
    all
}
