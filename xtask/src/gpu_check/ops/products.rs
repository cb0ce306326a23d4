//! Matrix products against the host's kernels: over dtypes, odd sizes, and ways in which operands lie
//! that cuBLAS can walk, and that it cannot.
//!
//! An operand is made on both sides, and laid out by views, so that both compute from the same elements.

use anyhow::{Context, Result};

use millstream::{AttrValue, DType, Machine, Stream, Tensor, TensorSpec};

/// The ops that are compared here.
pub(crate) const OPS: &[&str] = &["matmul", "addmm", "baddbmm"];

/// How an operand lies.
#[derive(Clone, Copy, Debug)]
enum Lie {
    /// Row after row.
    Rows,
    /// Column after column.
    Columns,
    /// Row after row of longer rows.
    Within,
    /// Every second element of each row.
    Gaps,
    /// The batch's last dimension inside of the rows, as heads lie in attention.
    Heads,
    /// One matrix for the whole first dimension.
    Expanded,
}

use Lie::{Columns, Expanded, Gaps, Heads, Rows, Within};

type Operand = (&'static [usize], Lie);

struct Case {
    op: &'static str,
    operands: &'static [Operand],
    numbers: &'static [(&'static str, f64)],
}

const fn case(op: &'static str, operands: &'static [Operand]) -> Case {
    Case { op, operands, numbers: &[] }
}

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
    // More calls than one product is worth: both are copied first.
    case("matmul", &[(&[19, 20, 3, 5], Heads), (&[19, 20, 5, 2], Heads)]),
    case("addmm", &[(&[31], Rows), (&[17, 29], Rows), (&[29, 31], Columns)]),
    case("addmm", &[(&[17, 1], Rows), (&[17, 29], Columns), (&[29, 31], Rows)]),
    Case {
        op: "addmm",
        operands: &[(&[17, 31], Columns), (&[17, 29], Rows), (&[29, 31], Rows)],
        numbers: &[("alpha", -0.5), ("beta", 2.0)],
    },
    Case {
        op: "addmm",
        operands: &[(&[17, 31], Rows), (&[17, 29], Rows), (&[29, 31], Rows)],
        numbers: &[("beta", 0.0)],
    },
    Case {
        op: "addmm",
        operands: &[(&[3], Rows), (&[5, 0], Rows), (&[0, 3], Rows)],
        numbers: &[("beta", 3.0)],
    },
    case("baddbmm", &[(&[6, 5, 4], Rows), (&[6, 5, 7], Rows), (&[6, 7, 4], Columns)]),
    Case {
        op: "baddbmm",
        operands: &[(&[5, 1], Rows), (&[6, 5, 7], Columns), (&[6, 7, 4], Gaps)],
        numbers: &[("alpha", 3.0), ("beta", -1.0)],
    },
];

/// A dtype; the unit in the last place of what it is computed in; the same of what is stored.
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

/// The machine, a stream of the host's, one of the device's, and random numbers.
pub(crate) struct Pair<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) host: &'a Stream,
    pub(crate) device: &'a Stream,
    /// A number from 0 to 1, another one each time.
    pub(crate) numbers: &'a mut dyn FnMut() -> f64,
}

/// Compares every op on both. Each outcome is given with what was compared, and why it is not right.
pub(crate) fn check(mut pair: Pair<'_>, mut outcome: impl FnMut(String, Result<()>)) {
    for case in CASES {
        for &(dtype, unit, stored) in DTYPES {
            let whole = case.numbers.iter().all(|(_, number)| number.fract() == 0.0);
            if !dtype.is_float() && !whole {
                continue;
            }
            let lies = case.operands.iter().map(|(shape, lie)| format!("{shape:?} {lie:?}"));
            let what = format!("{} {dtype} {}", case.op, lies.collect::<Vec<_>>().join(", "));
            let result = pair.compare(case, dtype, unit, stored);
            outcome(format!("{what} {:?}", case.numbers), result);
        }
    }
}

