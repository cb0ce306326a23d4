//! `Display` and `Debug` of tensors.
//!
//! `Display` writes the values as PyTorch does, of whose `torch/_tensor_str.py` the rules are: four
//! decimals, lines of at most 80 characters, columns of one width, and of more than 1000 elements
//! the first and last three of each dimension.

use std::fmt;

use millstream_types::element::{C64, C128};
use millstream_types::{DType, DeviceId, Element, Result, with_element};

use crate::api::handle::Tensor;
use crate::emission::reentrancy;

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
    Texts(Vec<String>),
}

fn floats<T: Element>(bytes: &[u8]) -> Vec<f64> {
    T::from_bytes(bytes).into_iter().map(Element::to_f64).collect()
}

/// Returns complex numbers with four decimals, as PyTorch writes them.
fn complex_texts(values: impl Iterator<Item = (f64, f64)>) -> Vec<String> {
    values.map(|(re, im)| format!("{re:.4}{im:+.4}j")).collect()
}

impl Values {
    fn of(tensor: &Tensor) -> Result<Values> {
        let bytes = tensor.read()?;
        Ok(match tensor.dtype() {
            DType::I64 => {
                Values::Texts(i64::from_bytes(&bytes).iter().map(i64::to_string).collect())
            }
            DType::Bool => {
                let word = |v: &bool| if *v { "True".to_owned() } else { "False".to_owned() };
                Values::Texts(bool::from_bytes(&bytes).iter().map(word).collect())
            }
            DType::C64 => Values::Texts(complex_texts(
                C64::from_bytes(&bytes).iter().map(|v| (v.re.into(), v.im.into())),
            )),
            DType::C128 => {
                Values::Texts(complex_texts(C128::from_bytes(&bytes).iter().map(|v| (v.re, v.im))))
            }
            dtype if dtype.is_float() => Values::Floats(with_element!(dtype, floats(&bytes))),
            dtype => {
                let whole = with_element!(dtype, floats(&bytes));
                Values::Texts(whole.iter().map(|v| format!("{v:.0}")).collect())
            }
        })
    }
}

/// The form of all elements of a tensor.
enum Form {
    Text,
    /// Whole numbers, with a point at the end.
    Whole,
    Decimals,
    Scientific,
}

/// Writes the elements of a tensor in one form and width.
struct Writer<'a> {
    values: &'a Values,
    form: Form,
    width: usize,
    summarised: bool,
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

impl Writer<'_> {
    fn text(&self, at: usize) -> String {
        let text = match self.values {
            Values::Texts(texts) => texts[at].clone(),
            Values::Floats(values) => self.float(values[at]),
        };
        format!("{text:>width$}", width = self.width)
    }

    fn float(&self, value: f64) -> String {
        match self.form {
            Form::Scientific => scientific(value),
            Form::Whole | Form::Text if value.is_finite() => format!("{value:.0}."),
            Form::Whole | Form::Text | Form::Decimals => decimals(value),
        }
    }

    /// Chooses form and width by the elements that are written.
    fn fit(&mut self, shown: &[usize]) {
        let values = match self.values {
            Values::Texts(texts) => {
                self.width = shown.iter().map(|&at| texts[at].len()).max().unwrap_or(0).max(1);
                return;
            }
            Values::Floats(values) => values,
        };
        let counted = shown.iter().map(|&at| values[at]).filter(|v| v.is_finite() && *v != 0.0);
        let counted: Vec<f64> = counted.collect();
        if counted.is_empty() {
            return;
        }
        let least = counted.iter().fold(f64::INFINITY, |a, v| a.min(v.abs()));
        let greatest = counted.iter().fold(0.0f64, |a, v| a.max(v.abs()));
        let is_whole = counted.iter().all(|v| v.fract() == 0.0);
        self.form = if greatest / least > 1000.0 || greatest > 1e8 || least < 1e-4 {
            Form::Scientific
        } else if is_whole {
            Form::Whole
        } else {
            Form::Decimals
        };
        let width = counted.iter().map(|&v| self.float(v).len()).max();
        self.width = width.unwrap_or(0).max(1);
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
        let a_line = (LINE.saturating_sub(indent) / (self.width + 2)).max(1);
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
            let mut writer = Writer { values: &values, form: Form::Text, width: 1, summarised };
            let mut shown = Vec::new();
            writer.shown(self.shape(), 0, &mut shown);
            writer.fit(&shown);
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
        if self.deferred().is_some_and(crate::capture::Deferred::is_waiting) {
            return "held".to_owned();
        }
        let shared = &self.machine().shared;
        let known = || {
            reentrancy::check(shared.tables.machine, "showing a tensor")?;
            let tensor = self.resolved()?;
            let emission = shared.lock()?;
            let last = emission.builder.last_write(tensor)?;
            let storage = emission.router.slot(tensor.id).map(|slot| slot.storage);
            drop(emission);
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
