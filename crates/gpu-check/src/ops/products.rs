//! Compares matrix products, convolutions and attention with the host's kernels: over dtypes, odd
//! sizes, and arrangements of operands that cuBLAS can and cannot address.
//!
//! Long because the table of cases is kept in one piece.
//!
//! An operand is made on both sides and arranged by views, so both compute from the same elements.

use anyhow::{Context, Result};

use millstream::{AttrValue, DType, Machine, Stream, Tensor, TensorSpec};

/// The ops that are compared here.
pub(crate) const OPS: &[&str] = &[
    "matmul",
    "addmm",
    "baddbmm",
    "convolution",
    "convolution_backward",
    ATTENTION,
    ATTENTION_BACKWARD,
];

const ATTENTION: &str = "_scaled_dot_product_flash_attention_for_cpu";
const ATTENTION_BACKWARD: &str = "_scaled_dot_product_flash_attention_for_cpu_backward";

/// The arrangement of an operand's elements in memory.
#[derive(Clone, Copy, Debug)]
enum Arrangement {
    /// Row after row.
    Rows,
    /// Column after column.
    Columns,
    /// Row after row, cut from longer rows.
    Within,
    /// Every second element of each row.
    Gaps,
    /// The last batch dimension lies within the rows, as heads in attention.
    Heads,
    /// One matrix for the whole first dimension.
    Expanded,
    /// The second dimension is innermost, as channels in images with channels last.
    Inside,
}

use Arrangement::{Columns, Expanded, Gaps, Heads, Inside, Rows, Within};

type Operand = (&'static [usize], Arrangement);

#[derive(Clone, Copy, Debug)]
enum Value {
    Number(f64),
    Whole(&'static [i64]),
    Flag(bool),
}

use Value::{Flag, Number, Whole};

struct Case {
    op: &'static str,
    operands: &'static [Operand],
    attrs: &'static [(&'static str, Value)],
    /// The number of products of numbers below 3 that are summed for an element of a result.
    terms: usize,
    /// The greatest magnitude of intermediate results that are rounded: weights of attention, and
    /// the gradients of the scores.
    rounded: f64,
}

const fn case(op: &'static str, operands: &'static [Operand]) -> Case {
    Case { op, operands, attrs: &[], terms: 130, rounded: 0.0 }
}

