//! Composite comparisons.

use millstream_types::{Attrs, Result};

use crate::def::arg;
use crate::schema::ArgDoc;

use super::{Args, Composite, op, table};
use crate::formula::{Expr, Second, wrong};

table! {
    op("logical_xor", "whether one of x and y is not 0, and the other is 0", XY, &[],
        |args| {
        let [x, y] = args.tensors(["x", "y"]);
        Ok(x.ne(0).ne(y.ne(0)))
    });
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

fn is_in(args: Args<'_>) -> Result<Expr<'_>> {
    let found = match args.all()[..] {
        [x, tests] => {
            let same = x.unsqueeze(-1).eq(tests.reshape(&[-1]));
            same.op("any", Attrs::new().with("dim", vec![-1]))
        }
        [x] if args.has("test_element") => x.eq(Second::Number(args.value("test_element")?)),
        [tests, ..] => tests.eq(Second::Number(args.value("element")?)).any(),
        [] => return Err(wrong("expected a tensor")),
    };
    Ok(if args.flag("invert", false)? { found.logical_not() } else { found })
}
