//! Converts the arguments of a node to those of a Millstream op: tensors become operands in the
//! order of PyTorch's schema, all others become attributes with the names of the schema.
//!
//! Long because all kinds of arguments meet in one conversion.

use std::borrow::Cow;
use std::sync::Arc;

use millstream_ops::args::ABSENT;
use millstream_ops::{ArgDoc, Op, Presence};
use millstream_types::{AttrValue, Attrs, DType};

use crate::et::import::{Import, Lowered, Refusal, Val, missing, unsupported};
use crate::et::lower::Node;
use crate::et::signature::{Param, Signature, Ty};
use crate::et::value::{Arg, Recorded};
use crate::number::Number;

/// Arguments that choose a device, a layout or an algorithm, and do not affect the elements.
const IGNORED: &[&str] = &[
    "layout",
    "device",
    "pin_memory",
    "non_blocking",
    "implicit",
    "sparse_grad",
    "generator",
    "benchmark",
    "deterministic",
    "allow_tf32",
    "cudnn_enabled",
    "unsafe",
];

/// Ops whose arguments `alpha` and `value` are factors of the second operand, and `beta` one of the
/// first. Ours take a real number; a complex one is multiplied by the operand before.
const SCALED: &[&str] =
    &["add", "addbmm", "addcdiv", "addcmul", "addmm", "addmv", "addr", "baddbmm", "sub"];

/// The operands and attributes of a call.
#[derive(Debug, Default)]
pub(crate) struct Converted {
    pub(crate) inputs: Vec<Val>,
    pub(crate) attrs: Attrs,
}

/// The arguments of a node with their signature. The value of a parameter is the input of the same
/// number.
pub(crate) struct NodeArgs<'a> {
    pub(crate) signature: &'a Signature,
    pub(crate) args: Cow<'a, [Arg]>,
}

impl<'a> NodeArgs<'a> {
    /// Returns the arguments with rounded fractions replaced by those of `consts.json`.
    pub(crate) fn with_exact_fractions(&self, import: &Import<'_>) -> Lowered<NodeArgs<'a>> {
        let mut args = self.args.clone();
        for (k, arg) in self.args.iter().enumerate() {
            let exact = match arg {
                Arg::Float(_) => import.exact_fraction(k).map(Arg::Float),
                Arg::List(list) => match import.exact_list(k, list.len())? {
                    Some(numbers) => {
                        let exact = list.iter().zip(numbers).map(|(arg, number)| match number {
                            Number::Float(v) => Arg::Float(v),
                            Number::Int(v) if matches!(arg, Arg::Float(_)) => Arg::Float(v as f64),
                            _ => arg.clone(),
                        });
                        Some(Arg::List(exact.collect()))
                    }
                    None => None,
                },
                _ => None,
            };
            if let Some(exact) = exact {
                args.to_mut()[k] = exact;
            }
        }
        Ok(NodeArgs { signature: self.signature, args })
    }

    /// Returns the argument of this name; `None` if it is absent or the trace is older than the
    /// parameter.
    pub(crate) fn get(&self, name: &str) -> Option<(usize, &Arg)> {
        let index = self.signature.params.iter().position(|p| p.name == name)?;
        Some((index, self.args.get(index)?)).filter(|(_, arg)| **arg != Arg::None)
    }

    /// Returns the tensor of this name.
    pub(crate) fn tensor(&self, import: &mut Import<'_>, name: &str) -> Lowered<Val> {
        match self.get(name) {
            Some((index, Arg::Tensor(given))) => self.operand(import, index, given),
            _ => Err(Refusal::Wrong(format!("'{name}': expected a tensor"))),
        }
    }

    /// Returns the tensor of an argument, which may be a complex number that PyTorch wrapped.
    fn operand(&self, import: &mut Import<'_>, index: usize, given: &Recorded) -> Lowered<Val> {
        // The elements of `torch.tensor([...])` are no number.
        let lifted = self.signature.base().starts_with("lift");
        match import.is_complex_number(index, given) && !lifted {
            true => import.complex_number(index, &self.args),
            false => import.resolve(given, index),
        }
    }

    /// Returns the tensors of the list of this name.
    pub(crate) fn tensors(&self, import: &mut Import<'_>, name: &str) -> Lowered<Vec<Val>> {
        match self.get(name) {
            Some((at, Arg::List(list))) => tensors(import, name, at, list),
            _ => Err(Refusal::Wrong(format!("'{name}': expected tensors"))),
        }
    }

    /// Returns the list of integers of this name.
    pub(crate) fn ints(&self, name: &str) -> Lowered<Option<Vec<i64>>> {
        match self.get(name) {
            None => Ok(None),
            Some((_, arg)) => match attr(Ty::Ints, arg)? {
                Some(AttrValue::Ints(list)) => Ok(Some(list)),
                _ => Err(Refusal::Wrong(format!("'{name}': expected integers"))),
            },
        }
    }

    /// Returns the integer of this name.
    pub(crate) fn int(&self, name: &str) -> Lowered<Option<i64>> {
        match self.get(name) {
            None => Ok(None),
            Some((_, Arg::Int(v))) => Ok(Some(*v)),
            Some(_) => Err(Refusal::Wrong(format!("'{name}': expected an integer"))),
        }
    }

    /// Returns the number of this name.
    pub(crate) fn scalar(&self, name: &str) -> Lowered<Option<AttrValue>> {
        self.get(name).map_or(Ok(None), |(_, arg)| attr(Ty::Scalar, arg))
    }

    /// Returns the number of this name, which must be given.
    pub(crate) fn number(&self, name: &str) -> Lowered<Number> {
        match self.scalar(name)? {
            Some(AttrValue::Int(v)) => Ok(Number::Int(v.into())),
            Some(AttrValue::Float(v)) => Ok(Number::Float(v)),
            Some(AttrValue::Bool(v)) => Ok(Number::Bool(v)),
            _ => Err(Refusal::Wrong(format!("'{name}': expected a number"))),
        }
    }

    /// Returns the number of this name, or a default.
    pub(crate) fn float(&self, name: &str, default: f64) -> Lowered<f64> {
        match self.get(name).map(|_| self.number(name)).transpose()? {
            None => Ok(default),
            Some(Number::Int(v)) => Ok(v as f64),
            Some(Number::Float(v)) => Ok(v),
            Some(Number::Bool(_)) => Err(Refusal::Wrong(format!("'{name}': expected a number"))),
        }
    }

    /// Returns whether the argument of this name is a tensor.
    pub(crate) fn has_tensor(&self, name: &str) -> bool {
        matches!(self.get(name), Some((_, Arg::Tensor(_))))
    }

    /// Returns whether the argument of this name is true.
    pub(crate) fn flag(&self, name: &str) -> bool {
        matches!(self.get(name), Some((_, Arg::Bool(true))))
    }

    /// Returns the dtype of this name.
    pub(crate) fn dtype(&self, name: &str) -> Lowered<Option<DType>> {
        match self.int(name)? {
            None => Ok(None),
            Some(code) => scalar_type(code).map(Some),
        }
    }

    /// Returns the memory format of this name.
    pub(crate) fn memory_format(&self, name: &str) -> Lowered<Option<&'static str>> {
        self.int(name)?.map(memory_format).transpose()
    }
}

