//! What elementwise ops have in common: rules of shape and layout, and how they are written down.

use millstream_types::{Access, DType, Dims, Error, Result, TensorSpec};
use smallvec::SmallVec;

use crate::args::Scalar;
use crate::broadcast::broadcast;
use crate::layouts;
use crate::promote::{can_store, common_dtype};
use crate::schema::{CallSpec, OutputSpec, Signature};

/// The name of the number that stands in for a second tensor.
pub(crate) const OTHER: &str = "other";

/// A call that is refused; the op's name is added on the way out.
pub(crate) fn refuse<T>(what: &'static str, message: impl Into<String>) -> Result<T> {
    Err(Error::Invalid { what, message: message.into() })
}

/// The tensors as messages show them.
pub(crate) fn briefs(specs: &[TensorSpec]) -> String {
    specs.iter().map(TensorSpec::brief).collect::<Vec<_>>().join(", ")
}

/// The dtype that the call's tensors, and a number besides, promote to.
pub(crate) fn common(call: CallSpec<'_>, number: Option<Scalar>) -> DType {
    common_dtype(call.inputs.iter().map(|i| (i.dtype, i.layout.rank())), number)
}

/// The common dtype of `tensors` tensors, the last of which may be given as the number `name`
/// instead; and that number.
pub(crate) fn or_number(
    call: CallSpec<'_>,
    tensors: usize,
    name: &str,
) -> Result<(DType, Option<Scalar>)> {
    let number = Scalar::of(call.attrs, name)?;
    if call.inputs.len() + usize::from(number.is_some()) != tensors {
        let given = call.inputs.len();
        return refuse(
            "argument",
            format!(
                "{name}: expected either this number or {tensors} tensors, got {given} tensor(s) {}",
                if number.is_some() { "and the number" } else { "and no number" }
            ),
        );
    }
    Ok((common(call, number), number))
}

/// The shape that all tensors broadcast to.
pub(crate) fn shape(inputs: &[TensorSpec]) -> Result<Dims> {
    inputs.iter().try_fold(Dims::new(), |shape, input| broadcast(&shape, input.shape()))
}

/// A new tensor of this dtype, and of the shape that all tensors broadcast to.
pub(crate) fn fresh(call: CallSpec<'_>, dtype: DType) -> Result<Signature> {
    let shape = shape(call.inputs)?;
    let inputs: SmallVec<[&TensorSpec; 3]> = call.inputs.iter().collect();
    let output = TensorSpec::new(dtype, layouts::elementwise(&inputs, &shape)?)?;
    Ok(Signature::reads(call.inputs.len(), output))
}

/// As [`fresh`]; the last tensor's strides count before the others'.
pub(crate) fn fresh_by_last(call: CallSpec<'_>, dtype: DType) -> Result<Signature> {
    let shape = shape(call.inputs)?;
    let inputs: SmallVec<[&TensorSpec; 3]> = call.inputs.iter().rev().collect();
    let output = TensorSpec::new(dtype, layouts::elementwise(&inputs, &shape)?)?;
    Ok(Signature::reads(call.inputs.len(), output))
}

/// The first tensor changed in place to values of this dtype.
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
        let message = format!("{x} names elements more than once and cannot be changed in place");
        return refuse("target", message);
    }
    let mut accesses = SmallVec::from_elem(Access::Read, call.inputs.len());
    accesses[0] = Access::ReadWrite;
    let outputs = SmallVec::from_iter([OutputSpec::Same(0)]);
    Ok(Signature { accesses, outputs, workspace: 0 })
}

/// Writes a table of elementwise ops, one a row: name, summary, tensors, arguments, arity, and the
/// rule that checks the arguments and gives the result's dtype.
macro_rules! elementwise {
    ($table:ident = new; $($rows:tt)*) => {
        $crate::elementwise::elementwise! { @ $table, fresh, "", ""; $($rows)* }
    };
    ($table:ident = new by last; $($rows:tt)*) => {
        $crate::elementwise::elementwise! { @ $table, fresh_by_last, "", ""; $($rows)* }
    };
    ($table:ident = new, $twins:ident = in place; $($rows:tt)*) => {
        $crate::elementwise::elementwise! { @ $table, fresh, "", ""; $($rows)* }
        $crate::elementwise::elementwise! { @ $twins, in_place, "_", ", in place"; $($rows)* }
    };
    (@ $table:ident, $settle:ident, $suffix:literal, $note:literal;
     $(($name:literal, $summary:literal, $inputs:expr, $attrs:expr, $arity:expr, $dtype:expr);)*
    ) => {
        pub(crate) const $table: &[$crate::def::Def] = &[$($crate::def::Def {
            name: concat!($name, $suffix),
            summary: concat!($summary, $note),
            inputs: $inputs,
            attrs: $attrs,
            arity: $arity,
            rule: |call| $crate::elementwise::$settle(call, $dtype(call)?),
        }),*];
    };
}
pub(crate) use elementwise;