impl Pair<'_> {
    fn compare(&mut self, case: &Case, dtype: DType, unit: f64, stored: f64) -> Result<()> {
        let mut operands = Vec::new();
        for operand in case.operands {
            operands.push(self.operand(dtype, operand)?);
        }
        let mut results = Vec::new();
        for (side, stream) in [self.host, self.device].into_iter().enumerate() {
            let given: Vec<&Tensor> =
                operands.iter().map(|both: &[Tensor; 2]| &both[side]).collect();
            let mut call = self.machine.call(case.op, &given);
            for (name, number) in case.numbers {
                call = match dtype.is_float() {
                    true => call.attr(name, *number),
                    false => call.attr(name, *number as i64),
                };
            }
            let result = call.on(stream)?.remove(0).copy_to(self.host)?;
            results.push(self.values(&result)?);
        }
        let (device, host) = (results.pop().unwrap_or_default(), results.pop().unwrap_or_default());
        anyhow::ensure!(device.len() == host.len(), "{} of {} elements", device.len(), host.len());
        // Sums of so many products of numbers below 3, in any order; and one rounding of each side.
        let terms =
            case.operands[case.operands.len() - 2].0.last().copied().unwrap_or(1) as f64 + 1.0;
        let sums = 3.0 * 9.0 * terms * unit * 3.0;
        let off = device
            .iter()
            .zip(&host)
            .filter(|(d, h)| d != h && !(*d - *h).abs().le(&(sums + 2.0 * stored * h.abs())));
        match off.clone().next() {
            None => Ok(()),
            Some((d, h)) => {
                anyhow::bail!("{} of {} differ: {d} and not {h}", off.count(), host.len())
            }
        }
    }

    /// The elements, on the host.
    fn values(&self, tensor: &Tensor) -> Result<Vec<f64>> {
        let wide = self.machine.call("cast", &[tensor]).attr("dtype", DType::F64);
        let bytes = wide.on(self.host)?.remove(0).read()?;
        let number = |c: &[u8]| f64::from_ne_bytes(c.try_into().unwrap_or_default());
        Ok(bytes.chunks_exact(8).map(number).collect())
    }

    /// A tensor with numbers from -3 to 3, on the host and on the device.
    fn operand(&mut self, dtype: DType, (shape, lie): &Operand) -> Result<[Tensor; 2]> {
        let (last, rank) = (shape.len() - 1, shape.len());
        let mut whole = shape.to_vec();
        match lie {
            Rows => {}
            Columns => whole.swap(last - 1, last),
            Within => whole[last] += 3,
            Gaps => whole[last] *= 2,
            Heads => whole.swap(rank - 3, rank - 2),
            Expanded => whole[0] = 1,
        }
        let spec = TensorSpec::contiguous(DType::F64, &whole)?;
        let numbers = (0..spec.numel()).flat_map(|_| ((self.numbers)() * 6.0 - 3.0).to_ne_bytes());
        let exact = self.machine.upload(self.host, spec, numbers.collect())?;
        let cast = self.machine.call("cast", &[&exact]).attr("dtype", dtype);
        let host = cast.on(self.host)?.remove(0);
        let device = host.copy_to(self.device)?;
        let lay = |x: &Tensor, on: &Stream| -> Result<Tensor> {
            let view = |op: &str, attrs: &[(&str, AttrValue)]| -> Result<Tensor> {
                let mut call = self.machine.call(op, &[x]);
                for (name, value) in attrs {
                    call = call.attr(name, value.clone());
                }
                call.on(on)?.into_iter().next().context("a view")
            };
            let int = |v: usize| AttrValue::Int(v as i64);
            let part = |step: usize, end: usize| {
                let attrs =
                    [("dim", int(last)), ("start", int(0)), ("end", int(end)), ("step", int(step))];
                view("slice", &attrs)
            };
            match lie {
                Rows => Ok(x.clone()),
                Columns => view("transpose", &[("dim0", int(last - 1)), ("dim1", int(last))]),
                Within => part(1, shape[last]),
                Gaps => part(2, 2 * shape[last]),
                Heads => view("transpose", &[("dim0", int(rank - 3)), ("dim1", int(rank - 2))]),
                Expanded => {
                    let size = shape.iter().map(|&length| length as i64).collect();
                    view("expand", &[("size", AttrValue::Ints(size))])
                }
            }
        };
        Ok([lay(&host, self.host)?, lay(&device, self.device)?])
    }
}
