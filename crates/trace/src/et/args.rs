//! A node's arguments as those of an op of ours: tensors in the order of PyTorch's schema, the rest
//! by the schema's names.

use std::borrow::Cow;

use millstream_types::{AttrValue, Attrs, DType};

use crate::et::import::{Import, Lowered, Refusal, Val, unsupported};
use crate::et::signature::{Param, Signature, Ty};
use crate::et::value::{Arg, Recorded};
use crate::number::Number;

/// Arguments that say where or how, and change no element.
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

/// The tensors and named arguments of a call.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) inputs: Vec<Val>,
    pub(crate) attrs: Attrs,
}

/// Where an argument's value is to be found: its parameter's number among the node's inputs.
pub(crate) struct Given<'a> {
    pub(crate) signature: &'a Signature,
    pub(crate) args: Cow<'a, [Arg]>,
}

impl<'a> Given<'a> {
    /// With the fractions that the trace cut short as they were.
    pub(crate) fn in_full(&self, import: &Import<'_>) -> Given<'a> {
        let full = |(at, arg): (usize, &Arg)| match (arg, import.fraction(at)) {
            (Arg::Float(_), Some(full)) => Arg::Float(full),
            _ => arg.clone(),
        };
        let cut = |(at, arg): (usize, &Arg)| {
            matches!(arg, Arg::Float(_)) && import.fraction(at).is_some()
        };
        let args = match self.args.iter().enumerate().any(cut) {
            true => Cow::Owned(self.args.iter().enumerate().map(full).collect()),
            false => self.args.clone(),
        };
        Given { signature: self.signature, args }
    }

    /// The argument of this name; nothing if the trace is older than the parameter.
    pub(crate) fn get(&self, name: &str) -> Option<(usize, &Arg)> {
        let at = self.signature.params.iter().position(|p| p.name == name)?;
        Some((at, self.args.get(at)?)).filter(|(_, arg)| **arg != Arg::None)
    }

    /// The tensor of this name.
    pub(crate) fn tensor(&self, import: &mut Import<'_>, name: &str) -> Lowered<Val> {
        match self.get(name) {
            Some((at, Arg::Tensor(given))) => import.resolve(given, at),
            _ => Err(Refusal::Wrong(format!("'{name}': expected a tensor"))),
        }
    }

    /// The whole numbers of this name.
    pub(crate) fn ints(&self, name: &str) -> Lowered<Option<Vec<i64>>> {
        match self.get(name) {
            None => Ok(None),
            Some((_, arg)) => match attr(Ty::Ints, arg)? {
                Some(AttrValue::Ints(list)) => Ok(Some(list)),
                _ => Err(Refusal::Wrong(format!("'{name}': expected whole numbers"))),
            },
        }
    }

    /// The whole number of this name.
    pub(crate) fn int(&self, name: &str) -> Lowered<Option<i64>> {
        match self.get(name) {
            None => Ok(None),
            Some((_, Arg::Int(v))) => Ok(Some(*v)),
            Some(_) => Err(Refusal::Wrong(format!("'{name}': expected a whole number"))),
        }
    }

    /// The number of this name.
    pub(crate) fn scalar(&self, name: &str) -> Lowered<Option<AttrValue>> {
        self.get(name).map_or(Ok(None), |(_, arg)| attr(Ty::Scalar, arg))
    }

    /// The dtype of this name.
    pub(crate) fn dtype(&self, name: &str) -> Lowered<Option<DType>> {
        match self.int(name)? {
            None => Ok(None),
            Some(code) => scalar_type(code).map(Some),
        }
    }

    /// The memory format of this name.
    pub(crate) fn memory_format(&self, name: &str) -> Lowered<Option<&'static str>> {
        self.int(name)?.map(memory_format).transpose()
    }
}

/// A number as an argument.
pub(crate) fn number_attr(number: Number) -> Lowered<AttrValue> {
    Ok(match number {
        Number::Bool(v) => AttrValue::Bool(v),
        Number::Float(v) => AttrValue::Float(v),
        Number::Int(v) => AttrValue::Int(
            i64::try_from(v).map_err(|_| unsupported(format!("the number {v} is too large")))?,
        ),
    })
}

/// The number of kind that PyTorch wrapped: a whole one may stand for an f64 in consts.json.
fn of_kind(number: Number, dtype: DType) -> Number {
    match number {
        Number::Int(v) if dtype.is_float() => Number::Float(v as f64),
        other => other,
    }
}

