//! Cases of elementwise ops, of casts and of tensors from numbers.

use std::collections::BTreeSet;

use millstream::DType;
use millstream::kernels::cuda::elementwise_ops;
use millstream::ops::OpRegistry;

use super::case::{Arrangement, Case, Given, Values};

/// The shapes of the first operand: a scalar, an empty tensor, sizes below and above the elements
/// that a thread handles at once and that a block has, and dimensions that cannot be merged into
/// one.
const SHAPES: &[&[usize]] = &[&[], &[0], &[17], &[1023], &[3, 5, 7], &[33, 65]];

/// Returns the elementwise ops with so many tensor operands. Ops whose operands have other roles
/// refuse the generic cases, and have cases of their own below.
fn with_operands(ops: &OpRegistry, count: usize) -> Vec<&'static str> {
    let with_count = ops.iter().filter(|op| op.inputs().len() == count);
    let known: BTreeSet<&str> = with_count.map(|op| op.name()).collect();
    elementwise_ops().filter(|op| known.contains(op)).collect()
}

/// Returns the second operand of an op, without zeros where the host would refuse them, and with
/// small exponents.
fn second(op: &str, dtype: DType, shape: &[usize]) -> Given {
    let given = Given::new(dtype, shape);
    match op {
        "div" | "remainder" | "fmod" if !dtype.is_float() => {
            given.values(Values::Between(1.0, 9.9))
        }
        "pow" if !dtype.is_float() => given.values(Values::Between(0.0, 5.9)),
        "__lshift__" | "__rshift__" => given.values(Values::Between(0.0, 70.0)),
        _ => given,
    }
}

/// Returns the cases in these dtypes. Cases that a schema refuses are not counted.
pub(super) fn cases(ops: &OpRegistry, dtypes: &dyn Fn(usize) -> Vec<DType>) -> Vec<Case> {
    let mut all = Vec::new();
    for (turn, op) in with_operands(ops, 1).into_iter().enumerate() {
        for dtype in dtypes(turn) {
            for shape in SHAPES {
                all.push(Case::new(op, vec![Given::new(dtype, shape)]));
            }
            all.push(Case::new(op, vec![Given::new(dtype, &[9, 31]).arranged(Arrangement::Gaps)]));
            all.push(Case::new(
                op,
                vec![Given::new(dtype, &[5, 9, 31]).arranged(Arrangement::Transposed)],
            ));
            all.push(Case::new(op, vec![Given::new(dtype, &[70]).values(Values::Special)]));
        }
    }
    for (turn, op) in with_operands(ops, 2).into_iter().enumerate() {
        for dtype in dtypes(turn) {
            let pair = |a: &[usize], b: &[usize]| vec![Given::new(dtype, a), second(op, dtype, b)];
            for shape in SHAPES {
                all.push(Case::new(op, pair(shape, shape)));
            }
            all.push(Case::new(op, pair(&[33, 65], &[65])));
            all.push(Case::new(op, pair(&[33, 1], &[1, 65])));
            all.push(Case::new(op, pair(&[1000], &[])));
            let [x, y] = [Given::new(dtype, &[9, 31]), second(op, dtype, &[9, 31])];
            all.push(Case::new(op, vec![x.clone().arranged(Arrangement::Gaps), y.clone()]));
            all.push(Case::new(
                op,
                vec![x.arranged(Arrangement::Transposed), y.arranged(Arrangement::Gaps)],
            ));
        }
    }
    for case in all.clone() {
        let fits = case
            .given
            .iter()
            .all(|g| g.dtype == case.given[0].dtype && g.shape.len() <= case.given[0].shape.len());
        let in_place = format!("{}_", case.op);
        if fits && ops.find(&in_place).is_some() {
            all.push(Case { op: in_place, ..case });
        }
    }
    for dtype in dtypes(0) {
        all.extend(choices(dtype));
        all.extend(of_three(dtype));
    }
    all.extend(mixed());
    all.extend(moves());
    all.extend(by_zero(dtypes));
    all.extend(many_dimensions());
    all
}

