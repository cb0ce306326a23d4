//! In-place ops whose operands share memory with the operand that they change. As on the host, the
//! other operands count as read in full before anything is written.

use anyhow::{Result, ensure};

use millstream::{AttrValue, DType, Stream, Tensor};

use super::case::{Given, Values};
use super::{Pair, Section, Which};

/// An operand.
#[derive(Clone, Copy, Debug)]
enum Operand {
    /// The shared elements from the first number to before the second.
    Part(i64, i64),
    /// The shared elements with both dimensions transposed.
    Transposed,
    /// Separate indices up to 19, as many as this number.
    Indices(usize),
    /// A separate mask.
    Mask(usize),
}

use Operand::{Indices, Mask, Part, Transposed};

/// An op, the shape of the shared elements, the operands and the arguments.
type Overlap = (&'static str, &'static [usize], &'static [Operand], &'static [Attr]);

type Attr = (&'static str, i64);

const OVERLAPS: &[Overlap] = &[
    ("add_", &[1500], &[Part(1, 1500), Part(0, 1499)], &[]),
    ("mul_", &[33, 33], &[Part(0, 33), Transposed], &[]),
    ("addcmul_", &[1500], &[Part(1, 1400), Part(0, 1399), Part(2, 1401)], &[]),
    ("copy_", &[1500], &[Part(1, 1500), Part(0, 1499)], &[]),
    ("copy_", &[33, 33], &[Part(0, 33), Transposed], &[]),
    ("scatter_", &[60], &[Part(0, 40), Indices(20), Part(10, 30)], &[("dim", 0)]),
    ("scatter_", &[60], &[Part(0, 40), Part(20, 40), Part(10, 30)], &[("dim", 0)]),
    ("scatter_add_", &[60], &[Part(0, 40), Indices(20), Part(0, 20)], &[("dim", 0)]),
    ("index_add_", &[60], &[Part(0, 40), Indices(20), Part(5, 25)], &[("dim", 0)]),
    ("index_put_", &[60], &[Part(0, 40), Part(10, 30), Indices(20)], &[]),
    ("index_put_", &[60], &[Part(0, 40), Part(0, 20), Part(15, 35)], &[("accumulate", 1)]),
    ("index_put_", &[60], &[Part(0, 40), Part(7, 8), Mask(40)], &[]),
    ("index_put_", &[60], &[Part(0, 40), Part(39, 40), Mask(40)], &[("accumulate", 1)]),
];

impl Pair {
    /// Compares all cases.
    pub(super) fn overlaps(&mut self, which: &Which<'_>, section: &mut Section) {
        for overlap in OVERLAPS.iter().filter(|overlap| which.has(overlap.0)) {
            for dtype in [DType::F32, DType::I64] {
                match self.overlap(overlap, dtype) {
                    Ok(()) => section.passed += 1,
                    Err(error) => section.failed.push(format!("{overlap:?} {dtype}: {error:#}")),
                }
            }
        }
    }

    /// Makes the call on both in this dtype, and compares all shared elements.
    fn overlap(&mut self, overlap: &Overlap, dtype: DType) -> Result<()> {
        let (op, shape, operands, attrs) = *overlap;
        let few = Values::Between(0.0, 19.9);
        let shared = self.operand(&Given::new(dtype, shape).values(few))?;
        let mut made: Vec<[Tensor; 2]> = Vec::new();
        for operand in operands {
            made.push(match *operand {
                Indices(count) => self.operand(&Given::new(DType::I64, &[count]).values(few))?,
                Mask(count) => self.operand(&Given::new(DType::Bool, &[count]))?,
                view => {
                    let [host, device] = &shared;
                    [self.view(host, view, &self.host)?, self.view(device, view, &self.device)?]
                }
            });
        }
        let call = |side: usize, stream: &Stream| {
            let given: Vec<&Tensor> = made.iter().map(|both| &both[side]).collect();
            let call = self.machine.call(op, &given);
            let attr = |name: &str, value: i64| match name {
                "accumulate" => AttrValue::Bool(value != 0),
                _ => AttrValue::Int(value),
            };
            let call = attrs.iter().fold(call, |call, &(name, v)| call.attr(name, attr(name, v)));
            call.on(stream)
        };
        // Floating-point numbers cannot be indices.
        if call(0, &self.host).is_err() {
            ensure!(dtype.is_float(), "the host refuses it");
            return Ok(());
        }
        call(1, &self.device)?;
        let (expected, got) = (self.read(&shared[0])?, self.read(&shared[1])?);
        let off = got.iter().zip(&expected).position(|(got, expected)| got != expected);
        if let Some(at) = off {
            anyhow::bail!("element {at} is {}, not {}", got[at], expected[at]);
        }
        Ok(())
    }

    /// Returns an operand, as a view of the shared elements where it shares them.
    fn view(&self, x: &Tensor, operand: Operand, on: &Stream) -> Result<Tensor> {
        let call = match operand {
            Part(from, to) => {
                let call = self.machine.call("slice", &[x]).attr("dim", 0);
                call.attr("start", from).attr("end", to).attr("step", 1)
            }
            _ => self.machine.call("transpose", &[x]).attr("dim0", 0).attr("dim1", 1),
        };
        Ok(call.on(on)?.remove(0))
    }
}