/// Takes a node's arguments for the op called `op`. Parameters in `without` are left to the caller.
pub(crate) fn take(
    import: &mut Import<'_>,
    op: &str,
    given: &Given<'_>,
    without: &[&str],
    results: &[Option<Recorded>],
) -> Lowered<Taken> {
    let id = import.ops().id(op).map_err(|e| match e {
        millstream_types::Error::Unknown { nearest, .. } => Refusal::Unsupported {
            message: format!("there is no op that does what {} does", given.signature.name),
            nearest,
        },
        other => Refusal::Wrong(other.to_string()),
    })?;
    let Some(schema) = import.ops().get(id).cloned() else {
        return Err(unsupported(format!("the op '{op}' is gone")));
    };
    let knows = |name: &str| schema.attrs().iter().any(|a| a.name == name);
    let given = &given.in_full(import);
    let mut taken = Taken::default();
    let (mut absent, mut position, mut in_list) = (Vec::new(), 0i64, false);
    for (at, param) in given.signature.params.iter().enumerate() {
        let Some(arg) = given.args.get(at) else { break };
        if without.contains(&param.name.as_str()) {
            continue;
        }
        match (param.ty, arg) {
            (Ty::Tensor, Arg::Tensor(tensor)) => {
                let number = import.has_const(at) || import.is_lost_number(tensor);
                if number && knows(&param.name) {
                    let number = of_kind(import.lost_number(at)?, tensor.dtype);
                    taken.attrs.set(&*param.name, number_attr(number)?);
                } else if number {
                    let number = of_kind(import.lost_number(at)?, tensor.dtype);
                    let dtype = number_dtype(number, &given.args, results);
                    taken.inputs.push(import.number(number, dtype)?);
                } else {
                    taken.inputs.push(import.resolve(tensor, at)?);
                }
                position += 1;
            }
            (Ty::Tensor, Arg::None | Arg::Undefined) => {
                absent.push(position);
                position += 1;
            }
            (Ty::Tensors, Arg::List(list)) => {
                in_list = true;
                for (k, arg) in list.iter().enumerate() {
                    match arg {
                        Arg::Tensor(tensor) => taken.inputs.push(import.resolve(tensor, at)?),
                        Arg::None | Arg::Undefined => absent.push(k as i64),
                        _ => return Err(wrong(param)),
                    }
                }
            }
            (Ty::Tensor | Ty::Tensors, _) => return Err(wrong(param)),
            (_, Arg::None) => {}
            (ty, _) if knows(&param.name) => {
                if let Some(value) = named(param, ty, arg)? {
                    taken.attrs.set(&*param.name, value);
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
    // What is left out at the end need not be said. In a list, places count from its start.
    while !in_list && absent.last().is_some_and(|last| *last + 1 == position) {
        absent.pop();
        position -= 1;
    }
    if !absent.is_empty() {
        taken.attrs.set("absent", absent);
    }
    Ok(taken)
}

fn wrong(param: &Param) -> Refusal {
    Refusal::Wrong(format!("'{}': expected tensors", param.name))
}

/// The dtype of a number as a tensor of its own, so that results come out as they did: the dtype of
/// the tensors beside it if that is of the number's kind or wider, else PyTorch's default.
///
/// Source: <https://docs.pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc>.
pub(crate) fn number_dtype(number: Number, args: &[Arg], results: &[Option<Recorded>]) -> DType {
    let kind = |d: DType| u8::from(d != DType::Bool) + u8::from(d.is_float());
    let (own, least) = match number {
        Number::Bool(_) => (DType::Bool, 0),
        Number::Int(_) => (DType::I64, 1),
        Number::Float(_) => (DType::F32, 2),
    };
    let mut seen = Vec::new();
    crate::et::value::tensors(args, &mut seen);
    let beside = seen.iter().filter(|t| !t.shape.is_empty()).map(|t| t.dtype);
    let results = results.iter().flatten().map(|t| t.dtype);
    beside.chain(results).find(|d| kind(*d) >= least && kind(*d) > 0).unwrap_or(own)
}

/// A named argument, with PyTorch's codes spelt out.
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
    let wrong = || Refusal::Wrong(format!("{arg:?} is not what the schema says"));
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

/// Whether the argument is what the schema takes if nothing is given.
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

/// The dtype of a code. Source: `c10::ScalarType`,
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
        11 => DType::Bool,
        15 => DType::BF16,
        other => return Err(unsupported(format!("dtype number {other} is not supported"))),
    })
}

/// The memory format of a code. Source: `c10::MemoryFormat`.
fn memory_format(code: i64) -> Lowered<&'static str> {
    Ok(match code {
        0 => "contiguous",
        1 => "preserve",
        2 | 3 => "channels_last",
        other => return Err(unsupported(format!("memory format number {other}"))),
    })
}
