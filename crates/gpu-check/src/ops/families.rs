//! Compares ops that select, write, join, copy, sort and scan elements, pooling and losses with the
//! host's kernels: over dtypes, odd sizes, and operands with gaps.
//!
//! Long because of the table of cases.

use anyhow::{Context, Result, ensure};

use millstream::{AttrValue, DType, Machine, Stream, Tensor, TensorSpec};

/// The content of an operand.
#[derive(Clone, Copy, Debug)]
enum Holds {
    /// Numbers of the case's dtype from -3 to 3.
    Any,
    /// Numbers of the case's dtype from 0 to 1.
    Share,
    /// Whole numbers from the first to before the second.
    Whole(i64, i64),
    /// Truth values.
    Mask,
    /// The second result of an earlier call of this op on the operand of this number.
    Of(&'static str, usize),
}

use Holds::{Any, Mask, Of, Share, Whole};

/// An argument.
#[derive(Clone, Copy, Debug)]
enum Arg {
    Int(i64),
    Ints(&'static [i64]),
    Bool(bool),
    Float(f64),
    Str(&'static str),
}

use Arg::{Bool, Float, Int, Ints, Str};

type Operand = (Holds, &'static [usize]);
type Args = &'static [(&'static str, Arg)];
type Case = (&'static str, &'static [Operand], Args);

/// Cases of every numeric dtype.
const NUMBERS: &[Case] = &[
    ("cat", &[(Any, &[3, 5]), (Any, &[3, 70])], &[("dim", Int(1))]),
    ("stack", &[(Any, &[3, 5]), (Any, &[3, 5])], &[("dim", Int(-1))]),
    ("repeat", &[(Any, &[3, 5])], &[("repeats", Ints(&[2, 1, 3]))]),
    ("constant_pad_nd", &[(Any, &[3, 5])], &[("pad", Ints(&[2, -1, 0, 3])), ("value", Int(7))]),
    (
        "select_backward",
        &[(Any, &[3, 7])],
        &[("input_sizes", Ints(&[3, 5, 7])), ("dim", Int(1)), ("index", Int(-2))],
    ),
    (
        "slice_backward",
        &[(Any, &[3, 3])],
        &[
            ("input_sizes", Ints(&[3, 7])),
            ("dim", Int(1)),
            ("start", Int(1)),
            ("end", Int(6)),
            ("step", Int(2)),
        ],
    ),
    ("diagonal_backward", &[(Any, &[4])], &[("input_sizes", Ints(&[4, 5])), ("offset", Int(1))]),
    ("flip", &[(Any, &[3, 5, 7])], &[("dims", Ints(&[0, 2]))]),
    ("roll", &[(Any, &[3, 5, 7])], &[("shifts", Ints(&[2, -3])), ("dims", Ints(&[0, 2]))]),
    ("roll", &[(Any, &[3, 5, 7])], &[("shifts", Ints(&[11]))]),
    ("triu", &[(Any, &[2, 33, 65])], &[("diagonal", Int(-1))]),
    ("tril", &[(Any, &[2, 33, 65])], &[]),
    ("triu_", &[(Any, &[33, 65])], &[]),
    ("tril_", &[(Any, &[33, 65])], &[("diagonal", Int(2))]),
    ("gather", &[(Any, &[5, 40]), (Whole(0, 40), &[5, 300])], &[("dim", Int(1))]),
    ("index_select", &[(Any, &[5, 40, 3]), (Whole(0, 40), &[300])], &[("dim", Int(1))]),
    ("embedding", &[(Any, &[50, 17]), (Whole(0, 50), &[3, 41])], &[]),
    (
        "index",
        &[(Any, &[7, 9, 11]), (Whole(-9, 9), &[5, 1]), (Whole(-11, 11), &[6])],
        &[("absent", Ints(&[0]))],
    ),
    ("index", &[(Any, &[30, 20, 3]), (Mask, &[30, 20])], &[]),
    ("masked_select", &[(Any, &[30, 70]), (Mask, &[70])], &[]),
    ("nonzero", &[(Whole(-1, 2), &[30, 7, 5])], &[]),
    (
        "scatter",
        &[(Any, &[5, 40]), (Whole(0, 40), &[5, 300]), (Any, &[5, 300])],
        &[("dim", Int(1))],
    ),
    ("scatter_", &[(Any, &[40]), (Whole(0, 40), &[33])], &[("dim", Int(0)), ("value", Int(2))]),
    (
        "scatter_add",
        &[(Any, &[40, 5]), (Whole(0, 40), &[99, 5]), (Any, &[99, 5])],
        &[("dim", Int(0))],
    ),
    ("scatter_add_", &[(Any, &[40]), (Whole(0, 40), &[999]), (Any, &[999])], &[("dim", Int(0))]),
    (
        "index_add",
        &[(Any, &[5, 40, 3]), (Whole(0, 40), &[90]), (Any, &[5, 90, 3])],
        &[("dim", Int(1)), ("alpha", Int(2))],
    ),
    ("index_add_", &[(Any, &[40]), (Whole(0, 40), &[900]), (Any, &[900])], &[("dim", Int(0))]),
    (
        "index_put",
        &[(Any, &[7, 9]), (Any, &[200]), (Whole(-7, 7), &[200]), (Whole(-9, 9), &[200])],
        &[("accumulate", Bool(true))],
    ),
    ("index_put_", &[(Any, &[70, 9]), (Any, &[9]), (Whole(-70, 70), &[20])], &[]),
    ("index_put_", &[(Any, &[70, 9]), (Any, &[9]), (Mask, &[70])], &[]),
    (
        "index_put",
        &[(Any, &[30, 20, 3]), (Any, &[3]), (Mask, &[30, 20])],
        &[("accumulate", Bool(true))],
    ),
    (
        "index_put_",
        &[(Any, &[30, 20]), (Any, &[]), (Mask, &[30, 20])],
        &[("accumulate", Bool(true))],
    ),
    ("sort", &[(Any, &[3, 700])], &[]),
    ("sort", &[(Any, &[70, 5])], &[("dim", Int(0)), ("descending", Bool(true))]),
    ("sort", &[(Any, &[2, 5000])], &[]),
    ("argsort", &[(Any, &[3, 701])], &[]),
    ("topk", &[(Any, &[3, 700])], &[("k", Int(9))]),
    ("cumsum", &[(Any, &[3, 700])], &[("dim", Int(1))]),
    ("cumprod", &[(Any, &[9, 5])], &[("dim", Int(0))]),
    (
        "scatter_reduce",
        &[(Any, &[40, 5]), (Whole(0, 40), &[99, 5]), (Any, &[99, 5])],
        &[("dim", Int(0)), ("reduce", Str("sum")), ("include_self", Bool(false))],
    ),
    (
        "scatter_reduce",
        &[(Any, &[5, 40]), (Whole(0, 40), &[5, 99]), (Any, &[5, 99])],
        &[("dim", Int(1)), ("reduce", Str("prod"))],
    ),
    (
        "scatter_reduce",
        &[(Any, &[40, 5]), (Whole(0, 40), &[99, 5]), (Any, &[99, 5])],
        &[("dim", Int(0)), ("reduce", Str("amax")), ("include_self", Bool(false))],
    ),
    (
        "scatter_reduce",
        &[(Any, &[40, 5]), (Whole(0, 40), &[99, 5]), (Any, &[99, 5])],
        &[("dim", Int(0)), ("reduce", Str("amin"))],
    ),
    ("randint", &[], &[("shape", Ints(&[3, 5, 7])), ("high", Int(100)), ("seed", Int(1 << 40))]),
    (
        "randint_",
        &[(Any, &[3, 341])],
        &[("low", Int(3)), ("high", Int(1 << 50)), ("offset", Int(-2))],
    ),
    ("bernoulli", &[(Any, &[3, 341]), (Whole(5, 9), &[])], &[("p", Float(0.3)), ("seed", Int(7))]),
    ("bernoulli_", &[(Any, &[3, 341]), (Whole(5, 9), &[])], &[("p", Float(0.7))]),
    (
        "fused",
        &[(Any, &[3, 1, 5]), (Any, &[70, 5])],
        &[("program", Str("maximum(%0,%1);add(#0,%1|alpha=2);mul(#1,#0);clamp(#2|max=5)"))],
    ),
];

/// Cases of floating-point dtypes.
const FLOATS: &[Case] = &[
    (
        "multi_tensor",
        &[(Any, &[33, 7]), (Any, &[33, 7]), (Any, &[5]), (Any, &[5]), (Any, &[])],
        &[
            ("program", Str("mul(%2|other=0.5);mul_(%0|other=0.9);addcmul_(%0,%1,#0)")),
            ("columns", Int(2)),
            ("sets", Int(2)),
        ],
    ),
    ("uniform", &[(Whole(5, 9), &[])], &[("shape", Ints(&[3, 5])), ("dtype", Str("f64"))]),
    ("uniform_", &[(Any, &[3, 341])], &[("from", Float(-2.0)), ("to", Float(7.0))]),
    ("normal", &[], &[("shape", Ints(&[3, 341])), ("mean", Float(9.0)), ("std", Float(2.0))]),
    ("normal_", &[(Any, &[7, 3, 41]), (Whole(5, 9), &[])], &[("seed", Int(-1))]),
    // Parts of larger tensors.
    ("uniform_", &[(Any, &[3, 341])], &[("whole", Ints(&[5, 500])), ("first", Ints(&[2, 100]))]),
    ("exponential", &[], &[("shape", Ints(&[1030])), ("lambd", Float(3.0))]),
    ("exponential_", &[(Any, &[3, 41])], &[("offset", Int(1 << 40))]),
    ("bernoulli", &[(Share, &[3, 341])], &[("seed", Int(3))]),
    ("native_dropout", &[(Any, &[3, 341]), (Whole(5, 9), &[])], &[("p", Float(0.4))]),
    (
        "embedding_dense_backward",
        &[(Any, &[3, 41, 17]), (Whole(0, 20), &[3, 41])],
        &[("num_weights", Int(50)), ("padding_idx", Int(4)), ("scale_grad_by_freq", Bool(true))],
    ),
    (
        "max_pool2d_with_indices",
        &[(Any, &[2, 3, 33, 34])],
        &[("kernel_size", Ints(&[3])), ("stride", Ints(&[2])), ("padding", Ints(&[1]))],
    ),
    (
        "max_pool2d_with_indices_backward",
        &[(Any, &[2, 3, 16, 16]), (Any, &[2, 3, 33, 34]), (Of("max_pool2d_with_indices", 1), &[])],
        &[("kernel_size", Ints(&[3])), ("stride", Ints(&[2]))],
    ),
    (
        "avg_pool2d",
        &[(Any, &[2, 3, 33, 34])],
        &[("kernel_size", Ints(&[3])), ("padding", Ints(&[1])), ("ceil_mode", Bool(true))],
    ),
    (
        "avg_pool2d_backward",
        &[(Any, &[2, 3, 11, 11]), (Any, &[2, 3, 33, 34])],
        &[("kernel_size", Ints(&[3]))],
    ),
    ("_adaptive_avg_pool2d", &[(Any, &[2, 3, 33, 34])], &[("output_size", Ints(&[7, 5]))]),
    ("_adaptive_avg_pool2d_backward", &[(Any, &[2, 3, 7, 5]), (Any, &[2, 3, 33, 34])], &[]),
    ("mse_loss", &[(Any, &[130, 257]), (Any, &[130, 257])], &[]),
    ("mse_loss_backward", &[(Any, &[]), (Any, &[130, 257]), (Any, &[130, 257])], &[]),
    (
        "smooth_l1_loss",
        &[(Any, &[130, 257]), (Any, &[130, 257])],
        &[("beta", Float(0.5)), ("reduction", Str("none"))],
    ),
    ("smooth_l1_loss_backward", &[(Any, &[]), (Any, &[130, 257]), (Any, &[130, 257])], &[]),
    ("huber_loss", &[(Any, &[130, 257]), (Any, &[130, 257])], &[("delta", Float(0.7))]),
    ("huber_loss_backward", &[(Any, &[]), (Any, &[130, 257]), (Any, &[130, 257])], &[]),
    ("binary_cross_entropy", &[(Share, &[130, 257]), (Share, &[130, 257]), (Share, &[257])], &[]),
    (
        "binary_cross_entropy_backward",
        &[(Any, &[]), (Share, &[130, 257]), (Share, &[130, 257])],
        &[],
    ),
    ("binary_cross_entropy_with_logits", &[(Any, &[130, 257]), (Share, &[130, 257])], &[]),
    ("nll_loss_forward", &[(Any, &[999, 10]), (Whole(0, 10), &[999])], &[]),
    (
        "nll_loss_backward",
        &[(Any, &[]), (Any, &[999, 10]), (Whole(0, 10), &[999]), (Share, &[10]), (Share, &[])],
        &[("ignore_index", Int(3))],
    ),
    (
        "nll_loss2d_forward",
        &[(Any, &[2, 5, 6, 7]), (Whole(0, 5), &[2, 6, 7])],
        &[("reduction", Str("none"))],
    ),
    (
        "nll_loss2d_backward",
        &[
            (Any, &[2, 6, 7]),
            (Any, &[2, 5, 6, 7]),
            (Whole(0, 5), &[2, 6, 7]),
            (Share, &[5]),
            (Share, &[]),
        ],
        &[("reduction", Str("none"))],
    ),
    (
        "fused",
        &[(Any, &[33, 7]), (Whole(-3, 4), &[7]), (Any, &[])],
        &[(
            "program",
            Str("tanh(%0);gt(#0|other=0.25);where(#1,#0,%1);addcmul(#2,%2,%0|value=0.5)"),
        )],
    ),
];

/// Dtypes with the absolute and the additional relative difference from the host that is allowed.
const DTYPES: &[(DType, f64, f64)] = &[
    (DType::F32, 1e-6, 5e-6),
    (DType::F64, 1e-14, 1e-13),
    (DType::F16, 1e-4, 2e-3),
    (DType::BF16, 1e-3, 1.6e-2),
    (DType::I64, 0.0, 0.0),
    (DType::I32, 0.0, 0.0),
    (DType::I16, 0.0, 0.0),
    (DType::I8, 0.0, 0.0),
    (DType::U8, 0.0, 0.0),
];

/// Returns whether an op is compared here.
pub(crate) fn has(op: &str) -> bool {
    NUMBERS.iter().chain(FLOATS).any(|case| case.0 == op)
}

/// The machine, a stream of the host, a stream of the device, and random numbers.
pub(crate) struct Pair<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) host: &'a Stream,
    pub(crate) device: &'a Stream,
    /// Returns a new random number from 0 to 1.
    pub(crate) numbers: &'a mut dyn FnMut() -> f64,
}

