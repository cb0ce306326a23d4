//! `closure`: a function of the program, ordered by variables and tensors as every call is.
//!
//! The machine's engine makes these calls and runs the function itself. To the builder, the
//! verifier and the profile they are calls like any other. A list read from a file holds no
//! functions, so a run of such a list refuses them.

use millstream_types::{Access, Attrs, Result};
use smallvec::SmallVec;

use crate::def::{Def, arg};
use crate::elementwise::refuse;
use crate::schema::{OutputSpec, Signature};

/// The name of the op.
pub const CLOSURE: &str = "closure";

/// The argument with the number of operands that the function reads: the first ones.
pub const READS: &str = "reads";

/// The argument with the number of operands that the function overwrites: the last ones.
pub const OVERWRITES: &str = "overwrites";

/// The argument with the function's name.
pub const NAME: &str = "name";

/// The argument with the number by which the machine finds the function. Recorded lists omit it.
pub const FUNCTION: &str = "function";

pub(crate) const OPS: &[Def] = &[Def::new(
    CLOSURE,
    "runs a function of the program after all earlier uses of its operands that conflict",
    &[arg("operands", "variables and tensors: read ones, changed ones, overwritten ones")],
    &[
        arg(READS, "how many operands it reads").int().or("0"),
        arg(OVERWRITES, "how many it overwrites; those between are read and written").int().or("0"),
        arg(NAME, "the function's name, for reports").text().or("none"),
        arg(FUNCTION, "the machine's number of the function").int().or("none"),
    ],
    |call| {
        let (count, mut accesses) = (call.inputs.len(), SmallVec::new());
        let [reads, overwrites] = counts(call.attrs, count)?;
        accesses.resize(reads, Access::Read);
        accesses.resize(count - overwrites, Access::ReadWrite);
        accesses.resize(count, Access::Write);
        let outputs = (reads..count).map(OutputSpec::Same).collect();
        Ok(Signature { accesses, outputs, workspace: 0 })
    },
)
.many(0)];

/// Returns how many operands a function reads and how many it overwrites.
fn counts(attrs: &Attrs, operands: usize) -> Result<[usize; 2]> {
    let (reads, overwrites) = (attrs.int(READS)?.unwrap_or(0), attrs.int(OVERWRITES)?.unwrap_or(0));
    let both = [reads, overwrites].map(usize::try_from);
    match both {
        [Ok(reads), Ok(overwrites)] if reads.saturating_add(overwrites) <= operands => {
            Ok([reads, overwrites])
        }
        _ => refuse(
            "argument",
            format!(
                "{READS}={reads} and {OVERWRITES}={overwrites}: expected counts of the {operands} \
                 operand(s)"
            ),
        ),
    }
}
