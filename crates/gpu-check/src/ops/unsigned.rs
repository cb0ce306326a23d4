//! Cases of u16, u32 and u64: conversions, comparisons, bits and moves.

use millstream::DType;

use super::case::{Arrangement, Case, Given, Values};

const WIDE: [DType; 3] = [DType::U16, DType::U32, DType::U64];

/// Returns the cases.
pub(super) fn cases() -> Vec<Case> {
    WIDE.into_iter()
        .flat_map(|dtype| [conversions(dtype), pairs(dtype), moves(dtype)])
        .flatten()
        .collect()
}

fn conversions(dtype: DType) -> Vec<Case> {
    let mut all = Vec::new();
    let others = [DType::F32, DType::F64, DType::F16, DType::I64, DType::I8, DType::Bool];
    for other in others.into_iter().chain(WIDE) {
        let own = Given::new(dtype, &[9, 31]).arranged(Arrangement::Gaps);
        all.push(Case::new("cast", vec![own]).attr("dtype", other));
        let special = Given::new(other, &[77]).values(Values::Special);
        all.push(Case::new("cast", vec![special]).attr("dtype", dtype));
    }
    all
}

fn pairs(dtype: DType) -> Vec<Case> {
    let x = || Given::new(dtype, &[3, 341]);
    let mut all = Vec::new();
    for op in ["ne", "le", "gt", "ge"] {
        all.push(Case::new(op, vec![x(), x()]));
    }
    for op in ["eq", "lt"] {
        all.push(Case::new(op, vec![x(), x()]));
        all.push(Case::new(op, vec![x(), Given::new(dtype, &[])]));
        all.push(Case::new(op, vec![x(), Given::new(DType::F32, &[341])]));
        all.push(Case::new(op, vec![x(), Given::new(DType::I64, &[])]));
        all.push(Case::new(op, vec![x()]).attr("other", 40_000));
        all.push(Case::new(op, vec![x()]).attr("other", -1));
    }
    for op in ["bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"] {
        let given = if op == "bitwise_not" { vec![x()] } else { vec![x(), x()] };
        all.push(Case::new(op, given));
    }
    let mask = || Given::new(DType::Bool, &[3, 341]);
    all.push(Case::new("where", vec![mask(), x(), x()]));
    all.push(Case::new("masked_fill", vec![x(), mask()]).attr("value", 40_000));
    all.push(Case::new("masked_fill", vec![x(), mask()]).attr("value", -1));
    all.push(Case::new("masked_select", vec![x(), mask()]));
    all
}

fn moves(dtype: DType) -> Vec<Case> {
    let x = || Given::new(dtype, &[9, 31]);
    let transposed = || x().arranged(Arrangement::Transposed);
    let index = || Given::new(DType::I64, &[9, 31]).values(Values::Between(0.0, 8.9));
    let full = Case::new("full", vec![]).attr("shape", vec![3, 341]).attr("dtype", dtype);
    let range = Case::new("arange", vec![]).attr("start", 40_000).attr("end", 65_000);
    vec![
        Case::new("copy", vec![transposed()]),
        Case::new("clone", vec![x().arranged(Arrangement::Gaps)]),
        Case::new("copy_", vec![x(), Given::new(DType::F32, &[31]).values(Values::Special)]),
        Case::new("reshape", vec![transposed()]).attr("shape", vec![31, 9]),
        Case::new("fill", vec![x().arranged(Arrangement::Gaps)]).attr("value", 65_535),
        full.clone().attr("value", 65_535.0),
        full.attr("value", 2f64.powi(8 * dtype.size() as i32 - 1)),
        range.attr("step", 77).attr("dtype", dtype),
        Case::new("cat", vec![x(), transposed()]).attr("dim", 0),
        Case::new("constant_pad_nd", vec![x()]).attr("pad", vec![1, 2]).attr("value", 40_000),
        Case::new("flip", vec![x()]).attr("dims", vec![0]),
        Case::new("roll", vec![x()]).attr("shifts", vec![5]),
        Case::new("gather", vec![x(), index()]).attr("dim", 0),
        Case::new("scatter", vec![x(), index(), x()]).attr("dim", 0),
        Case::new("scatter", vec![x(), index()]).attr("dim", 0).attr("value", 40_000.0),
        Case::new("nonzero", vec![x()]),
        Case::new("sort", vec![x()]).attr("dim", 0),
        Case::new("sort", vec![x()]).attr("descending", true),
    ]
}
