//! The rules that elementwise ops share: shapes, layouts, in-place forms; and the macro of their
//! tables.

use millstream_types::{Access, DType, Dims, Error, Result, TensorSpec};
use smallvec::SmallVec;

use crate::args::Scalar;
use crate::broadcast::broadcast;
use crate::layouts;
use crate::promotion::{can_store, common_dtype};
use crate::schema::{CallSpec, OutputSpec, Signature};

/// The argument that holds a number in place of a second tensor.
pub(crate) const OTHER: &str = "other";

/// Returns an error; `Op::check` adds the name of the op.
pub(crate) fn refuse<T>(what: &'static str, message: impl Into<String>) -> Result<T> {
    Err(Error::Invalid { what, message: message.into() })
}

/// Formats tensors for messages.
pub(crate) fn briefs(specs: &[TensorSpec]) -> String {
    specs.iter().map(TensorSpec::brief).collect::<Vec<_>>().join(", ")
}

/// Returns the common dtype of the call's tensors and an optional number.
pub(crate) fn common(call: CallSpec<'_>, number: Option<Scalar>) -> Result<DType> {
    common_dtype(call.inputs.iter().map(|i| (i.dtype, i.layout.rank())), number)
}

/// Returns the common dtype of `tensors` tensors, and the number if the argument `name` replaces
/// the last of them.
pub(crate) fn with_number(
    call: CallSpec<'_>,
    tensors: usize,
    name: &str,
) -> Result<(DType, Option<Scalar>)> {
    let number = number_in_place(call, tensors, name)?;
    Ok((common(call, number)?, number))
}

/// Returns the number if the argument `name` replaces the last of `tensors` tensors.
pub(crate) fn number_in_place(
    call: CallSpec<'_>,
    tensors: usize,
    name: &str,
) -> Result<Option<Scalar>> {
    let number = Scalar::of(call.attrs, name)?;
    if call.inputs.len() + usize::from(number.is_some()) != tensors {
        let given = call.inputs.len();
        return refuse(
            "argument",
            format!(
                "{name}: expected this number or {tensors} tensors, got {given} tensor(s) {}",
                if number.is_some() { "and the number" } else { "and no number" }
            ),
        );
    }
    Ok(number)
}

/// Returns the shape that all tensors broadcast to.
pub(crate) fn shape(inputs: &[TensorSpec]) -> Result<Dims> {
    inputs.iter().try_fold(Dims::new(), |shape, input| broadcast(&shape, input.shape()))
}

/// Returns the signature of a new tensor of this dtype, of the shape that all inputs broadcast to.
pub(crate) fn fresh(call: CallSpec<'_>, dtype: DType) -> Result<Signature> {
    let shape = shape(call.inputs)?;
    let inputs: SmallVec<[&TensorSpec; 3]> = call.inputs.iter().collect();
    let output = TensorSpec::new(dtype, layouts::elementwise(&inputs, &shape)?)?;
    Ok(Signature::reads(call.inputs.len(), output))
}

/// As [`fresh`]; the strides of the last tensor take precedence in the layout of the result.
pub(crate) fn fresh_by_last(call: CallSpec<'_>, dtype: DType) -> Result<Signature> {
    let shape = shape(call.inputs)?;
    let inputs: SmallVec<[&TensorSpec; 3]> = call.inputs.iter().rev().collect();
    let output = TensorSpec::new(dtype, layouts::elementwise(&inputs, &shape)?)?;
    Ok(Signature::reads(call.inputs.len(), output))
}

/// Returns the signature of a call that writes values of `dtype` to its first tensor, in place.
pub(crate) fn in_place(call: CallSpec<'_>, dtype: DType) -> Result<Signature> {
    let x = &call.inputs[0];
    if !can_store(dtype, x.dtype) {
        let message = format!("the result is {dtype}, which {} cannot hold", x.brief());
        return refuse("dtype", message);
    }
    if shape(call.inputs)?.as_slice() != x.shape() {
        let others = briefs(&call.inputs[1..]);
        return refuse("shape", format!("{others} does not broadcast to {}", x.brief()));
    }
    if x.layout.may_overlap_itself() {
        let message =
            format!("{x} has overlapping elements and cannot be changed in place; pass a copy");
        return refuse("target", message);
    }
    let mut accesses = SmallVec::from_elem(Access::Read, call.inputs.len());
    accesses[0] = Access::ReadWrite;
    let outputs = SmallVec::from_iter([OutputSpec::Same(0)]);
    Ok(Signature { accesses, outputs, workspace: 0 })
}

/// Defines a table of elementwise ops, one row each: name, summary, tensors, arguments, and the
/// rule that checks the arguments and returns the dtype of the result; then what it is defined
/// for besides real numbers: `complex`, `unsigned`.
macro_rules! elementwise {
    ($table:ident = new; $($rows:tt)*) => {
        $crate::elementwise::elementwise! { @ $table, fresh, "", ""; $($rows)* }
    };
    ($table:ident = new by last; $($rows:tt)*) => {
        $crate::elementwise::elementwise! { @ $table, fresh_by_last, "", ""; $($rows)* }
    };
    ($table:ident = new, $in_place_table:ident = in place; $($rows:tt)*) => {
        $crate::elementwise::elementwise! { @ $table, fresh, "", ""; $($rows)* }
        $crate::elementwise::elementwise! {
            @ $in_place_table, in_place, "_", ", in place"; $($rows)*
        }
    };
    (@ $table:ident, $signature:ident, $suffix:literal, $note:literal;
     $(($name:literal, $summary:literal, $inputs:expr, $attrs:expr, $dtype:expr)
       $($more:ident $(($value:expr))?)*;)*
    ) => {
        pub(crate) const $table: &[$crate::def::Def] = &[$($crate::def::Def::new(
            concat!($name, $suffix),
            concat!($summary, $note),
            $inputs,
            $attrs,
            |call| $crate::elementwise::$signature(call, $dtype(call)?),
        )
        $(.$more($($value)?))*),*];
    };
}
pub(crate) use elementwise;
