//! Lowers one call of a PyTorch op, given by its schema and its arguments, without a trace.

use std::collections::HashMap;
use std::sync::Arc;

use millstream_types::TensorSpec;

use crate::data::Data;
use crate::error::{Result, TraceError};
use crate::et::groups::Groups;
use crate::et::import::{Import, Single};
use crate::et::report::Imported;
use crate::et::sidecar_notes::SidecarNotes;
use crate::et::signature::{Signature, results};
use crate::et::value::Arg;
use crate::et::{EtOptions, lower, refused};
use crate::program::{Action, ValueRef};
use crate::source::{Source, Span};

/// An argument of a call.
///
/// ```
/// # use millstream_trace::et::Argument;
/// # use millstream_types::{DType, TensorSpec};
/// let spec = TensorSpec::contiguous(DType::F32, &[2, 3])?;
/// let list = Argument::List(vec![Argument::Tensor { spec, storage: 0 }, Argument::None]);
/// assert_ne!(list, Argument::Int(1));
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Argument {
    /// Python's `None`, or an undefined tensor.
    None,
    /// A tensor.
    Tensor {
        /// Its dtype, shape and strides, and its offset in its storage.
        spec: TensorSpec,
        /// The number of its storage: tensors of one number share their memory.
        storage: u64,
    },
    /// A whole number, or PyTorch's number of a dtype or memory format.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// A text.
    Str(String),
    /// A list.
    List(Vec<Argument>),
}

/// The calls that one call of a PyTorch op becomes.
///
/// ```
/// # use millstream_trace::et::{Argument, EtOptions, lower_call};
/// # use millstream_types::{DType, TensorSpec};
/// let x = Argument::Tensor { spec: TensorSpec::contiguous(DType::F32, &[4])?, storage: 0 };
/// let lowered = lower_call("aten::relu(Tensor self) -> Tensor", &[x], &EtOptions::default())?;
/// assert_eq!(lowered.tensors.len(), 2); // the operand and the result
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct LoweredCall {
    /// All tensors: first those among the arguments, in their order.
    pub tensors: Vec<TensorSpec>,
    /// The tensors that must exist before the calls, with their elements.
    pub constants: Vec<(ValueRef, Data)>,
    /// The calls and reads, in order.
    pub actions: Vec<Action>,
    /// The results; `None` for an undefined one.
    pub results: Vec<Option<ValueRef>>,
}

/// Lowers one call of a PyTorch op to calls of Millstream's ops, as the import of a trace does.
///
/// Arguments at the end may be left out, which means their defaults. A result whose length depends
/// on data has its greatest length.
///
/// ```
/// # use millstream_trace::et::{Argument, EtOptions, lower_call};
/// # use millstream_trace::Action;
/// # use millstream_types::{DType, TensorSpec};
/// let x = Argument::Tensor { spec: TensorSpec::contiguous(DType::F32, &[2, 3])?, storage: 0 };
/// let schema = "aten::threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor";
/// let arguments = [x, Argument::Float(0.5), Argument::Int(0)];
/// let lowered = lower_call(schema, &arguments, &EtOptions::default())?;
/// let ops = lowered.actions.iter().map(|action| match action {
///     Action::Call(call) => call.op.as_str(),
///     _ => "",
/// });
/// assert_eq!(ops.collect::<Vec<_>>(), ["le", "masked_fill"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The text is no schema, an argument is not what the schema says, or there is no op that does
/// what the op does. The error names the op and the argument.
pub fn lower_call(
    schema: &str,
    arguments: &[Argument],
    options: &EtOptions,
) -> Result<LoweredCall> {
    let name = schema.split('(').next().unwrap_or_default().trim();
    let labels = HashMap::from([(0, Arc::from(name))]);
    let source = Arc::new(Source::of_nodes("call".to_owned(), labels));
    let Some(signature) = Signature::parse(schema) else {
        let message = format!("'{schema}' is not the schema of an op");
        return Err(TraceError::at(&source, Span::default(), message));
    };
    let results = vec![None; results(schema)];
    let mut import = Import::new(
        options,
        SidecarNotes::read(None)?,
        Imported::default(),
        source.clone(),
        Groups::default(),
    );
    import.begin_node(0, Span::default(), &[]);
    import.is_single = true;
    let args: Vec<Arg> = arguments.iter().map(|argument| arg(&mut import, argument)).collect();
    let made = lower::calls(&mut import, &signature, &args, &results);
    let made = made.map_err(|refusal| refused(&source, 0, refusal))?;
    let Single { tensors, constants, actions, results } = import.into_single(&made);
    Ok(LoweredCall { tensors, constants, actions, results })
}

/// Returns an argument in the form of a recorded one. Defines its tensors.
fn arg(import: &mut Import<'_>, argument: &Argument) -> Arg {
    match argument {
        Argument::None => Arg::None,
        Argument::Tensor { spec, storage } => Arg::Tensor(import.define_operand(spec, *storage)),
        Argument::Int(v) => Arg::Int(*v),
        Argument::Float(v) => Arg::Float(*v),
        Argument::Bool(v) => Arg::Bool(*v),
        Argument::Str(v) => Arg::Str(v.clone()),
        Argument::List(list) => Arg::List(list.iter().map(|each| arg(import, each)).collect()),
    }
}