/// Returns cases with more dimensions that cannot be merged than a kernel handles.
fn many_dimensions() -> Vec<Case> {
    let (rows, columns) = ([2, 1, 2, 1, 2, 1, 2, 1, 2, 1], [1, 2, 1, 2, 1, 2, 1, 2, 1, 3]);
    let x = |shape: &[usize]| Given::new(DType::F32, shape);
    let divisor = Given::new(DType::I32, &columns).values(Values::Between(0.0, 3.0));
    let whole = vec![Given::new(DType::I32, &rows), divisor];
    vec![
        Case::new("add", vec![x(&rows), x(&columns)]),
        Case::new("where", vec![Given::new(DType::Bool, &rows), x(&columns), x(&[3])]),
        Case::new(
            "copy_",
            vec![x(&[2; 10]).arranged(Arrangement::Transposed), x(&[2, 1, 2, 1, 2, 1, 2, 1, 2, 1])],
        ),
        Case::new("fmod", whole).fails("divided by zero"),
    ]
}

/// Returns cases in which some integers are divided by zero.
fn by_zero(dtypes: &dyn Fn(usize) -> Vec<DType>) -> Vec<Case> {
    let mut all = Vec::new();
    let ops =
        [("div", Some("floor")), ("fmod", None), ("remainder_", None), ("div_", Some("trunc"))];
    for (turn, (op, mode)) in ops.into_iter().enumerate() {
        // The fourth rotation of the dtypes has no integers.
        for dtype in dtypes(turn + turn / 3).into_iter().filter(|dtype| dtype.is_int()) {
            let some = |shape: &[usize]| Given::new(dtype, shape).values(Values::Between(0.0, 3.0));
            for given in [
                vec![Given::new(dtype, &[1023]), some(&[1023])],
                vec![Given::new(dtype, &[33, 65]).arranged(Arrangement::Transposed), some(&[65])],
            ] {
                let case = Case::new(op, given).fails("divided by zero");
                all.push(match mode {
                    Some(mode) => case.attr("rounding_mode", mode),
                    None => case,
                });
            }
        }
    }
    all
}

/// Returns cases with numbers in place of tensors, and with arguments that select a variant.
fn choices(dtype: DType) -> Vec<Case> {
    let x = || Given::new(dtype, &[3, 341]);
    let two = |op: &str| Case::new(op, vec![x(), second(op, dtype, &[3, 341])]);
    let one = |op: &str| Case::new(op, vec![x()]);
    let mut all = vec![
        two("add").attr("alpha", 3),
        two("sub").attr("alpha", 2),
        two("div").attr("rounding_mode", "floor"),
        two("div").attr("rounding_mode", "trunc"),
        one("gelu").attr("approximate", "tanh"),
        two("gelu_backward").attr("approximate", "tanh"),
        two("elu_backward").attr("is_result", true).attr("alpha", 1.5).attr("scale", 1.1),
        two("threshold_backward").attr("threshold", 0.5),
        one("elu").attr("alpha", 0.7).attr("scale", 1.3).attr("input_scale", 0.9),
        one("softplus").attr("beta", 2.0).attr("threshold", 3.0),
        two("softplus_backward").attr("beta", 2.0).attr("threshold", 3.0),
        one("hardtanh").attr("min_val", -2.0).attr("max_val", 1.0),
        one("leaky_relu").attr("negative_slope", 0.2),
        one("nan_to_num").attr("nan", 1.0).attr("posinf", 2.0),
        one("clamp").attr("min", -1).attr("max", 2),
        one("clamp").attr("max", 1.5),
        one("clamp_").attr("min", 1),
        one("clamp_min").attr("min", 0),
        one("clamp_max").attr("max", 0),
        one("clamp_min_").attr("min", 0),
        one("clamp_max_").attr("max", 0),
    ];
    for op in ["add", "mul", "div", "remainder", "fmod", "eq", "lt", "ge", "sub"] {
        all.push(one(op).attr("other", 3));
        all.push(one(op).attr("other", 1.7));
    }
    for op in ["bitwise_and", "bitwise_or", "__lshift__", "__rshift__", "add_", "mul_"] {
        all.push(one(op).attr("other", 5));
    }
    for exponent in [2.0, 3.0, 0.5, -0.5, -1.0, 1.7] {
        all.push(one("pow").attr("exponent", exponent));
    }
    all.push(one("pow").attr("exponent", 2));
    all
}

