//! The kernels in CUDA C.
//!
//! One kernel is one source: small, so that a program compiles only what it uses. No header of the
//! toolkit's is needed. Half and bfloat16 are converted here, and computed in float as on the host.

use std::ffi::CString;
use std::fmt::Write as _;

use anyhow::Result;

use millstream_types::DType;

use super::call::{OPERANDS, PACK};

/// What all kernels start with: elements, conversions, loads and stores, the argument, the walk.
pub(super) fn prelude() -> &'static str {
    include_str!("prelude.cu")
}

/// A source of what all kernels start with and of `body`.
///
/// # Errors
/// None for text without zeros.
pub(super) fn with_prelude(body: &str) -> Result<CString> {
    Ok(CString::new([prelude(), body].concat())?)
}

/// Functions of elements.
pub(super) const MATH: &str = include_str!("math.cu");

/// A dtype's elements in a kernel.
pub(super) fn element(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "float",
        DType::F64 => "double",
        DType::F16 => "f16",
        DType::BF16 => "bf16",
        DType::I64 => "i64",
        DType::I32 => "int",
        DType::I16 => "short",
        DType::I8 => "signed char",
        DType::U8 => "unsigned char",
        DType::Bool => "boolean",
    }
}

/// The one of f32, f64 and i64 that a dtype is computed in, as on the host.
pub(super) fn computed(dtype: DType) -> DType {
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 => DType::F32,
        DType::F64 => DType::F64,
        _ => DType::I64,
    }
}

/// A kernel that makes each element of the last operand from those of the others.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Elementwise<'a> {
    pub(super) op: &'a str,
    /// Which of the op's functions.
    pub(super) variant: &'a str,
    /// The dtypes of tensors; none for a number.
    pub(super) inputs: Vec<Option<DType>>,
    /// The dtype that all inputs are converted to first.
    pub(super) common: DType,
    /// Whether numbers are so too, if that is a float.
    pub(super) rounded: bool,
    pub(super) out: DType,
    /// What it is computed in: f32, f64 or i64.
    pub(super) computed: DType,
    /// Of the inputs `x`, `y`, `z`, the numbers `a`, `b`, `c`, the `index` of the element and the
    /// `width` of the common dtype in bits.
    pub(super) function: &'a str,
    /// Whether indices take 64 bits.
    pub(super) wide: bool,
}

