//! The standard ops by family.

use std::sync::{Arc, LazyLock};

use rustc_hash::FxHashMap;

use crate::def::Def;
use crate::registry::OpRegistry;
use crate::schema::Op;
use crate::{
    arith, attention, batch_norm, closure, collective, compare, complex, concat, conv, copy,
    counting, create, dropout, embedding, extremum, fft, fused, grid, index, linalg, linear, loss,
    masked_select, matmul, multi_tensor, nll, norm, pointwise, pooling, random, rearrange, reduce,
    scan, segments, softmax, sort, special, ternary, views,
};

/// The title of a family and the tables of its ops.
type Family = (&'static str, &'static [&'static [Def]]);

/// The families in the order of the documentation.
const FAMILIES: &[Family] = &[
    ("Creation", &[create::OPS]),
    ("Copies and conversions", &[copy::OPS]),
    ("Views", &[views::OPS]),
    ("Complex numbers", &[complex::PARTS, complex::VIEWS]),
    ("Concatenation", &[concat::OPS]),
    ("Arithmetic", &[arith::OPS, arith::IN_PLACE, arith::EXTREMES, arith::NUMBERS]),
    (
        "Pointwise functions",
        &[pointwise::OPS, pointwise::IN_PLACE, pointwise::NEW, pointwise::BY_LAST],
    ),
    ("Special functions", &[special::OPS, special::PARTS]),
    ("Comparison and logic", &[compare::OPS, compare::LOGIC, compare::LOGIC_IN_PLACE]),
    ("Ternary functions", &[ternary::OPS, ternary::CHOICES, ternary::IN_PLACE]),
    ("Fused elementwise programs", &[fused::OPS, multi_tensor::OPS]),
    ("Reductions", &[reduce::OPS, extremum::OPS, scan::OPS, scan::EXTREMA]),
    ("Matrix products", &[matmul::OPS, linear::OPS]),
    ("Fourier transforms", &[fft::OPS]),
    ("Linear algebra", &[linalg::OPS]),
    ("Convolution and pooling", &[conv::OPS, pooling::OPS]),
    ("Normalisation", &[norm::OPS, batch_norm::OPS]),
    ("Softmax and losses", &[softmax::OPS, loss::OPS, nll::OPS]),
    ("Embedding and attention", &[embedding::OPS, attention::OPS]),
    ("Random numbers", random::OPS),
    ("Dropout", &[dropout::OPS]),
    ("Indexing and selection", &[index::OPS, masked_select::OPS]),
    ("Sorting", &[sort::OPS]),
    ("Counting and searching", &[counting::OPS]),
    ("Grids, segments, alignments", &[grid::OPS, segments::OPS]),
    ("Flips, rolls, triangles, padding", &[rearrange::OPS]),
    ("Functions of the program", &[closure::OPS]),
    ("Collectives", &[collective::OPS]),
];

/// Returns the definition of the op of this name.
pub(crate) fn definition(name: &str) -> Option<&'static Def> {
    static BY_NAME: LazyLock<FxHashMap<&'static str, &'static Def>> = LazyLock::new(|| {
        let all = FAMILIES.iter().flat_map(|(_, tables)| tables.iter().copied().flatten());
        all.map(|def| (def.name, def)).collect()
    });
    BY_NAME.get(name).copied()
}

/// Returns the titles and ops of all families.
pub fn families() -> Vec<(&'static str, Vec<&'static dyn Op>)> {
    let ops = |tables: &'static [&'static [Def]]| {
        tables.iter().copied().flatten().map(|def| def as &dyn Op).collect()
    };
    FAMILIES.iter().map(|&(title, tables)| (title, ops(tables))).collect()
}

/// Returns a registry of the standard ops. It is filled once in a process.
pub fn standard() -> OpRegistry {
    static STANDARD: LazyLock<OpRegistry> = LazyLock::new(|| {
        let mut ops = OpRegistry::new();
        for def in FAMILIES.iter().flat_map(|(_, tables)| tables.iter().copied().flatten()) {
            ops.register(Arc::new(*def));
        }
        ops.standardise()
    });
    STANDARD.clone()
}