/// Returns the tensors of the argument `at`, a list, or of a list in it.
pub(crate) fn tensors(
    import: &mut Import<'_>,
    name: &str,
    at: usize,
    list: &[Arg],
) -> Lowered<Vec<Val>> {
    let tensor = |arg: &Arg| match arg {
        Arg::Tensor(tensor) => import.resolve(tensor, at),
        _ => Err(Refusal::Wrong(format!("'{name}': expected tensors"))),
    };
    list.iter().map(tensor).collect()
}

/// Converts a number to an attribute.
pub(crate) fn number_attr(number: Number) -> Lowered<AttrValue> {
    Ok(match number {
        Number::Bool(v) => AttrValue::Bool(v),
        Number::Float(v) => AttrValue::Float(v),
        Number::Int(v) => AttrValue::Int(
            i64::try_from(v).map_err(|_| unsupported(format!("the number {v} is too large")))?,
        ),
    })
}

/// Converts an integer of consts.json to a floating-point number if PyTorch wrapped an f64.
fn convert_to_kind(number: Number, dtype: DType) -> Number {
    match number {
        Number::Int(v) if dtype.is_float() => Number::Float(v as f64),
        other => other,
    }
}

/// Converts the arguments of a call, one after another.
pub(crate) struct Binder<'g> {
    op: &'g str,
    schema: Arc<dyn Op>,
    given: &'g NodeArgs<'g>,
    results: &'g [Option<Recorded>],
    converted: Converted,
    absent: Vec<i64>,
    /// The number of operands so far, present or absent.
    position: i64,
    in_list: bool,
    /// Whether an operand is absent that the op needs.
    lacks_operand: bool,
    /// Complex numbers, each with the operand that it is a factor of.
    factors: Vec<(usize, Val)>,
}

