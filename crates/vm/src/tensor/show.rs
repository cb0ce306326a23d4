//! `Display` and `Debug` of tensors.
//!
//! `Display` writes the values as PyTorch does, of whose `torch/_tensor_str.py` the rules are: four
//! decimals, lines of at most 80 characters, columns of one width, and of more than 1000 elements
//! the first and last three of each dimension.

use std::fmt;

use millstream_runtime::scope::reentrancy;
use millstream_types::element::{C64, C128};
use millstream_types::{DType, DeviceId, Element, Result, with_element};

use crate::handle::Tensor;

/// The characters of a line.
const LINE: usize = 80;
/// The number of elements above which a tensor is abbreviated.
const MOST: usize = 1000;
/// The number of elements written at each end of an abbreviated dimension.
const EDGE: usize = 3;
/// The text before the values.
const PREFIX: &str = "tensor(";

/// The elements as numbers. Integers of 64 bits keep all their digits.
enum Values {
    Floats(Vec<f64>),
    /// Real and imaginary parts.
    Complex(Vec<(f64, f64)>),
    Texts(Vec<String>),
}

fn floats<T: Element>(bytes: &[u8]) -> Vec<f64> {
    T::from_bytes(bytes).into_iter().map(Element::to_f64).collect()
}

impl Values {
    fn of(tensor: &Tensor) -> Result<Values> {
        let bytes = tensor.read()?;
        Ok(match tensor.dtype() {
            DType::I64 => {
                Values::Texts(i64::from_bytes(&bytes).iter().map(i64::to_string).collect())
            }
            DType::U64 => {
                Values::Texts(u64::from_bytes(&bytes).iter().map(u64::to_string).collect())
            }
            DType::Bool => {
                let word = |v: &bool| if *v { "True".to_owned() } else { "False".to_owned() };
                Values::Texts(bool::from_bytes(&bytes).iter().map(word).collect())
            }
            DType::C64 => {
                let parts = |v: &C64| (v.re.into(), v.im.into());
                Values::Complex(C64::from_bytes(&bytes).iter().map(parts).collect())
            }
            DType::C128 => {
                Values::Complex(C128::from_bytes(&bytes).iter().map(|v| (v.re, v.im)).collect())
            }
            dtype if dtype.is_float() => Values::Floats(with_element!(dtype, floats(&bytes))),
            dtype => {
                let whole = with_element!(dtype, floats(&bytes));
                Values::Texts(whole.iter().map(|v| format!("{v:.0}")).collect())
            }
        })
    }
}

/// Returns a number with four decimals and an exponent of at least two digits, as C writes it.
fn scientific(value: f64) -> String {
    if !value.is_finite() {
        return decimals(value);
    }
    let text = format!("{value:.4e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent),
    };
    format!("{mantissa}e{sign}{digits:0>2}")
}

/// Returns a number with four decimals.
fn decimals(value: f64) -> String {
    if value.is_nan() { "nan".to_owned() } else { format!("{value:.4}") }
}

/// The notation of numbers.
enum Notation {
    /// Whole numbers, with a point at the end.
    Whole,
    Decimals,
    Scientific,
}

/// The form of all floats of a tensor, or of all their real or imaginary parts.
struct Form {
    notation: Notation,
    width: usize,
}

impl Form {
    /// Chooses the form by the elements that are written.
    fn of(shown: impl Iterator<Item = f64>) -> Form {
        let counted: Vec<f64> = shown.filter(|v| v.is_finite() && *v != 0.0).collect();
        let least = counted.iter().fold(f64::INFINITY, |a, v| a.min(v.abs()));
        let greatest = counted.iter().fold(0.0f64, |a, v| a.max(v.abs()));
        let notation = if counted.is_empty() {
            Notation::Whole
        } else if greatest / least > 1000.0 || greatest > 1e8 || least < 1e-4 {
            Notation::Scientific
        } else if counted.iter().all(|v| v.fract() == 0.0) {
            Notation::Whole
        } else {
            Notation::Decimals
        };
        let form = Form { notation, width: 1 };
        let width = counted.iter().map(|&v| form.number(v).len()).max();
        Form { width: width.unwrap_or(0).max(1), ..form }
    }