const fn scaled(operands: &'static [Operand], attrs: &'static [(&'static str, Value)]) -> Case {
    let op = if operands[1].0.len() == 2 { "addmm" } else { "baddbmm" };
    Case { attrs, ..case(op, operands) }
}

const fn conv(operands: &'static [Operand], attrs: &'static [(&'static str, Value)]) -> Case {
    Case { attrs, terms: 300, ..case("convolution", operands) }
}

const fn conv_back(operands: &'static [Operand], attrs: &'static [(&'static str, Value)]) -> Case {
    Case { attrs, terms: 3000, ..case("convolution_backward", operands) }
}

const fn attend(operands: &'static [Operand], attrs: &'static [(&'static str, Value)]) -> Case {
    Case { attrs, rounded: 3.0, ..case(ATTENTION, operands) }
}

const fn attend_back(
    operands: &'static [Operand],
    attrs: &'static [(&'static str, Value)],
) -> Case {
    Case { attrs, terms: 3000, rounded: 500.0, ..case(ATTENTION_BACKWARD, operands) }
}

/// The argument that requests every gradient of a convolution.
const ALL: (&str, Value) = ("output_mask", Whole(&[1, 1, 1]));

const CASES: &[Case] = &[
    case("matmul", &[(&[7], Rows), (&[7], Rows)]),
    case("matmul", &[(&[7], Gaps), (&[7, 3], Columns)]),
    case("matmul", &[(&[5, 7], Rows), (&[7], Gaps)]),
    case("matmul", &[(&[1, 1], Rows), (&[1, 1], Rows)]),
    case("matmul", &[(&[1, 9], Rows), (&[9, 1], Rows)]),
    case("matmul", &[(&[4, 1], Gaps), (&[1, 6], Columns)]),
    case("matmul", &[(&[65, 33], Rows), (&[33, 129], Rows)]),
    case("matmul", &[(&[17, 129], Columns), (&[129, 31], Rows)]),
    case("matmul", &[(&[17, 129], Rows), (&[129, 31], Columns)]),
    case("matmul", &[(&[17, 29], Columns), (&[29, 31], Columns)]),
    case("matmul", &[(&[17, 29], Within), (&[29, 31], Within)]),
    case("matmul", &[(&[17, 29], Gaps), (&[29, 31], Gaps)]),
    case("matmul", &[(&[0, 3], Rows), (&[3, 4], Rows)]),
    case("matmul", &[(&[5, 0], Rows), (&[0, 3], Rows)]),
    case("matmul", &[(&[2, 3, 5, 0], Rows), (&[0, 3], Rows)]),
    case("matmul", &[(&[6, 5, 7], Rows), (&[7, 3], Rows)]),
    case("matmul", &[(&[6, 5, 7], Gaps), (&[7, 3], Rows)]),
    case("matmul", &[(&[6, 1, 7], Within), (&[7, 3], Columns)]),
    case("matmul", &[(&[5, 7], Rows), (&[6, 7, 3], Rows)]),
    case("matmul", &[(&[7], Rows), (&[6, 7, 3], Rows)]),
    case("matmul", &[(&[6, 5, 7], Columns), (&[7], Rows)]),
    case("matmul", &[(&[2, 3, 5, 7], Heads), (&[2, 3, 7, 4], Heads)]),
    case("matmul", &[(&[2, 1, 5, 7], Rows), (&[3, 7, 4], Rows)]),
    case("matmul", &[(&[6, 5, 7], Expanded), (&[6, 7, 4], Expanded)]),
    // Needs more calls of cuBLAS than one product is worth: both operands are copied first.
    case("matmul", &[(&[19, 20, 3, 5], Heads), (&[19, 20, 5, 2], Heads)]),
    case("addmm", &[(&[31], Rows), (&[17, 29], Rows), (&[29, 31], Columns)]),
    case("addmm", &[(&[17, 1], Rows), (&[17, 29], Columns), (&[29, 31], Rows)]),
    scaled(
        &[(&[17, 31], Columns), (&[17, 29], Rows), (&[29, 31], Rows)],
        &[("alpha", Number(-0.5)), ("beta", Number(2.0))],
    ),
    scaled(&[(&[17, 31], Rows), (&[17, 29], Rows), (&[29, 31], Rows)], &[("beta", Number(0.0))]),
    scaled(&[(&[3], Rows), (&[5, 0], Rows), (&[0, 3], Rows)], &[("beta", Number(3.0))]),
    case("baddbmm", &[(&[6, 5, 4], Rows), (&[6, 5, 7], Rows), (&[6, 7, 4], Columns)]),
    scaled(
        &[(&[5, 1], Rows), (&[6, 5, 7], Columns), (&[6, 7, 4], Gaps)],
        &[("alpha", Number(3.0)), ("beta", Number(-1.0))],
    ),
    conv(&[(&[2, 3, 9], Rows), (&[4, 3, 3], Rows), (&[4], Rows)], &[]),
    conv(
        &[(&[2, 3, 9, 7], Rows), (&[4, 3, 3, 2], Rows), (&[4], Gaps)],
        &[("padding", Whole(&[1, 0]))],
    ),
    conv(&[(&[1, 5, 9, 7], Gaps), (&[4, 5, 1, 1], Rows)], &[]),
    conv(&[(&[3, 5, 9, 7], Rows), (&[4, 5, 1, 1], Columns), (&[4], Rows)], &[]),
    conv(
        &[(&[3, 4, 9, 7], Inside), (&[6, 2, 3, 3], Inside), (&[6], Rows)],
        &[("groups", Whole(&[2])), ("padding", Whole(&[1])), ("stride", Whole(&[2, 1]))],
    ),
    conv(
        &[(&[2, 4, 5, 6, 7], Rows), (&[4, 1, 2, 3, 2], Rows)],
        &[("groups", Whole(&[4])), ("dilation", Whole(&[2, 1, 3])), ("padding", Whole(&[0, 2, 1]))],
    ),
    conv(&[(&[0, 3, 9, 7], Rows), (&[4, 3, 3, 3], Rows)], &[]),
    conv(
        &[(&[2, 4, 5, 6], Rows), (&[4, 3, 3, 2], Rows), (&[6], Gaps)],
        &[
            ("transposed", Flag(true)),
            ("groups", Whole(&[2])),
            ("stride", Whole(&[2, 3])),
            ("padding", Whole(&[1])),
            ("output_padding", Whole(&[1, 2])),
        ],
    ),
    conv(
        &[(&[2, 4, 5, 6], Inside), (&[4, 3, 3, 2], Gaps), (&[3], Rows)],
        &[("transposed", Flag(true)), ("dilation", Whole(&[2]))],
    ),
    // More columns than are made at once: several parts of an image, and several groups of images.
    conv(&[(&[2, 8, 160, 150], Rows), (&[3, 8, 5, 5], Rows)], &[("padding", Whole(&[2]))]),
    conv(&[(&[30, 4, 100, 90], Rows), (&[3, 4, 3, 3], Rows), (&[3], Rows)], &[]),
    conv_back(&[(&[2, 4, 7], Rows), (&[2, 3, 9], Rows), (&[4, 3, 3], Rows)], &[ALL]),
    conv_back(
        &[(&[3, 6, 5, 7], Inside), (&[3, 4, 9, 7], Inside), (&[6, 2, 3, 3], Inside)],
        &[ALL, ("groups", Whole(&[2])), ("padding", Whole(&[1])), ("stride", Whole(&[2, 1]))],
    ),
    conv_back(
        &[(&[1, 4, 9, 7], Gaps), (&[1, 5, 9, 7], Gaps), (&[4, 5, 1, 1], Rows)],
        &[("output_mask", Whole(&[1, 1, 0]))],
    ),
    conv_back(
        &[(&[2, 6, 10, 17], Rows), (&[2, 4, 5, 6], Rows), (&[4, 3, 3, 2], Rows)],
        &[
            ALL,
            ("transposed", Flag(true)),
            ("groups", Whole(&[2])),
            ("stride", Whole(&[2, 3])),
            ("padding", Whole(&[1, 0])),
            ("output_padding", Whole(&[1, 0])),
        ],
    ),
    conv_back(&[(&[0, 4, 7, 5], Rows), (&[0, 3, 9, 7], Rows), (&[4, 3, 3, 3], Rows)], &[ALL]),
    conv_back(
        &[(&[1, 3, 160, 150], Rows), (&[1, 8, 160, 150], Rows), (&[3, 8, 5, 5], Rows)],
        &[ALL, ("padding", Whole(&[2]))],
    ),
    conv_back(
        &[(&[30, 3, 98, 88], Rows), (&[30, 4, 100, 90], Rows), (&[3, 4, 3, 3], Rows)],
        &[ALL],
    ),
    attend(&[(&[2, 3, 5, 8], Rows), (&[2, 3, 7, 8], Rows), (&[2, 3, 7, 8], Rows)], &[]),
    attend(
        &[(&[2, 3, 9, 8], Heads), (&[2, 3, 9, 8], Heads), (&[2, 3, 9, 8], Heads)],
        &[("is_causal", Flag(true))],
    ),
    attend(
        &[
            (&[2, 6, 5, 8], Heads),
            (&[2, 2, 300, 8], Rows),
            (&[2, 2, 300, 8], Gaps),
            (&[5, 300], Rows),
        ],
        &[("scale", Number(0.125))],
    ),
    attend(
        &[
            (&[1, 2, 5, 3], Rows),
            (&[1, 1, 4, 3], Rows),
            (&[1, 1, 4, 3], Rows),
            (&[1, 2, 1, 4], Rows),
        ],
        &[],
    ),
    attend_back(
        &[
            (&[2, 3, 5, 8], Rows),
            (&[2, 3, 5, 8], Rows),
            (&[2, 3, 7, 8], Rows),
            (&[2, 3, 7, 8], Rows),
        ],
        &[],
    ),
    attend_back(
        &[
            (&[2, 6, 9, 8], Heads),
            (&[2, 6, 9, 8], Heads),
            (&[2, 2, 9, 8], Heads),
            (&[2, 2, 9, 8], Gaps),
            (&[9, 9], Rows),
        ],
        &[("is_causal", Flag(true)), ("scale", Number(0.25))],
    ),
];

/// A dtype, the unit in the last place of its type of computation, and that of its type of storage.
const DTYPES: &[(DType, f64, f64)] = &[
    (DType::F32, f32::EPSILON as f64, f32::EPSILON as f64),
    (DType::F64, f64::EPSILON, f64::EPSILON),
    (DType::F16, f32::EPSILON as f64, 1.0 / 1024.0),
    (DType::BF16, f32::EPSILON as f64, 1.0 / 128.0),
    (DType::I64, 0.0, 0.0),
    (DType::I32, 0.0, 0.0),
    (DType::I16, 0.0, 0.0),
    (DType::I8, 0.0, 0.0),
    (DType::U8, 0.0, 0.0),
];

/// The machine, a stream of the host, a stream of the device, and random numbers.
pub(crate) struct Pair<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) host: &'a Stream,
    pub(crate) device: &'a Stream,
    /// Returns a new random number from 0 to 1.
    pub(crate) numbers: &'a mut dyn FnMut() -> f64,
}

/// Compares every op on both. Passes each result to `outcome` with the name of the case.
pub(crate) fn check(
    mut pair: Pair<'_>,
    wanted: impl Fn(&str) -> bool,
    mut outcome: impl FnMut(String, Result<()>),
) {
    for case in CASES.iter().filter(|case| wanted(case.op)) {
        for &(dtype, unit, stored) in DTYPES {
            let whole = |value: &Value| matches!(value, Number(v) if v.fract() == 0.0);
            let integers = ["matmul", "addmm", "baddbmm"].contains(&case.op)
                && case.attrs.iter().all(|(_, value)| whole(value));
            if !dtype.is_float() && !integers {
                continue;
            }
            let arrangements = case
                .operands
                .iter()
                .map(|(shape, arrangement)| format!("{shape:?} {arrangement:?}"));
            let what =
                format!("{} {dtype} {}", case.op, arrangements.collect::<Vec<_>>().join(", "));
            let result = pair.compare(case, dtype, unit, stored);
            outcome(format!("{what} {:?}", case.attrs), result);
        }
    }
}

impl Pair<'_> {
    fn compare(&mut self, case: &Case, dtype: DType, unit: f64, stored: f64) -> Result<()> {
        let mut operands = Vec::new();
        for operand in case.operands {
            operands.push(self.operand(dtype, operand)?);
        }
        if case.op == ATTENTION_BACKWARD {
            // The result and its logarithms, as the host computes them.
            let given: Vec<&Tensor> = operands[1..].iter().map(|both| &both[0]).collect();
            let made = self.call(ATTENTION, case, dtype, &given, self.host)?;
            let both =
                |host: Tensor| Ok::<_, anyhow::Error>([host.clone(), host.copy_to(self.device)?]);
            let both = made.into_iter().map(both).collect::<Result<Vec<_>>>()?;
            operands.splice(4..4, both);
        }
        let mut sides = Vec::new();
        for (side, stream) in [self.host, self.device].into_iter().enumerate() {
            let given: Vec<&Tensor> =
                operands.iter().map(|both: &[Tensor; 2]| &both[side]).collect();
            let results = self.call(case.op, case, dtype, &given, stream)?;
            let home = |result: Tensor| self.values(&result.copy_to(self.host)?);
            sides.push(results.into_iter().map(home).collect::<Result<Vec<_>>>()?);
        }
        let (device, host) = (sides.pop().unwrap_or_default(), sides.pop().unwrap_or_default());
        anyhow::ensure!(device.len() == host.len(), "{} of {} results", device.len(), host.len());
        // The error of sums of `terms` products in any order, of rounded intermediate results, and
        // of one rounding on each side.
        let sums = 81.0 * (case.terms as f64 + 1.0) * unit + case.rounded * stored;
        for (number, (device, host)) in device.iter().zip(&host).enumerate() {
            anyhow::ensure!(
                device.len() == host.len(),
                "{} of {} elements",
                device.len(),
                host.len()
            );
            let off = device
                .iter()
                .zip(host)
                .filter(|(d, h)| d != h && !(*d - *h).abs().le(&(sums + 2.0 * stored * h.abs())));
            if let Some((d, h)) = off.clone().next() {
                let (off, all) = (off.count(), host.len());
                anyhow::bail!("result {number}: {off} of {all} differ: {d} and not {h}");
            }
        }
        Ok(())
    }

    fn call(
        &self,
        op: &str,
        case: &Case,
        dtype: DType,
        given: &[&Tensor],
        on: &Stream,
    ) -> Result<Vec<Tensor>> {
        let mut call = self.machine.call(op, given);
        for (name, value) in case.attrs {
            let value = match *value {
                Number(v) if dtype.is_float() => AttrValue::Float(v),
                Number(v) => AttrValue::Int(v as i64),
                // `groups` is a single number; every other argument may be a list.
                Whole(&[v]) if *name == "groups" => AttrValue::Int(v),
                Whole(v) => AttrValue::Ints(v.to_vec()),
                Flag(v) => AttrValue::Bool(v),
            };
            call = call.attr(*name, value);
        }
        Ok(call.on(on)?)
    }

    /// Reads the elements on the host.
    fn values(&self, tensor: &Tensor) -> Result<Vec<f64>> {
        let wide = self.machine.call("cast", &[tensor]).attr("dtype", DType::F64);
        let bytes = wide.on(self.host)?.remove(0).read()?;
        let number = |c: &[u8]| f64::from_ne_bytes(c.try_into().unwrap_or_default());
        Ok(bytes.chunks_exact(8).map(number).collect())
    }

    /// Makes a tensor with numbers from -3 to 3, on the host and on the device.
    fn operand(&mut self, dtype: DType, (shape, arrangement): &Operand) -> Result<[Tensor; 2]> {
        let (last, rank) = (shape.len() - 1, shape.len());
        let mut whole = shape.to_vec();
        match arrangement {
            Rows => {}
            Columns => whole.swap(last - 1, last),
            Within => whole[last] += 3,
            Gaps => whole[last] *= 2,
            Heads => whole.swap(rank - 3, rank - 2),
            Expanded => whole[0] = 1,
            Inside => whole[1..].rotate_left(1),
        }
        let spec = TensorSpec::contiguous(DType::F64, &whole)?;
        let numbers = (0..spec.numel()).flat_map(|_| ((self.numbers)() * 6.0 - 3.0).to_ne_bytes());
        let exact = self.machine.upload(self.host, spec, numbers.collect())?;
        let cast = self.machine.call("cast", &[&exact]).attr("dtype", dtype);
        let host = cast.on(self.host)?.remove(0);
        let device = host.copy_to(self.device)?;
        let lay = |x: &Tensor, on: &Stream| -> Result<Tensor> {
            let view = |op: &str, attrs: &[(&'static str, AttrValue)]| -> Result<Tensor> {
                let mut call = self.machine.call(op, &[x]);
                for (name, value) in attrs {
                    call = call.attr(*name, value.clone());
                }
                call.on(on)?.into_iter().next().context("a view")
            };
            let int = |v: usize| AttrValue::Int(v as i64);
            let part = |step: usize, end: usize| {
                let attrs =
                    [("dim", int(last)), ("start", int(0)), ("end", int(end)), ("step", int(step))];
                view("slice", &attrs)
            };
            match arrangement {
                Rows => Ok(x.clone()),
                Columns => view("transpose", &[("dim0", int(last - 1)), ("dim1", int(last))]),
                Within => part(1, shape[last]),
                Gaps => part(2, 2 * shape[last]),
                Heads => view("transpose", &[("dim0", int(rank - 3)), ("dim1", int(rank - 2))]),
                Inside => {
                    let dims = [0, last as i64].into_iter().chain(1..last as i64).collect();
                    view("permute", &[("dims", AttrValue::Ints(dims))])
                }
                Expanded => {
                    let size = shape.iter().map(|&length| length as i64).collect();
                    view("expand", &[("size", AttrValue::Ints(size))])
                }
            }
        };
        Ok([lay(&host, self.host)?, lay(&device, self.device)?])
    }
}