impl<'g> Binder<'g> {
    /// Begins a call of the op `op`.
    pub(crate) fn new(node: &Node<'g, '_>, op: &'g str) -> Lowered<Binder<'g>> {
        let (given, results) = (node.given, node.results);
        let name = &given.signature.name;
        let schema = node.import.schema(op).map_err(|refusal| match refusal {
            Refusal::Unsupported { help, .. } => {
                missing(name, format!("there is no op that does what {name} does"), help)
            }
            other => other,
        })?;
        let (converted, absent, factors) = (Converted::default(), Vec::new(), Vec::new());
        let (position, in_list, lacks_operand) = (0, false, false);
        Ok(Binder {
            op,
            schema,
            given,
            results,
            converted,
            absent,
            position,
            in_list,
            lacks_operand,
            factors,
        })
    }

    /// Returns whether the op has an argument of this name.
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.schema.attrs().iter().any(|attr| attr.name == name)
    }

    /// Adds an argument.
    pub(crate) fn set(&mut self, name: &'static str, value: AttrValue) {
        self.converted.attrs.set(name, value);
    }

    /// Adds an operand.
    pub(crate) fn operand(&mut self, operand: Val) {
        self.converted.inputs.push(operand);
        self.position += 1;
    }

    /// Returns whether a number has to be the next operand, as no argument can be in its place.
    fn needs_operand(&self) -> bool {
        let inputs = self.schema.inputs();
        let least = self.schema.optional().unwrap_or(inputs.len());
        !self.in_list && (self.position as usize) < least
    }

    /// Returns whether an argument is in place of the next operand.
    fn replaces_operand(&self, name: &str) -> bool {
        let next = self.schema.inputs().get(self.position as usize);
        let attr = self.schema.attrs().iter().find(|attr| attr.name == name);
        next.zip(attr).is_some_and(|(next, attr)| attr.presence == Presence::InsteadOf(next.name))
    }

    /// Adds the argument for a parameter. A rule that names it `listed` means the next operand.
    pub(crate) fn bind(
        &mut self,
        import: &mut Import<'_>,
        index: usize,
        listed: bool,
    ) -> Lowered<()> {
        let given = self.given;
        let param = &given.signature.params[index];
        let (name, knows) = (&param.name, self.knows(&param.name));
        match (param.ty, given.args.get(index).unwrap_or(&Arg::None)) {
            (Ty::Tensor, Arg::Tensor(tensor)) => {
                let number = import.has_const(index) || import.is_lost_number(tensor);
                if number {
                    let number = convert_to_kind(import.lost_number(index)?, tensor.dtype);
                    if knows {
                        self.converted.attrs.set(name.clone(), number_attr(number)?);
                    } else {
                        let dtype = number_dtype(number, &given.args, self.results);
                        self.converted.inputs.push(import.number(number, dtype)?);
                    }
                } else {
                    self.converted.inputs.push(given.operand(import, index, tensor)?);
                }
                self.position += 1;
            }
            (Ty::Tensor, Arg::None | Arg::Undefined) => {
                let inputs = self.schema.inputs();
                let replaced = |of: &ArgDoc| {
                    let is_of = |attr: &ArgDoc| attr.presence == Presence::InsteadOf(of.name);
                    self.schema.attrs().iter().any(is_of)
                };
                self.lacks_operand |= self.schema.optional().is_none()
                    || inputs.get(self.position as usize).is_some_and(replaced);
                self.absent.extend((!self.in_list).then_some(self.position));
                self.position += 1;
            }
            (Ty::Tensors, Arg::List(list)) => {
                self.in_list = true;
                for (k, arg) in list.iter().enumerate() {
                    match arg {
                        Arg::Tensor(tensor) => {
                            self.converted.inputs.push(import.resolve(tensor, index)?);
                        }
                        Arg::None | Arg::Undefined => self.absent.push(k as i64),
                        _ => return Err(wrong(param)),
                    }
                }
            }
            (Ty::Tensor | Ty::Tensors, _) => return Err(wrong(param)),
            (_, Arg::None) => {}
            (Ty::Scalar, Arg::Opaque) => {
                let factor = match name.as_str() {
                    "beta" => Some(0),
                    "alpha" | "value" => Some(1),
                    _ => None,
                };
                let factor = factor.filter(|_| SCALED.contains(&self.op.trim_end_matches('_')));
                let attr = self.schema.attrs().iter().find(|attr| attr.name == *name);
                let replaces =
                    attr.is_some_and(|attr| matches!(attr.presence, Presence::InsteadOf(_)));
                if factor.is_none() && !replaces && (knows || !self.needs_operand()) {
                    return Err(unsupported(format!(
                        "its argument '{name}' is a complex number, which '{}' does not take",
                        self.op
                    )));
                }
                let number = import.complex_number(index, &given.args)?;
                match factor {
                    Some(operand) => self.factors.push((operand, number)),
                    None => self.operand(number),
                }
            }
            (Ty::Scalar, Arg::Int(_) | Arg::Float(_) | Arg::Bool(_))
                if self.needs_operand()
                    && (listed || !knows)
                    && !self.replaces_operand(name)
                    && param.default.is_none() =>
            {
                let number = given.number(name)?;
                let dtype = number_dtype(number, &given.args, self.results);
                let number = import.number(number, dtype)?;
                self.operand(number);
            }
            (ty, arg) if knows => {
                if listed && self.replaces_operand(name) {
                    self.absent.push(self.position);
                    self.position += 1;
                }
                if let Some(value) = named(param, ty, arg)? {
                    let value = self.whole_factor(import, name, value);
                    self.converted.attrs.set(name.clone(), value);
                }
            }
            (_, arg) if IGNORED.contains(&name.as_str()) || is_default(param, arg) => {}
            _ => {
                return Err(unsupported(format!(
                    "its argument '{name}' is not supported by '{}'",
                    self.op
                )));
            }
        }
        Ok(())
    }

