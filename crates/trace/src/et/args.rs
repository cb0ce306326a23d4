//! Converts the arguments of a node to those of a Millstream op: tensors become operands in the
//! order of PyTorch's schema, all others become attributes with the names of the schema.

use std::borrow::Cow;

use millstream_ops::Presence;
use millstream_types::{AttrValue, Attrs, DType};

use crate::et::import::{Import, Lowered, Refusal, Val, missing, unsupported};
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

/// Ops with an argument that is a factor of one operand, and the number of that operand. Ours take
/// a real number; a complex one is multiplied by the operand before.
const FACTORS: &[(&str, &str, usize)] = &[
    ("add", "alpha", 1),
    ("sub", "alpha", 1),
    ("addcmul", "value", 1),
    ("addcdiv", "value", 1),
    ("addmm", "alpha", 1),
    ("addmm", "beta", 0),
    ("addmv", "alpha", 1),
    ("addmv", "beta", 0),
    ("addbmm", "alpha", 1),
    ("addbmm", "beta", 0),
    ("addr", "alpha", 1),
    ("addr", "beta", 0),
    ("baddbmm", "alpha", 1),
    ("baddbmm", "beta", 0),
];

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

/// Converts a node's arguments to operands and attributes of the op `op`. Leaves the parameters in
/// `without` to the caller.
pub(crate) fn convert(
    import: &mut Import<'_>,
    op: &str,
    given: &NodeArgs<'_>,
    without: &[&str],
    results: &[Option<Recorded>],
) -> Lowered<Converted> {
    let message = || format!("there is no op that does what {} does", given.signature.name);
    let schema = import.schema(op).map_err(|refusal| match refusal {
        Refusal::Unsupported { help, .. } => missing(&given.signature.name, message(), help),
        other => other,
    })?;
    let knows = |name: &str| schema.attrs().iter().any(|a| a.name == name);
    let given = &given.with_exact_fractions(import)?;
    let mut converted = Converted::default();
    let (mut absent, mut position, mut in_list) = (Vec::new(), 0i64, false);
    let mut factors = Vec::new();
    for (index, param) in given.signature.params.iter().enumerate() {
        let Some(arg) = given.args.get(index) else { break };
        if without.contains(&param.name.as_str()) {
            continue;
        }
        match (param.ty, arg) {
            (Ty::Tensor, Arg::Tensor(tensor)) => {
                let number = import.has_const(index) || import.is_lost_number(tensor);
                if number && knows(&param.name) {
                    let number = convert_to_kind(import.lost_number(index)?, tensor.dtype);
                    converted.attrs.set(param.name.to_string(), number_attr(number)?);
                } else if number {
                    let number = convert_to_kind(import.lost_number(index)?, tensor.dtype);
                    let dtype = number_dtype(number, &given.args, results);
                    converted.inputs.push(import.number(number, dtype)?);
                } else {
                    converted.inputs.push(given.operand(import, index, tensor)?);
                }
                position += 1;
            }
            (Ty::Tensor, Arg::None | Arg::Undefined) => {
                absent.extend((!in_list).then_some(position));
                position += 1;
            }
            (Ty::Tensors, Arg::List(list)) => {
                in_list = true;
                for (k, arg) in list.iter().enumerate() {
                    match arg {
                        Arg::Tensor(tensor) => {
                            converted.inputs.push(import.resolve(tensor, index)?);
                        }
                        Arg::None | Arg::Undefined => absent.push(k as i64),
                        _ => return Err(wrong(param)),
                    }
                }
            }
            (Ty::Tensor | Ty::Tensors, _) => return Err(wrong(param)),
            (_, Arg::None) => {}
            (Ty::Scalar, Arg::Opaque) => {
                let number = schema.attrs().iter().find(|a| a.name == param.name);
                let in_place_of = number.map(|a| a.presence);
                let plain = op.trim_end_matches('_');
                let mut factors_of = FACTORS.iter().filter(|(name, ..)| *name == plain);
                if let Some((.., operand)) = factors_of.find(|(_, name, _)| *name == param.name) {
                    factors.push((*operand, import.complex_number(index, &given.args)?));
                    continue;
                }
                if !matches!(in_place_of, Some(Presence::InsteadOf(_))) {
                    return Err(unsupported(format!(
                        "its argument '{}' is a complex number, which '{op}' does not take",
                        param.name
                    )));
                }
                converted.inputs.push(import.complex_number(index, &given.args)?);
                position += 1;
            }
            (ty, _) if knows(&param.name) => {
                if let Some(value) = named(param, ty, arg)? {
                    converted.attrs.set(param.name.to_string(), value);
                }
            }
            _ if IGNORED.contains(&param.name.as_str()) || is_default(param, arg) => {}
            _ => {
                return Err(unsupported(format!(
                    "its argument '{}' is not supported by '{op}'",
                    param.name
                )));
            }
        }
    }
    for (k, number) in factors {
        let Some(operand) = converted.inputs.get_mut(k) else { continue };
        let scaled = import.call("mul", &[*operand, number], Attrs::new())?;
        *operand = scaled.first().copied().ok_or_else(|| unsupported("mul returns no tensor"))?;
    }
    // Absent operands at the end and behind a list are left out of the attribute. In a list,
    // positions count from the start of the list, and `position` does not apply.
    while !in_list && absent.last().is_some_and(|last| *last + 1 == position) {
        absent.pop();
        position -= 1;
    }
    if !absent.is_empty() {
        converted.attrs.set("absent", absent);
    }
    Ok(converted)
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
