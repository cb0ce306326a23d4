//! The sources of the kernels in CUDA C.
//!
//! Each kernel is a small source of its own, so that a program compiles only the kernels that it
//! uses. Sources include no header of the toolkit. They convert half and bfloat16 themselves, and
//! compute them in float, as on the host.

use std::ffi::CString;
use std::fmt::Write as _;

use anyhow::Result;

use millstream_types::DType;

use super::args::{MAX_OPERANDS, VECTOR_BYTES};

/// Returns the common start of all sources: elements, conversions, loads, stores, argument block.
pub(super) fn prelude() -> &'static str {
    include_str!("prelude.cu")
}

/// Appends `body` to the prelude.
///
/// # Errors
/// The text contains a zero byte.
pub(super) fn with_prelude(body: &str) -> Result<CString> {
    Ok(CString::new([prelude(), body].concat())?)
}

/// The functions of elements.
pub(super) const MATH: &str = include_str!("math.cu");

/// Returns the type of a dtype's elements in CUDA C.
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
        DType::U16 => "unsigned short",
        DType::U32 => "unsigned",
        DType::U64 => "u64",
        DType::Bool => "boolean",
        // The host computes complex numbers: these are only moved.
        DType::C64 => "float2",
        DType::C128 => "double2",
    }
}

/// Returns the type that elements of a dtype are computed in, as on the host: f32, f64 or i64; or
/// u64, which only comparisons know.
pub(super) fn computed(dtype: DType) -> DType {
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 => DType::F32,
        DType::F64 | DType::U64 => dtype,
        _ => DType::I64,
    }
}

/// A kernel that computes each element of the last operand from the elements of the others.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Elementwise<'a> {
    pub(super) op: &'a str,
    /// The variant of the op.
    pub(super) variant: &'a str,
    /// The dtype of each input that is a tensor; none for a scalar.
    pub(super) inputs: Vec<Option<DType>>,
    /// The dtype that all inputs are converted to before computing.
    pub(super) common: DType,
    /// Whether scalars are converted too, if that dtype is a float.
    pub(super) rounded: bool,
    pub(super) out: DType,
    /// The type that the kernel computes in: f32, f64, i64 or u64.
    pub(super) computed: DType,
    /// An expression in the inputs `x`, `y`, `z`, the scalars `a`, `b`, `c`, the `index` of the
    /// element and the `width` of the common dtype in bits.
    pub(super) function: &'a str,
    /// Whether indices have 64 bits.
    pub(super) wide: bool,
}

