//! Calls that the reference files do not cover, against the host's kernels: tensors of several
//! blocks, rows in several parts and copies in several pieces, which would make the files large;
//! operands that overlap the one that an op writes; programs of elementwise steps, which PyTorch
//! does not have; calls that fail because of their data.

use std::fmt;

use millstream::{AttrValue, Attrs, DType};
use millstream_testing::kernels::reference::{Run, agree};
use millstream_testing::kernels::{Num, Tensor, call, call_with};

/// An operand.
#[derive(Clone, Copy, Debug)]
enum Operand {
    /// Numbers of the case's dtype from -3 to 3.
    X(&'static [usize]),
    /// Numbers of the case's dtype from 0 to 1.
    Share(&'static [usize]),
    /// Indices below the first number.
    Index(u16, &'static [usize]),
    /// Truth values.
    Mask(&'static [usize]),
    /// A view of the case's first operand: shape, strides, offset.
    View(&'static [usize], &'static [usize], usize),
}

use Operand::{Index, Mask, Share, View, X};

/// A call of an op.
pub struct Case {
    op: &'static str,
    operands: Vec<Operand>,
    attrs: Attrs,
    dtype: DType,
    seed: u64,
    /// A part of the error that the data cause, if they do.
    fails: Option<&'static str>,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} of {:?} {}", self.op, self.dtype, self.operands, self.attrs)
    }
}

/// The dtypes, each with the difference from the host that is allowed: a share of the element, and
/// of the result's largest one, as long sums are made in another order.
const DTYPES: [(DType, f64, f64); 2] = [(DType::F32, 5e-6, 2e-5), (DType::BF16, 1.6e-2, 1e-2)];

/// Returns the cases. `seed` determines the elements.
pub fn cases(seed: u64) -> Vec<Case> {
    let mut all = Vec::new();
    let mut add = |op, operands: &[Operand], attrs: &[(&'static str, AttrValue)]| {
        let set =
            |all: Attrs, (name, value): &(&'static str, AttrValue)| all.with(*name, value.clone());
        let attrs = attrs.iter().fold(Attrs::new(), set);
        for (dtype, ..) in DTYPES {
            let (operands, attrs) = (operands.to_vec(), attrs.clone());
            all.push(Case { op, operands, attrs, dtype, seed, fails: None });
        }
    };
    let int = |v: i64| AttrValue::Int(v);
    let ints = |v: &[i64]| AttrValue::Ints(v.to_vec());
    let text = |v: &str| AttrValue::Str(v.to_owned());
    let (eps, dim) = (("eps", AttrValue::Float(1e-5)), |dim| ("dim", AttrValue::Int(dim)));

    // Several blocks of threads, with a tail after accesses of 16 bytes.
    add("add", &[X(&[70_003]), X(&[70_003])], &[]);
    add("mul", &[X(&[33, 1, 65]), X(&[40, 65])], &[]);
    add("copy", &[X(&[2, 300, 133])], &[]);
    add("triu", &[X(&[2, 133, 265])], &[("diagonal", int(-1))]);
    add("cat", &[X(&[300, 70]), X(&[300, 71])], &[dim(1)]);
    add("flip", &[X(&[30, 50, 70])], &[("dims", ints(&[0, 2]))]);
    add("masked_select", &[X(&[300, 70]), Mask(&[70])], &[]);
    add("normal", &[], &[("shape", ints(&[3, 3410])), ("mean", AttrValue::Float(9.0))]);
    // Rows of a few threads, a warp, a block, several parts, and too long for a block's registers.
    for op in ["sum", "amax", "argmax", "var"] {
        add(op, &[X(&[40_000])], &[]);
        add(op, &[X(&[33, 64])], &[dim(1)]);
        add(op, &[X(&[3, 16_400])], &[dim(1)]);
        add(op, &[X(&[20_000, 3])], &[dim(0)]);
    }
    for op in ["_softmax", "_log_softmax"] {
        let half = ("half_to_float", AttrValue::Bool(false));
        add(op, &[X(&[5, 1024])], &[dim(1), half.clone()]);
        add(op, &[X(&[2, 20_480])], &[dim(1), half.clone()]);
        add(op, &[X(&[133, 65])], &[dim(0), half]);
    }
    let row = |length| ("normalized_shape", ints(&[length]));
    let x = X(&[3, 20_480]);
    add("native_layer_norm", &[x, X(&[20_480]), X(&[20_480])], &[row(20_480), eps.clone()]);
    let (x, saved, weight) = (X(&[1500, 24]), Share(&[1500, 1]), X(&[24]));
    add("native_layer_norm", &[x, weight, weight], &[row(24), eps.clone()]);
    add("native_layer_norm_backward", &[x, x, saved, saved, weight, weight], &[row(24)]);
    let group = [("N", int(40)), ("C", int(8)), ("HxW", int(256)), ("group", int(4))];
    let (x, saved, weight) = (X(&[40, 8, 16, 16]), Share(&[40, 4]), X(&[8]));
    add("native_group_norm_backward", &[x, x, saved, saved, weight], &group);
    let train = [("training", true.into()), ("momentum", AttrValue::Float(0.1)), eps];
    add("native_batch_norm", &[x, weight, weight, weight, Share(&[8])], &train);
    // Sorts and scans longer than a block, sums of many elements into one.
    add("sort", &[X(&[2, 5000])], &[]);
    add("cumsum", &[X(&[3, 7000])], &[dim(1)]);
    add("scatter_add", &[X(&[40]), Index(40, &[9999]), X(&[9999])], &[dim(0)]);
    add("index_add", &[X(&[5, 40, 3]), Index(40, &[900]), X(&[5, 900, 3])], &[dim(1)]);
    let [rows, columns] = [Index(7, &[2000]), Index(9, &[2000])];
    let accumulate = ("accumulate", AttrValue::Bool(true));
    add("index_put", &[X(&[7, 9]), X(&[2000]), rows, columns], std::slice::from_ref(&accumulate));
    let words = ("num_weights", int(50));
    add("embedding_dense_backward", &[X(&[30, 41, 17]), Index(50, &[30, 41])], &[words]);
    add("max_pool2d_with_indices", &[X(&[2, 3, 133, 134])], &[("kernel_size", ints(&[3]))]);
    add("nll_loss_forward", &[X(&[9999, 10]), Index(10, &[9999])], &[]);
    add("mse_loss", &[X(&[130, 257]), X(&[130, 257])], &[]);
    // Products, and convolutions whose columns are made in several pieces.
    add("matmul", &[X(&[65, 133]), X(&[133, 129])], &[]);
    add("matmul", &[X(&[19, 20, 3, 5]), X(&[19, 20, 5, 2])], &[]);
    let padded = [("padding", ints(&[2]))];
    add("convolution", &[X(&[2, 8, 160, 150]), X(&[3, 8, 5, 5])], &padded);
    let all_gradients = [("output_mask", ints(&[1, 1, 1]))];
    let operands = [X(&[30, 3, 98, 88]), X(&[30, 4, 100, 90]), X(&[3, 4, 3, 3])];
    add("convolution_backward", &operands, &all_gradients);
    let (q, k) = (X(&[2, 6, 5, 8]), X(&[2, 2, 300, 8]));
    add("_scaled_dot_product_flash_attention_for_cpu", &[q, k, k], &[]);
    // Programs of elementwise steps.
    let program = "maximum(%0,%1);add(#0,%1|alpha=2);mul(#1,#0);clamp(#2|max=5)";
    add("fused", &[X(&[3, 1, 500]), X(&[70, 500])], &[("program", text(program))]);
    let program = "mul(%2|other=0.5);mul_(%0|other=0.9);addcmul_(%0,%1,#0)";
    let sets = [("program", text(program)), ("columns", int(2)), ("sets", int(2))];
    let (long, short) = (X(&[330, 70]), X(&[5]));
    add("multi_tensor", &[long, long, short, short, X(&[])], &sets);
    // Operands that share memory with the one that is written count as read before.
    let element = View(&[1], &[1], 700);
    let turned = View(&[33, 33], &[1, 33], 0);
    for op in ["add_", "copy_"] {
        add(op, &[X(&[1500]), element], &[]);
        add(op, &[X(&[33, 33]), turned], &[]);
    }
    add("addcmul_", &[X(&[1499]), View(&[1499], &[1], 0), View(&[1], &[1], 7)], &[]);
    for op in ["scatter_", "scatter_add_", "index_add_"] {
        add(op, &[X(&[60]), Index(20, &[20]), View(&[20], &[1], 10)], &[dim(0)]);
    }
    add("index_put_", &[X(&[60]), View(&[20], &[1], 10), Index(20, &[20])], &[]);
    add("index_put_", &[X(&[60]), View(&[1], &[1], 59), Mask(&[60])], &[accumulate]);
    // Divisors of zero, and indices out of range.
    for (op, operands, why) in [
        ("fmod", [Index(100, &[1023]), Index(3, &[1023])], "divided by zero"),
        ("index_select", [X(&[40]), Index(60, &[99])], "expected 0 to 39"),
        ("embedding", [X(&[40, 3]), Index(60, &[99])], "expected 0 to 39"),
    ] {
        let attrs =
            if op == "index_select" { Attrs::new().with("dim", 0i64) } else { Attrs::new() };
        let (operands, fails) = (operands.to_vec(), Some(why));
        all.push(Case { op, operands, attrs, dtype: DType::F32, seed, fails });
    }
    all
}

/// Random numbers from 0 to 1, by SplitMix64.
///
/// Source: G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", OOPSLA
/// 2014, figure 17.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

impl Case {
    /// Returns the op.
    pub fn op(&self) -> &str {
        self.op
    }

    /// Makes the call by the host's kernel and by `run`, and compares the results and the operands.
    ///
    /// # Errors
    /// The first difference, or the error of a kernel.
    pub fn check(&self, run: Run<'_>) -> Result<(), String> {
        let [host, device] = [self.operands(), self.operands()];
        let expected = call(self.op, &host.iter().collect::<Vec<_>>(), &self.attrs);
        let given: Vec<&Tensor> = device.iter().collect();
        let got = call_with(run, self.op, &given, &self.attrs, 0);
        if let Some(why) = self.fails {
            let [host, device] = [expected, got].map(|result| result.err().unwrap_or_default());
            return match [&host, &device].iter().all(|error| error.contains(why)) {
                true => Ok(()),
                false => Err(format!("expected '{why}', got '{device}', and '{host}' on the host")),
            };
        }
        let (expected, got) = (expected?, got?);
        let pairs = got.iter().chain(&device).zip(expected.iter().chain(&host));
        for (number, (got, expected)) in pairs.enumerate() {
            if got.spec != expected.spec {
                return Err(format!("{number}: expected {}, got {}", expected.spec, got.spec));
            }
            let bounds = DTYPES.into_iter().find(|(dtype, ..)| *dtype == got.spec.dtype);
            let largest = expected.values().into_iter().fold(0.0, |largest, value| match value {
                Num::Float(value) => value.abs().max(largest),
                Num::Int(_) => largest,
            });
            let tolerances = bounds.map(|(_, share, of_largest)| (share, of_largest * largest));
            agree(got, expected, tolerances.unzip()).map_err(|e| format!("{number}: {e}"))?;
        }
        Ok(())
    }

    fn operands(&self) -> Vec<Tensor> {
        let mut numbers = Numbers(self.seed);
        let mut all: Vec<Tensor> = Vec::new();
        for operand in &self.operands {
            let (dtype, shape, scale, first) = match *operand {
                X(shape) => (self.dtype, shape, 6.0, -3.0),
                Share(shape) => (self.dtype, shape, 1.0, 0.0),
                Index(below, shape) => (DType::I64, shape, f64::from(below), 0.0),
                Mask(shape) => (DType::Bool, shape, 2.0, 0.0),
                View(shape, strides, offset) => {
                    all.push(all[0].view(shape, strides, offset));
                    continue;
                }
            };
            let count = shape.iter().product();
            let values = std::iter::repeat_with(|| first + scale * numbers.next()).take(count);
            all.push(match dtype {
                DType::I64 | DType::Bool => {
                    Tensor::ints(dtype, shape, &values.map(|v| v as i64).collect::<Vec<_>>())
                }
                _ => Tensor::floats(dtype, shape, &values.collect::<Vec<_>>()),
            });
        }
        all
    }
}
