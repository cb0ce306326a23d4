//! Composite comparisons.

use millstream_types::{Attrs, Result};

use crate::def::arg;
use crate::schema::ArgDoc;

use super::{Calls, Composite, Given, Symbol, op, table, wrong};

table! {
    op("logical_xor", "whether one of x and y is not 0, and the other is 0", XY, &[], logical_xor);
    op("isin", "for each element of x, whether it is among the tests", ISIN, ISIN_ATTRS, is_in)
        .optional_from(1);
}

const XY: &[ArgDoc] = &[arg("x", "any shape"), arg("y", "a shape that broadcasts with x")];
const ISIN: &[ArgDoc] =
    &[arg("x", "any shape; the tests, if `element` is given"), arg("tests", "any shape")];
const ISIN_ATTRS: &[ArgDoc] = &[
    arg("test_element", "a number in place of the tests").number().instead_of("tests"),
    arg("element", "a number in place of x").number().optional(),
    arg("assume_unique", "whether no element occurs twice").flag().ignored(),
    arg("invert", "whether to negate the result").flag().or("false"),
];

fn logical_xor(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let zero = Attrs::new().with("other", 0i64);
    let x = given.tensor("x")?;
    let x = calls.one("ne", &[x], zero.clone())?;
    let y = given.tensor("y")?;
    let y = calls.one("ne", &[y], zero)?;
    calls.apply("ne", &[x, y])
}

fn is_in(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let found = match given.tensors() {
        &[x, tests] => {
            let x = calls.unsqueeze(x, -1)?;
            let tests = calls.reshape(tests, &[-1])?;
            let same = calls.apply("eq", &[x, tests])?;
            calls.one("any", &[same], Attrs::new().with("dim", vec![-1i64]))?
        }
        &[x] if given.has("test_element") => calls.by("eq", x, given.value("test_element")?)?,
        &[tests, ..] => {
            let same = calls.by("eq", tests, given.value("element")?)?;
            calls.apply("any", &[same])?
        }
        [] => return Err(wrong("expected a tensor")),
    };
    match given.flag("invert", false)? {
        true => calls.apply("logical_not", &[found]),
        false => Ok(found),
    }
}
