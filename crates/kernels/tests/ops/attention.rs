//! Attention, forward and backward, against sums over all keys in f64.

use millstream_types::{Attrs, DType, Layout};

use millstream_testing::kernels::*;

const OP: &str = "_scaled_dot_product_flash_attention_for_cpu";

/// Returns numbers that look random, from -1 to 1.
fn floats(dtype: DType, shape: &[usize], seed: u64) -> Tensor {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (state >> 33) as f64 / f64::from(1 << 30) - 1.0
    };
    let values: Vec<Num> = (0..shape.iter().product()).map(|_| Float(next())).collect();
    Tensor::dense(dtype, shape, &values)
}

fn float(v: Num) -> f64 {
    match v {
        Float(v) => v,
        other => panic!("{other:?}: expected a float"),
    }
}

fn all(t: &Tensor) -> Vec<f64> {
    t.values().into_iter().map(float).collect()
}

/// The inputs of a call.
struct Given {
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Option<Tensor>,
    causal: bool,
}

/// The sizes of a call: batches, heads of q, heads of k and v, queries, keys, width.
type Sizes = [usize; 6];

impl Given {
    fn new(dtype: DType, [b, heads, shared, queries, keys, width]: Sizes) -> Given {
        let q = floats(dtype, &[b, heads, queries, width], 1);
        let [k, v] = [2, 3].map(|seed| floats(dtype, &[b, shared, keys, width], seed));
        Given { q, k, v, mask: None, causal: false }
    }

    fn sizes(&self) -> Sizes {
        let (&[b, heads, queries, width], &[_, shared, keys, _]) = (self.q.shape(), self.k.shape())
        else {
            panic!("four dimensions")
        };
        [b, heads, shared, queries, keys, width]
    }

    fn attrs(&self) -> Attrs {
        Attrs::new().with("is_causal", self.causal).with("scale", 1.5)
    }

    fn run(&self, threads: usize) -> Vec<Tensor> {
        let mut inputs = vec![&self.q, &self.k, &self.v];
        inputs.extend(&self.mask);
        call_on(OP, &inputs, &self.attrs(), threads).unwrap()
    }

    /// Returns the weights and the logarithm of the sum of exponentials of a query.
    fn weights(&self, [b, head, query]: [usize; 3]) -> (Vec<f64>, f64) {
        let [_, heads, shared, _, keys, width] = self.sizes();
        let of_keys = head / (heads / shared);
        let score = |key: usize| {
            if self.causal && key > query {
                return f64::NEG_INFINITY;
            }
            let product = |c: usize| {
                float(self.q.get(&[b, head, query, c])) * float(self.k.get(&[b, of_keys, key, c]))
            };
            let mask = self.mask.as_ref().map_or(0.0, |mask| {
                float(mask.get(&broadcast_index(mask.shape(), &[b, head, query, key])))
            });
            1.5 * (0..width).map(product).sum::<f64>() + mask
        };
        let scores: Vec<f64> = (0..keys).map(score).collect();
        let greatest = scores.iter().fold(f64::NEG_INFINITY, |a, &b| a.max(b));
        if greatest == f64::NEG_INFINITY {
            return (vec![0.0; keys], 0.0);
        }
        let sum: f64 = scores.iter().map(|s| (s - greatest).exp()).sum();
        (scores.iter().map(|s| (s - greatest).exp() / sum).collect(), greatest + sum.ln())
    }

    /// Compares a run with sums in f64.
    fn check(&self) -> Vec<Tensor> {
        let [b, heads, shared, queries, keys, width] = self.sizes();
        let results = self.run(0);
        let error = error(self.q.spec.dtype);
        for at in indices(&[b, heads, queries]) {
            let (weights, log) = self.weights([at[0], at[1], at[2]]);
            let got = float(results[1].get(&at));
            let bound = 1e-4f64.max(1e-6 * log.abs());
            assert!((got - log).abs() <= bound, "{got} for {log} at {at:?}");
            for c in 0..width {
                let term = |key: usize| {
                    weights[key] * float(self.v.get(&[at[0], at[1] / (heads / shared), key, c]))
                };
                let expected: f64 = (0..keys).map(term).sum();
                let got = float(results[0].get(&[at[0], at[1], at[2], c]));
                // Great scores are rounded by more.
                let error = error * (1.0 + log.abs() / 16.0);
                assert!((got - expected).abs() <= error, "{got} for {expected} at {at:?} {c}");
            }
        }
        results
    }

    /// Compares the gradients with sums in f64.
    fn check_backward(&self) {
        let [b, heads, shared, queries, keys, width] = self.sizes();
        let results = self.check();
        let dtype = self.q.spec.dtype;
        let grad = floats(dtype, self.q.shape(), 7);
        let mut inputs = vec![&grad, &self.q, &self.k, &self.v, &results[0], &results[1]];
        inputs.extend(&self.mask);
        let op = format!("{OP}_backward");
        let got = call(&op, &inputs, &self.attrs()).unwrap();
        let mut expected = [&self.q, &self.k, &self.v].map(|t| vec![0.0; all(t).len()]);
        let (q, k, v, grad) = (all(&self.q), all(&self.k), all(&self.v), all(&grad));
        for at in indices(&[b, heads, queries]) {
            let (weights, _) = self.weights([at[0], at[1], at[2]]);
            let row = ((at[0] * heads + at[1]) * queries + at[2]) * width;
            let first = (at[0] * shared + at[1] / (heads / shared)) * keys;
            let of_weight = |key: usize| -> f64 {
                (0..width).map(|c| grad[row + c] * v[(first + key) * width + c]).sum()
            };
            let of_weights: Vec<f64> = (0..keys).map(of_weight).collect();
            let sum: f64 = weights.iter().zip(&of_weights).map(|(w, g)| w * g).sum();
            for key in 0..keys {
                let score = weights[key] * (of_weights[key] - sum) * 1.5;
                for c in 0..width {
                    let of_key = (first + key) * width + c;
                    expected[0][row + c] += score * k[of_key];
                    expected[1][of_key] += score * q[row + c];
                    expected[2][of_key] += weights[key] * grad[row + c];
                }
            }
        }
        for (number, (got, expected)) in got.iter().zip(&expected).enumerate() {
            for (at, (got, expected)) in all(got).iter().zip(expected).enumerate() {
                let bound = 4.0 * error(dtype) * (1.0 + expected.abs());
                assert!((got - expected).abs() <= bound, "{number}: {got} for {expected} at {at}");
            }
        }
        for threads in [1, 3] {
            let again = call_on(&op, &inputs, &self.attrs(), threads).unwrap();
            assert!(again.iter().zip(&got).all(|(a, b)| a.bytes() == b.bytes()));
        }
    }
}