impl Elementwise<'_> {
    /// Returns whether the kernel divides integers. It then takes a failure flag after the output,
    /// and sets it where a divisor is zero.
    pub(super) fn divides_integers(&self) -> bool {
        let divides = match self.op {
            "div" => !self.variant.is_empty(),
            op => ["remainder", "fmod"].contains(&op),
        };
        divides && !self.common.is_float()
    }

    /// Returns the kernel's name: the op, the variant, `scalar` if the last input is a scalar (with
    /// the numbers of the scalar inputs otherwise), and the dtypes.
    pub(super) fn name(&self) -> String {
        let mut name = format!("ms_{}", self.op);
        if !self.variant.is_empty() {
            name += "_";
            name += self.variant;
        }
        let scalars: Vec<usize> =
            (0..self.inputs.len()).filter(|&k| self.inputs[k].is_none()).collect();
        if !scalars.is_empty() {
            name += "_scalar";
            if scalars != [self.inputs.len() - 1] {
                scalars.iter().for_each(|k| name += &k.to_string());
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

    /// Returns the source in CUDA C.
    ///
    /// # Errors
    /// The text contains a zero byte.
    pub(super) fn source(&self) -> Result<CString> {
        let count = self.inputs.len();
        let (out, computed, common) =
            (element(self.out), element(self.computed), element(self.common));
        let dtypes = self.inputs.iter().copied().flatten().chain([self.out]);
        let lanes = VECTOR_BYTES / dtypes.map(DType::size).max().unwrap_or(1);
        let index = if self.wide { "u64" } else { "unsigned" };
        let width = self.common.size() * 8;
        // For each input: the code before the loops, the load of a vector, the read of an element
        // of the vector, and the load of a single element.
        let [mut setup, mut load_vectors, mut vector_element, mut element_loads] =
            [const { String::new() }; 4];
        let mut operand = 0;
        for (k, input) in self.inputs.iter().enumerate() {
            let v = ["x", "y", "z"][k];
            let Some(dtype) = *input else {
                let exact = self.common.is_float() && !self.rounded;
                let via = if exact { computed } else { common };
                writeln!(
                    setup,
                    "    T {v}0; scalar(args, {}, {v}0); {v}0 = read<T, {via}>({v}0);",
                    3 + k
                )?;
                writeln!(vector_element, "                T {v} = {v}0;")?;
                writeln!(element_loads, "        T {v} = {v}0;")?;
                continue;
            };
            let e = element(dtype);
            let via = if dtype == self.common { computed } else { common };
            write!(
                setup,
                "    const {e}* {v}_data = (const {e}*)args.operand[{operand}].data;\n    \
                 bool {v}_scalar = args.operand[{operand}].strides[0] == 0;\n"
            )?;
            write!(
                load_vectors,
                "            Vector<{e}, {lanes}> {v}_vector;\n            \
                 if (!{v}_scalar) {v}_vector = load_vector<{lanes}>({v}_data + from);\n            \
                 else for (int k = 0; k < {lanes}; ++k) {v}_vector.at[k] = *{v}_data;\n"
            )?;
            writeln!(vector_element, "                T {v} = read<T, {via}>({v}_vector.at[k]);")?;
            write!(
                element_loads,
                "        MS_TOUCH({v}_data + at[{operand}], sizeof({e}));\n        \
                 T {v} = read<T, {via}>({v}_data[at[{operand}]]);\n"
            )?;
            operand += 1;
        }
        let unused: String =
            (count..3).map(|k| format!(", (T)0 /* {} */", ["x", "y", "z"][k])).collect();
        let given = ["x", "y", "z"][..count].join(", ");
        let given = format!("{given}{unused}");
        let given = given.trim_start_matches(", ");
        let operands = operand + 1;
        let [declare_flag, check, set_flag] = match self.divides_integers() {
            true => [
                "    bool failed = false;\n".to_owned(),
                "failed = failed || y == 0; ".to_owned(),
                format!("    if (failed) fail(args, {operands});\n"),
            ],
            false => [const { String::new() }; 3],
        };
        assert!(operands + usize::from(self.divides_integers()) <= MAX_OPERANDS);
        let name = self.name();
        let body = format!(
            r#"typedef {computed} T;
typedef {index} Index;
__device__ inline T apply(T x, T y, T z, T a, T b, T c, Index index) {{
    const int width = {width};
    (void)x; (void)y; (void)z; (void)a; (void)b; (void)c; (void)index; (void)width;
    return (T)({function});
}}
extern "C" __global__ void {name}(const ElementwiseArgs args) {{
    T a, b, c;
    scalar(args, 0, a); scalar(args, 1, b); scalar(args, 2, c);
{setup}{declare_flag}    {out}* out = ({out}*)args.operand[{operand}].data;
    const Index count = (Index)args.count, step = (Index)gridDim.x * blockDim.x;
    Index first = (Index)blockIdx.x * blockDim.x + threadIdx.x;
    if (args.dense) {{
        for (Index vector = first; vector < count / {lanes}; vector += step) {{
            Index from = vector * {lanes};
{load_vectors}            Vector<{out}, {lanes}> results;
#pragma unroll
            for (int k = 0; k < {lanes}; ++k) {{
{vector_element}                {check}
                results.at[k] = Cast<{out}>::of(apply({given}, a, b, c, from + k));
            }}
            store_vector<{out}, {lanes}>(out + from, results);
        }}
        first += count / {lanes} * {lanes};
    }}
    for (Index index = first; index < count; index += step) {{
        Index at[{operands}];
        offsets(args, index, at);
{element_loads}        {check}store(out + at[{operand}], apply({given}, a, b, c, index));
    }}
{set_flag}}}
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
    fn only_integer_division_takes_a_failure_flag() {
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
            assert_eq!(source.contains("fail(args, 3)"), kernel.divides_integers(), "{source}");
            kernel.divides_integers()
        };
        for (op, variant) in [("div", "floor"), ("div", "trunc"), ("remainder", ""), ("fmod", "")] {
            assert!(takes(op, variant, DType::U8) && !takes(op, variant, DType::F16), "{op}");
        }
        assert!(!takes("add", "", DType::I64) && !takes("div", "", DType::F32));
    }
}