impl Elementwise<'_> {
    /// Whether it divides integers. It then takes a word after the result, and sets it where a divisor is
    /// zero: the call has failed.
    pub(super) fn divides_integers(&self) -> bool {
        let divides = match self.op {
            "div" => !self.variant.is_empty(),
            op => ["remainder", "fmod"].contains(&op),
        };
        divides && !self.common.is_float()
    }

    /// The kernel's name: the op, whether the last input is a number or which ones are, and the dtypes.
    pub(super) fn name(&self) -> String {
        let mut name = format!("ms_{}", self.op);
        if !self.variant.is_empty() {
            name += "_";
            name += self.variant;
        }
        let numbers: Vec<usize> =
            (0..self.inputs.len()).filter(|&k| self.inputs[k].is_none()).collect();
        if !numbers.is_empty() {
            name += "_number";
            if numbers != [self.inputs.len() - 1] {
                numbers.iter().for_each(|k| name += &k.to_string());
            }
        }
        name += "__";
        let tensors: Vec<DType> = self.inputs.iter().copied().flatten().collect();
        if tensors.iter().all(|&dtype| dtype == self.out) && self.common == self.out {
            name += self.out.name();
        } else {
            for dtype in tensors {
                name += dtype.name();
                name += "_";
            }
            name += &format!("to_{}_in_{}", self.out.name(), self.common.name());
        }
        if self.wide { name + "_wide" } else { name }
    }

    /// The kernel in CUDA C.
    ///
    /// # Errors
    /// None for text without zeros.
    pub(super) fn source(&self) -> Result<CString> {
        let count = self.inputs.len();
        let (out, computed, common) =
            (element(self.out), element(self.computed), element(self.common));
        let dtypes = self.inputs.iter().copied().flatten().chain([self.out]);
        let pack = PACK / dtypes.map(DType::size).max().unwrap_or(1);
        let index = if self.wide { "u64" } else { "unsigned" };
        let width = self.common.size() * 8;
        // Of each input: what is done once, for a pack, and for an element of it; and one by one.
        let [mut once, mut packed, mut of_pack, mut single] = [const { String::new() }; 4];
        let mut operand = 0;
        for (k, input) in self.inputs.iter().enumerate() {
            let v = ["x", "y", "z"][k];
            let Some(dtype) = *input else {
                let exact = self.common.is_float() && !self.rounded;
                let via = if exact { computed } else { common };
                writeln!(
                    once,
                    "    T {v}0; number(call, {}, {v}0); {v}0 = read<T, {via}>({v}0);",
                    3 + k
                )?;
                writeln!(of_pack, "                T {v} = {v}0;")?;
                writeln!(single, "        T {v} = {v}0;")?;
                continue;
            };
            let e = element(dtype);
            let via = if dtype == self.common { computed } else { common };
            write!(
                once,
                "    const {e}* {v}s = (const {e}*)call.operand[{operand}].data;\n    bool {v}one = call.operand[{operand}].strides[0] == 0;\n"
            )?;
            write!(
                packed,
                "            Pack<{e}, {pack}> {v}p;\n            if ({v}one) {{ for (int k = 0; k < {pack}; ++k) {v}p.at[k] = *{v}s; }} else {v}p = load_pack<{pack}>({v}s + from);\n"
            )?;
            writeln!(of_pack, "                T {v} = read<T, {via}>({v}p.at[k]);")?;
            write!(
                single,
                "        MS_TOUCH({v}s + at[{operand}], sizeof({e}));\n        T {v} = read<T, {via}>({v}s[at[{operand}]]);\n"
            )?;
            operand += 1;
        }
        let unused: String =
            (count..3).map(|k| format!(", (T)0 /* {} */", ["x", "y", "z"][k])).collect();
        let given = ["x", "y", "z"][..count].join(", ");
        let given = format!("{given}{unused}");
        let given = given.trim_start_matches(", ");
        let operands = operand + 1;
        let [wrong, look, tell] = match self.divides_integers() {
            true => [
                "    bool wrong = false;\n".to_owned(),
                "wrong = wrong || y == 0; ".to_owned(),
                format!("    if (wrong) fail(call, {operands});\n"),
            ],
            false => [const { String::new() }; 3],
        };
        assert!(operands + usize::from(self.divides_integers()) <= OPERANDS);
        let name = self.name();
        let body = format!(
            r#"typedef {computed} T;
typedef {index} Index;
__device__ inline T apply(T x, T y, T z, T a, T b, T c, Index index) {{
    const int width = {width};
    (void)x; (void)y; (void)z; (void)a; (void)b; (void)c; (void)index; (void)width;
    return (T)({function});
}}
extern "C" __global__ void {name}(const Call call) {{
    T a, b, c;
    number(call, 0, a); number(call, 1, b); number(call, 2, c);
{once}{wrong}    {out}* out = ({out}*)call.operand[{operand}].data;
    const Index count = (Index)call.count, step = (Index)gridDim.x * blockDim.x;
    Index first = (Index)blockIdx.x * blockDim.x + threadIdx.x;
    if (call.dense) {{
        for (Index pack = first; pack < count / {pack}; pack += step) {{
            Index from = pack * {pack};
{packed}            Pack<{out}, {pack}> made;
#pragma unroll
            for (int k = 0; k < {pack}; ++k) {{
{of_pack}                {look}made.at[k] = Cast<{out}>::of(apply({given}, a, b, c, from + k));
            }}
            store_pack<{out}, {pack}>(out + from, made);
        }}
        first += count / {pack} * {pack};
    }}
    for (Index index = first; index < count; index += step) {{
        Index at[{operands}];
        place(call, index, at);
{single}        {look}store(out + at[{operand}], apply({given}, a, b, c, index));
    }}
{tell}}}
"#,
            function = self.function
        );
        with_prelude(&[MATH, &body].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_integers_that_are_divided_take_a_word() {
        let takes = |op: &str, variant: &str, common: DType| {
            let kernel = Elementwise {
                op,
                variant,
                inputs: vec![Some(common); 2],
                common,
                rounded: false,
                out: common,
                computed: computed(common),
                function: "x",
                wide: false,
            };
            let source = kernel.source().unwrap().into_string().unwrap();
            assert_eq!(source.contains("fail(call, 3)"), kernel.divides_integers(), "{source}");
            kernel.divides_integers()
        };
        for (op, variant) in [("div", "floor"), ("div", "trunc"), ("remainder", ""), ("fmod", "")] {
            assert!(takes(op, variant, DType::U8) && !takes(op, variant, DType::F16), "{op}");
        }
        assert!(!takes("add", "", DType::I64) && !takes("div", "", DType::F32));
    }
}