/// The error of results of magnitude one.
fn error(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-13,
        DType::F32 => 2e-6,
        DType::F16 => 2e-3,
        _ => 2e-2,
    }
}

/// One more or less than a block of queries or keys, one of each, and heads that share keys.
const SIZES: [Sizes; 6] = [
    [1, 1, 1, 1, 1, 1],
    [2, 4, 2, 3, 5, 7],
    [1, 2, 1, 97, 257, 9],
    [1, 1, 1, 1, 600, 16],
    [1, 1, 1, 200, 3, 4],
    [1, 1, 1, 95, 513, 5],
];

#[test]
fn blocks_give_the_softmax_of_all_keys() {
    for sizes in SIZES {
        for causal in [false, true] {
            let dtypes = [DType::F32, DType::F64, DType::F16, DType::BF16];
            for dtype in dtypes {
                Given { causal, ..Given::new(dtype, sizes) }.check_backward();
            }
        }
    }
}

#[test]
fn masks_are_added() {
    let infinite = |i: usize| if i % 3 == 1 { f64::NEG_INFINITY } else { (i % 5) as f64 / 4.0 };
    for shape in [[2, 2, 99, 300], [1, 1, 99, 300], [2, 1, 1, 300], [1, 2, 99, 1]] {
        let given = Given::new(DType::F32, [2, 2, 2, 99, 300, 4]);
        let count = shape.iter().product();
        let values: Vec<Num> = (0..count).map(|i: usize| Float(infinite(i * 7 % 31))).collect();
        let mask = Some(Tensor::dense(DType::F32, &shape, &values));
        Given { mask, ..given }.check_backward();
    }
}

/// The greatest score rises from block to block, so that all before is scaled down.
#[test]
fn rising_scores_do_not_overflow() {
    let given = Given::new(DType::F32, [1, 1, 1, 2, 1024, 2]);
    let mask = (0..1024).map(|key| Float(f64::from(key)));
    let mask = Some(Tensor::dense(DType::F32, &[1, 1, 1, 1024], &mask.collect::<Vec<Num>>()));
    Given { mask, ..given }.check();
}

#[test]
fn operands_are_read_in_any_layout() {
    let given = Given { causal: true, ..Given::new(DType::F32, [2, 3, 3, 100, 300, 8]) };
    let expected = given.run(0);
    // Heads beside one another in each row, and widths that do not follow one another.
    for order in [[3, 1, 2, 0], [2, 3, 1, 0]] {
        let turned = |t: &Tensor| {
            let shape = t.shape();
            let (mut strides, mut step) = ([0; 4], 1);
            for dim in order {
                strides[dim] = step;
                step *= shape[dim];
            }
            t.relaid(Layout::strided(shape, &strides, 0).unwrap())
        };
        let [q, k, v] = [&given.q, &given.k, &given.v].map(turned);
        let turned = Given { q, k, v, mask: None, causal: true };
        turned.check();
        let got = turned.run(2);
        assert!(got.iter().zip(&expected).all(|(a, b)| a.values() == b.values()));
    }
}

#[test]
fn elements_that_are_not_finite_reach_their_queries() {
    let given = Given::new(DType::F32, [1, 1, 1, 100, 300, 4]);
    given.q.set(&[0, 0, 3, 0], Float(f64::NAN));
    let out = given.run(0).remove(0);
    for query in 0..100 {
        let nan = float(out.get(&[0, 0, query, 0])).is_nan();
        assert_eq!(nan, query == 3, "{query}");
    }
    // A key that causality hides from the queries before it.
    let given = Given { causal: true, ..Given::new(DType::F32, [1, 1, 1, 300, 300, 4]) };
    given.k.set(&[0, 0, 270, 1], Float(f64::INFINITY));
    let out = given.run(0).remove(0);
    let mut reached = 0;
    for query in 0..300 {
        let finite = float(out.get(&[0, 0, query, 0])).is_finite();
        assert!(finite || query >= 270, "{query}");
        reached += usize::from(!finite);
    }
    assert!(reached > 0);
    // All keys are hidden: zeros, and 0 as the logarithm.
    let hidden = Tensor::floats(DType::F32, &[1, 1, 1, 300], &[f64::NEG_INFINITY]);
    let given = Given { mask: Some(hidden), ..Given::new(DType::F32, [1, 1, 1, 2, 300, 4]) };
    assert!(given.run(0).iter().flat_map(all).all(|v| v == 0.0));
}

#[test]
fn nothing_is_computed_for_no_batch() {
    let given = Given::new(DType::F32, [0, 2, 1, 3, 5, 4]);
    assert_eq!(given.run(2)[0].shape(), given.q.shape());
}
