//! The standard ops.

use std::sync::Arc;

use crate::def::Def;
use crate::registry::OpRegistry;
use crate::schema::Op;
use crate::{
    arith, attention, batch_norm, blend, collective, compare, conv, copy, create, embed, extremum,
    index, join, linear, loss, matmul, nll, norm, order, pointwise, pool, random, reduce, scan,
    select, shift, softmax, views,
};

/// A family's title and the tables of its ops.
type Family = (&'static str, &'static [&'static [Def]]);

/// The standard ops by family, in the order of the documentation.
const FAMILIES: &[Family] = &[
    ("Making tensors", &[create::OPS]),
    ("Copies and conversions", &[copy::OPS]),
    ("Views", &[views::OPS]),
    ("Joining", &[join::OPS]),
    ("Arithmetic", &[arith::OPS, arith::IN_PLACE, arith::EXTREMES]),
    (
        "Functions of each element",
        &[pointwise::OPS, pointwise::IN_PLACE, pointwise::NEW, pointwise::BY_LAST],
    ),
    ("Comparison and logic", &[compare::OPS, compare::LOGIC, compare::LOGIC_IN_PLACE]),
    ("Choices and fused products", &[blend::OPS, blend::CHOICES, blend::IN_PLACE]),
    ("Reductions", &[reduce::OPS, extremum::OPS, scan::OPS]),
    ("Matrix products", &[matmul::OPS, linear::OPS]),
    ("Convolution and pooling", &[conv::OPS, pool::OPS]),
    ("Normalisation", &[norm::OPS, batch_norm::OPS]),
    ("Softmax, losses, likelihoods", &[softmax::OPS, loss::OPS, nll::OPS]),
    ("Embedding and attention", &[embed::OPS, attention::OPS]),
    ("Dropout", &[random::OPS]),
    ("Indexing and selection", &[index::OPS, select::OPS]),
    ("Sorting", &[order::OPS]),
    ("Flips, rolls, triangles, padding", &[shift::OPS]),
    ("Among ranks", &[collective::OPS]),
];

/// The standard ops by family, each family with its title.
pub fn families() -> Vec<(&'static str, Vec<&'static dyn Op>)> {
    let ops = |tables: &'static [&'static [Def]]| {
        tables.iter().copied().flatten().map(|def| def as &dyn Op).collect()
    };
    FAMILIES.iter().map(|&(title, tables)| (title, ops(tables))).collect()
}

/// A registry of the standard ops.
pub fn standard() -> OpRegistry {
    let mut ops = OpRegistry::new();
    for def in FAMILIES.iter().flat_map(|(_, tables)| tables.iter().copied().flatten()) {
        ops.register(Arc::new(*def));
    }
    ops
}