    fn number(&self, value: f64) -> String {
        match self.notation {
            Notation::Scientific => scientific(value),
            Notation::Whole if value.is_finite() => format!("{value:.0}."),
            Notation::Whole | Notation::Decimals => decimals(value),
        }
    }

    /// Returns a number, aligned at the right.
    fn aligned(&self, value: f64) -> String {
        format!("{:>width$}", self.number(value), width = self.width)
    }
}

/// Writes the elements of a tensor in one form.
struct Writer<'a> {
    values: &'a Values,
    /// The form of floats, or of real parts; texts have its width.
    form: Form,
    imaginary: Form,
    summarised: bool,
}

impl<'a> Writer<'a> {
    /// Returns a writer of the elements of this shape.
    fn new(values: &'a Values, shape: &[usize], summarised: bool) -> Writer<'a> {
        let none = || Form { notation: Notation::Whole, width: 1 };
        let mut writer = Writer { values, form: none(), imaginary: none(), summarised };
        let mut shown = Vec::new();
        writer.shown(shape, 0, &mut shown);
        match values {
            Values::Texts(texts) => {
                let widest = shown.iter().map(|&at| texts[at].len()).max();
                writer.form.width = widest.unwrap_or(0).max(1);
            }
            Values::Floats(values) => writer.form = Form::of(shown.iter().map(|&at| values[at])),
            Values::Complex(values) => {
                writer.form = Form::of(shown.iter().map(|&at| values[at].0));
                writer.imaginary = Form::of(shown.iter().map(|&at| values[at].1));
            }
        }
        writer
    }

    /// Returns the characters of an element, with those that separate it from the next.
    fn width(&self) -> usize {
        let imaginary = match self.values {
            Values::Complex(_) => self.imaginary.width + 1,
            Values::Floats(_) | Values::Texts(_) => 0,
        };
        self.form.width + imaginary + 2
    }

    fn text(&self, at: usize) -> String {
        match self.values {
            Values::Texts(texts) => format!("{:>width$}", texts[at], width = self.form.width),
            Values::Floats(values) => self.form.aligned(values[at]),
            Values::Complex(values) => {
                let (re, im) = values[at];
                let im = self.imaginary.number(im);
                let sign = if im.starts_with('-') { "" } else { "+" };
                format!("{}{sign}{im}j", self.form.aligned(re))
            }
        }
    }

    /// Returns the numbers of the parts of a dimension that are written; none for those left out.
    fn parts(&self, length: usize) -> Vec<Option<usize>> {
        if !self.summarised || length <= 2 * EDGE {
            return (0..length).map(Some).collect();
        }
        let ends = (length - EDGE..length).map(Some);
        (0..EDGE).map(Some).chain([None]).chain(ends).collect()
    }

    /// Returns the numbers of the elements that are written.
    fn shown(&self, shape: &[usize], first: usize, all: &mut Vec<usize>) {
        let Some((&length, rest)) = shape.split_first() else { return all.push(first) };
        let step: usize = rest.iter().product();
        for part in self.parts(length).into_iter().flatten() {
            self.shown(rest, first + part * step, all);
        }
    }

    fn write(&self, shape: &[usize], first: usize, indent: usize) -> String {
        match shape {
            [] => self.text(first),
            [length] => self.row(*length, first, indent),
            [length, rest @ ..] => {
                let step: usize = rest.iter().product();
                let slice = |part: Option<usize>| match part {
                    Some(part) => self.write(rest, first + part * step, indent + 1),
                    None => "...".to_owned(),
                };
                let slices: Vec<String> = self.parts(*length).into_iter().map(slice).collect();
                let between = format!(",{}{}", "\n".repeat(rest.len()), " ".repeat(indent + 1));
                format!("[{}]", slices.join(&between))
            }
        }
    }

    fn row(&self, length: usize, first: usize, indent: usize) -> String {
        let a_line = (LINE.saturating_sub(indent) / self.width()).max(1);
        let element = |part: Option<usize>| match part {
            Some(part) => self.text(first + part),
            None => " ...".to_owned(),
        };
        let elements: Vec<String> = self.parts(length).into_iter().map(element).collect();
        let lines: Vec<String> = elements.chunks(a_line).map(|line| line.join(", ")).collect();
        format!("[{}]", lines.join(&format!(",\n{}", " ".repeat(indent + 1))))
    }
}

/// Returns the name of a dtype in PyTorch.
const fn torch_name(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "torch.float32",
        DType::F64 => "torch.float64",
        DType::F16 => "torch.float16",
        DType::BF16 => "torch.bfloat16",
        DType::I64 => "torch.int64",
        DType::I32 => "torch.int32",
        DType::I16 => "torch.int16",
        DType::I8 => "torch.int8",
        DType::U8 => "torch.uint8",
        DType::U16 => "torch.uint16",
        DType::U32 => "torch.uint32",
        DType::U64 => "torch.uint64",
        DType::Bool => "torch.bool",
        DType::C64 => "torch.complex64",
        DType::C128 => "torch.complex128",
    }
}