    /// Returns the value of a factor. As in PyTorch, those of products of integers are truncated.
    fn whole_factor(&self, import: &Import<'_>, name: &str, value: AttrValue) -> AttrValue {
        let is_product = self.op.trim_end_matches('_').ends_with("mm");
        let is_factor = is_product && matches!(name, "alpha" | "beta");
        let is_whole = |x: &Val| !import.spec(*x).dtype.is_inexact();
        match value {
            AttrValue::Float(v) if is_factor && self.converted.inputs.iter().all(is_whole) => {
                AttrValue::Int(v as i64)
            }
            value => value,
        }
    }

    /// Returns the first operand, which stands for a call without another one that the op needs.
    pub(crate) fn stands_for(&self) -> Option<Val> {
        self.converted.inputs.first().copied().filter(|_| self.lacks_operand)
    }

    /// Returns the operands and attributes.
    pub(crate) fn finish(self, import: &mut Import<'_>) -> Lowered<Converted> {
        let Binder { mut converted, mut absent, mut position, in_list, factors, .. } = self;
        for (k, number) in factors {
            let Some(operand) = converted.inputs.get_mut(k) else { continue };
            *operand = import.apply("mul", &[*operand, number])?;
        }
        // Absent operands at the end and behind a list are left out of the attribute. In a list,
        // positions count from the start of the list, and `position` does not apply.
        while !in_list && absent.last().is_some_and(|last| *last + 1 == position) {
            absent.pop();
            position -= 1;
        }
        if !absent.is_empty() {
            converted.attrs.set(ABSENT, absent);
        }
        Ok(converted)
    }
}

/// Returns the value of a parameter, or its default; `None` if it has neither.
pub(crate) fn value_of(given: &NodeArgs<'_>, index: usize) -> Lowered<Option<AttrValue>> {
    let param = &given.signature.params[index];
    let default = || param.default.as_deref().and_then(|text| text.parse().ok());
    match given.args.get(index) {
        Some(arg) => named(param, param.ty, arg),
        None => Ok(default().map(AttrValue::Float)),
    }
}

fn wrong(param: &Param) -> Refusal {
    Refusal::Wrong(format!("'{}': expected tensors", param.name))
}

/// Returns the dtype for a number that becomes a tensor, so that the results have the recorded
/// dtypes: the dtype of the other tensors if its kind is that of the number or a wider one, else
/// PyTorch's default.
///
/// Source: <https://docs.pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc>.
pub(crate) fn number_dtype(number: Number, args: &[Arg], results: &[Option<Recorded>]) -> DType {
    let kind = |d: DType| u8::from(d != DType::Bool) + u8::from(d.is_inexact());
    let (own, least) = match number {
        Number::Bool(_) => (DType::Bool, 0),
        Number::Int(_) => (DType::I64, 1),
        Number::Float(_) => (DType::F32, 2),
    };
    let mut seen = Vec::new();
    crate::et::value::tensors(args, &mut seen);
    let others = seen.iter().filter(|t| !t.shape.is_empty()).map(|t| t.dtype);
    let results = results.iter().flatten().map(|t| t.dtype);
    others.chain(results).find(|d| kind(*d) >= least && kind(*d) > 0).unwrap_or(own)
}