fn of_three(dtype: DType) -> Vec<Case> {
    let x = |shape: &[usize]| Given::new(dtype, shape);
    let mask = |shape: &[usize]| Given::new(DType::Bool, shape);
    vec![
        Case::new("where", vec![mask(&[33, 65]), x(&[33, 65]), x(&[65])]),
        Case::new("where", vec![mask(&[3, 341]), x(&[3, 341])]).attr("other", 2),
        Case::new("where", vec![mask(&[3, 341]), x(&[3, 341])]).attr("self", 0.5),
        Case::new("masked_fill", vec![x(&[33, 65]), mask(&[65])]).attr("value", 1),
        Case::new("masked_fill_", vec![x(&[33, 65]), mask(&[33, 1])]).attr("value", 0),
        Case::new("masked_fill", vec![x(&[16, 64]), mask(&[16, 64]), x(&[])]),
        Case::new("lerp", vec![x(&[3, 341]), x(&[3, 341]), x(&[3, 341])]),
        Case::new("lerp", vec![x(&[3, 341]), x(&[3, 341])]).attr("weight", 0.3),
        Case::new("addcmul", vec![x(&[3, 341]), x(&[3, 341]), x(&[341])]).attr("value", 2),
        Case::new("addcmul_", vec![x(&[3, 341]), x(&[3, 341]), x(&[3, 341])]),
        Case::new("lerp_", vec![x(&[3, 341]), x(&[3, 341])]).attr("weight", 0.7),
        Case::new("addcdiv_", vec![x(&[3, 341]), x(&[3, 341]), x(&[3, 341])]),
        Case::new("addcdiv", vec![x(&[3, 341]), x(&[3, 341]), x(&[3, 341])]).attr("value", 0.5),
        Case::new("native_dropout", vec![x(&[3, 341])]).attr("p", 0.3).attr("seed", -5),
        Case::new("native_dropout_backward", vec![x(&[3, 341]), mask(&[3, 341])])
            .attr("scale", 1.25),
    ]
}

/// Returns cases whose operands have different dtypes.
fn mixed() -> Vec<Case> {
    use DType::{BF16, Bool, F16, F32, F64, I8, I16, I32, I64, U8};
    let mut all = Vec::new();
    for (a, b) in
        [(I32, F16), (U8, I8), (Bool, F32), (I64, BF16), (F64, F32), (I16, Bool), (F16, BF16)]
    {
        for (x, y) in [(a, b), (b, a)] {
            for op in ["add", "maximum", "lt"] {
                all.push(Case::new(op, vec![Given::new(x, &[3, 341]), Given::new(y, &[3, 341])]));
            }
            all.push(Case::new("mul", vec![Given::new(x, &[333]), Given::new(y, &[])]));
            let mask = Given::new(Bool, &[333]);
            all.push(Case::new("where", vec![mask, Given::new(x, &[333]), Given::new(y, &[333])]));
        }
    }
    all
}

/// Returns casts between all dtypes, copies, and tensors from numbers.
fn moves() -> Vec<Case> {
    let mut all = Vec::new();
    for from in DType::REAL {
        let x = || Given::new(from, &[9, 31]);
        for to in DType::REAL {
            let special = Given::new(from, &[77]).values(Values::Special);
            all.push(Case::new("cast", vec![special]).attr("dtype", to));
        }
        all.push(
            Case::new("cast", vec![x().arranged(Arrangement::Gaps)]).attr("dtype", DType::F32),
        );
        all.push(Case::new("copy", vec![x().arranged(Arrangement::Transposed)]));
        all.push(Case::new("clone", vec![x().arranged(Arrangement::Gaps)]));
        all.push(Case::new("copy_", vec![x(), Given::new(from, &[31])]));
        all.push(Case::new(
            "copy_",
            vec![x().arranged(Arrangement::Transposed), Given::new(DType::I32, &[9, 31])],
        ));
        all.push(
            Case::new("reshape", vec![x().arranged(Arrangement::Transposed)])
                .attr("shape", vec![31, 9]),
        );
        all.push(Case::new("fill", vec![x().arranged(Arrangement::Gaps)]).attr("value", 1));
        all.push(Case::new("full", vec![]).attr("shape", vec![0, 3]).attr("value", 1));
        let full = Case::new("full", vec![]).attr("shape", vec![3, 341]).attr("value", 1);
        all.push(full.attr("dtype", from));
        let range = Case::new("arange", vec![]).attr("start", -3).attr("end", 90).attr("step", 2);
        all.push(range.attr("dtype", from));
    }
    all
}