impl fmt::Display for Tensor {
    /// Writes the values as PyTorch does. Blocks until they are computed. A tensor that cannot be
    /// read is written with the reason.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = match Values::of(self) {
            Ok(values) => values,
            Err(error) => return write!(f, "tensor(of {}: {error})", self.spec().brief()),
        };
        let mut text = PREFIX.to_owned();
        let mut notes = Vec::new();
        if *self.device() != DeviceId::cpu(0) {
            notes.push(format!("device='{}'", self.device()));
        }
        let dtype = format!("dtype={}", torch_name(self.dtype()));
        if self.numel() == 0 {
            text.push_str("[]");
            if self.rank() != 1 {
                let lengths: Vec<String> = self.shape().iter().map(usize::to_string).collect();
                notes.push(format!("size=({})", lengths.join(", ")));
            }
            if self.dtype() != DType::F32 {
                notes.push(dtype);
            }
        } else {
            let summarised = self.numel() > MOST;
            let writer = Writer::new(&values, self.shape(), summarised);
            text.push_str(&writer.write(self.shape(), 0, PREFIX.len()));
            if !matches!(self.dtype(), DType::F32 | DType::C64 | DType::I64 | DType::Bool) {
                notes.push(dtype);
            }
        }
        // PyTorch counts the line break, and one character more.
        let mut line = text.rfind('\n').map_or(text.len() + 2, |at| text.len() - at + 1);
        for note in notes {
            if line + note.len() + 2 > LINE {
                text.push_str(&format!(",\n{}{note}", " ".repeat(PREFIX.len())));
                line = PREFIX.len() + note.len();
            } else {
                text.push_str(&format!(", {note}"));
                line += note.len() + 2;
            }
        }
        write!(f, "{text})")
    }
}

impl fmt::Debug for Tensor {
    /// Writes dtype, shape, place and state: held, pending, ready, or poisoned and by what. Never
    /// waits for a device.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({} on {}, {})", self.spec().brief(), self.device(), self.state())
    }
}

impl Tensor {
    /// Returns the state of the tensor's last write, for messages.
    fn state(&self) -> String {
        if let Some(global) = self.global() {
            let state = global.local.as_ref().map_or_else(|| "none".to_owned(), Tensor::state);
            return format!("held as {:?}, the part of this rank: {state}", global.sharding);
        }
        let shared = &self.machine().shared;
        let known = || {
            reentrancy::check(shared.tables.machine, "showing a tensor")?;
            let tensor = self.resolved()?;
            let engine = shared.lock()?;
            let last = engine.builder.last_write(tensor)?;
            let storage = engine.router.slot(tensor.id).map(|slot| slot.storage);
            drop(engine);
            Ok::<_, millstream_types::Error>((last, storage))
        };
        match known() {
            Err(millstream_types::Error::Released { .. }) => "released".to_owned(),
            Err(_) => "in use by this machine's own work".to_owned(),
            Ok((last, _)) if !shared.query(last) => "pending".to_owned(),
            Ok((_, storage)) => match storage.and_then(|s| shared.tables.poison.get(s)) {
                Some(failure) => {
                    let by = failure.op.as_deref().unwrap_or(failure.instruction);
                    format!("poisoned by {by} at {}", failure.origin)
                }
                None => "ready".to_owned(),
            },
        }
    }
}