/// Converts a named argument; translates PyTorch's numeric codes.
fn named(param: &Param, ty: Ty, arg: &Arg) -> Lowered<Option<AttrValue>> {
    Ok(match (param.name.as_str(), arg) {
        ("reduction", Arg::Int(code)) => {
            let words = ["none", "mean", "sum"];
            let word = usize::try_from(*code).ok().and_then(|k| words.get(k));
            let word = word.ok_or_else(|| unsupported(format!("reduction {code}")))?;
            Some(AttrValue::Str((*word).to_owned()))
        }
        ("side", Arg::Str(side)) => Some(AttrValue::Bool(side == "right")),
        ("input_dtype", Arg::Int(code)) => Some(AttrValue::DType(scalar_type(*code)?)),
        _ => attr(ty, arg).map_err(|refusal| match refusal {
            Refusal::Wrong(message) => Refusal::Wrong(format!("'{}': {message}", param.name)),
            other => other,
        })?,
    })
}

fn attr(ty: Ty, arg: &Arg) -> Lowered<Option<AttrValue>> {
    let wrong = || Refusal::Wrong(format!("{} is not what the schema says", arg.brief()));
    Ok(Some(match (ty, arg) {
        (_, Arg::None) => return Ok(None),
        (Ty::DType, Arg::Int(code)) => AttrValue::DType(scalar_type(*code)?),
        (Ty::MemoryFormat, Arg::Int(code)) => AttrValue::Str(memory_format(*code)?.to_owned()),
        (Ty::Int | Ty::Scalar | Ty::Other, Arg::Int(v)) => AttrValue::Int(*v),
        (Ty::Float, Arg::Int(v)) => AttrValue::Float(*v as f64),
        (Ty::Float | Ty::Scalar, Arg::Float(v)) => AttrValue::Float(*v),
        (Ty::Bool | Ty::Scalar, Arg::Bool(v)) => AttrValue::Bool(*v),
        (Ty::Str, Arg::Str(v)) => AttrValue::Str(v.clone()),
        (Ty::Ints, Arg::Int(v)) => AttrValue::Ints(vec![*v]),
        (Ty::Ints | Ty::Bools, Arg::List(list)) => {
            let int = |arg: &Arg| match arg {
                Arg::Int(v) => Ok(*v),
                Arg::Bool(v) => Ok(i64::from(*v)),
                _ => Err(wrong()),
            };
            AttrValue::Ints(list.iter().map(int).collect::<Result<_, _>>()?)
        }
        (Ty::Scalar, Arg::Opaque) => {
            return Err(unsupported("a complex number is not supported as this argument"));
        }
        (Ty::Floats, Arg::List(list)) => {
            let float = |arg: &Arg| match arg {
                Arg::Float(v) => Ok(*v),
                Arg::Int(v) => Ok(*v as f64),
                _ => Err(wrong()),
            };
            AttrValue::Floats(list.iter().map(float).collect::<Result<_, _>>()?)
        }
        _ => return Err(wrong()),
    }))
}

/// Returns whether the argument equals the schema's default.
fn is_default(param: &Param, arg: &Arg) -> bool {
    let Some(default) = &param.default else { return false };
    let default = default.trim_matches('"');
    match arg {
        Arg::None => default == "None",
        Arg::Bool(v) => default.eq_ignore_ascii_case(if *v { "true" } else { "false" }),
        Arg::Int(v) => default.parse() == Ok(*v),
        Arg::Float(v) => default.trim_end_matches('.').parse() == Ok(*v),
        Arg::Str(v) => default == v,
        Arg::List(list) => list.is_empty() && default == "[]",
        Arg::Tensor(_) | Arg::Undefined | Arg::Opaque => false,
    }
}

/// Returns the dtype of a code. Source: `c10::ScalarType`,
/// <https://github.com/pytorch/pytorch/blob/main/torch/headeronly/core/ScalarType.h>.
pub(crate) fn scalar_type(code: i64) -> Lowered<DType> {
    Ok(match code {
        0 => DType::U8,
        1 => DType::I8,
        2 => DType::I16,
        3 => DType::I32,
        4 => DType::I64,
        5 => DType::F16,
        6 => DType::F32,
        7 => DType::F64,
        9 => DType::C64,
        10 => DType::C128,
        11 => DType::Bool,
        15 => DType::BF16,
        27 => DType::U16,
        28 => DType::U32,
        29 => DType::U64,
        other => return Err(unsupported(format!("dtype number {other} is not supported"))),
    })
}

/// Returns the memory format of a code. Source: `c10::MemoryFormat`.
fn memory_format(code: i64) -> Lowered<&'static str> {
    Ok(match code {
        0 => "contiguous",
        1 => "preserve",
        2 | 3 => "channels_last",
        other => return Err(unsupported(format!("memory format number {other}"))),
    })
}