/// Compares every op on both, with each dtype, or, if not `thorough`, with every third in turn.
/// Passes each result to `outcome` with the name of the case.
pub(crate) fn check(
    mut pair: Pair<'_>,
    thorough: bool,
    wanted: impl Fn(&str) -> bool,
    mut outcome: impl FnMut(String, Result<()>),
) {
    for (turn, &bounds) in DTYPES.iter().enumerate() {
        let floats = FLOATS.iter().filter(|_| bounds.0.is_float());
        for (number, case) in NUMBERS.iter().chain(floats).enumerate() {
            if !wanted(case.0) || (!thorough && (turn + number) % 3 > 0) {
                continue;
            }
            for gaps in [false, true] {
                let with = if gaps { " with gaps" } else { "" };
                let what = format!("{} {}{with} {:?} {:?}", case.0, bounds.0, case.1, case.2);
                outcome(what, pair.compare(case, bounds, gaps));
            }
        }
    }
}

impl Pair<'_> {
    fn compare(
        &mut self,
        (op, operands, args): &Case,
        (dtype, abs, rel): (DType, f64, f64),
        gaps: bool,
    ) -> Result<()> {
        let mut made: Vec<[Tensor; 2]> = Vec::new();
        for operand in *operands {
            let tensor = match *operand {
                (Of(before, given), _) => {
                    let host = self.call(before, &[&made[given][0]], args, self.host)?;
                    let second = host.into_iter().nth(1).context("no second result")?;
                    [second.clone(), second.copy_to(self.device)?]
                }
                (holds, shape) => self.operand(dtype, holds, shape, gaps)?,
            };
            made.push(tensor);
        }
        let mut sides = Vec::new();
        for (side, stream) in [self.host, self.device].into_iter().enumerate() {
            let given: Vec<&Tensor> = made.iter().map(|both| &both[side]).collect();
            let mut results = self.call(op, &given, args, stream)?;
            if op.ends_with('_') {
                results = vec![given[0].clone()];
            }
            // `topk` leaves the order of ties open, so only its values are compared.
            results.truncate(if *op == "topk" { 1 } else { results.len() });
            let values = results.iter().map(|result| self.values(result));
            sides.push(values.collect::<Result<Vec<_>>>()?);
        }
        let (device, host) = (sides.pop().unwrap_or_default(), sides.pop().unwrap_or_default());
        for (number, (device, host)) in device.iter().zip(&host).enumerate() {
            let (got, expected) = (device.len(), host.len());
            ensure!(got == expected, "result {number} has {got} elements, expected {expected}");
            let near = |d: f64, h: f64| {
                d == h || (d.is_nan() && h.is_nan()) || (d - h).abs() <= abs + rel * h.abs()
            };
            let wrong = device.iter().zip(host).find(|(d, h)| !near(**d, **h));
            if let Some((d, h)) = wrong {
                anyhow::bail!("result {number}: {d}, expected {h}");
            }
        }
        Ok(())
    }

    fn call(&self, op: &str, given: &[&Tensor], args: Args, on: &Stream) -> Result<Vec<Tensor>> {
        let mut call = self.machine.call(op, given);
        for (name, arg) in args {
            call = call.attr(
                *name,
                match *arg {
                    Int(v) => AttrValue::Int(v),
                    Ints(v) => AttrValue::Ints(v.to_vec()),
                    Bool(v) => AttrValue::Bool(v),
                    Float(v) => AttrValue::Float(v),
                    Str(v) => AttrValue::Str(v.to_owned()),
                },
            );
        }
        Ok(call.on(on)?)
    }

    /// Reads the elements on the host.
    fn values(&self, tensor: &Tensor) -> Result<Vec<f64>> {
        let home = tensor.copy_to(self.host)?;
        let wide = self.machine.call("cast", &[&home]).attr("dtype", DType::F64);
        let bytes = wide.on(self.host)?.remove(0).read()?;
        let number = |c: &[u8]| f64::from_ne_bytes(c.try_into().unwrap_or_default());
        Ok(bytes.chunks_exact(8).map(number).collect())
    }

    /// Makes a tensor on the host and on the device; with gaps, it has every second element of
    /// longer rows.
    fn operand(
        &mut self,
        dtype: DType,
        holds: Holds,
        shape: &[usize],
        gaps: bool,
    ) -> Result<[Tensor; 2]> {
        let mut whole = shape.to_vec();
        if let Some(last) = whole.last_mut().filter(|_| gaps) {
            *last *= 2;
        }
        let mut number = || {
            let share = (self.numbers)();
            match holds {
                Any => share * 6.0 - 3.0,
                Whole(from, to) => (from as f64 + share * (to - from) as f64).floor(),
                Mask => f64::from(u8::from(share < 0.4)),
                Share | Of(..) => share,
            }
        };
        let spec = TensorSpec::contiguous(DType::F64, &whole)?;
        let bytes = (0..spec.numel()).flat_map(|_| number().to_ne_bytes()).collect();
        let exact = self.machine.upload(self.host, spec, bytes)?;
        let dtype = match holds {
            Any | Share | Of(..) => dtype,
            Whole(..) => DType::I64,
            Mask => DType::Bool,
        };
        let cast = self.machine.call("cast", &[&exact]).attr("dtype", dtype);
        let host = cast.on(self.host)?.remove(0);
        let device = host.copy_to(self.device)?;
        let (true, Some(&last)) = (gaps, shape.last()) else { return Ok([host, device]) };
        let half = |x: &Tensor, on: &Stream| -> Result<Tensor> {
            let call = self.machine.call("slice", &[x]).attr("dim", shape.len() as i64 - 1);
            let call = call.attr("start", 0).attr("end", 2 * last as i64).attr("step", 2);
            Ok(call.on(on)?.remove(0))
        };
        Ok([half(&host, self.host)?, half(&device, self.device)?])
    }
}
