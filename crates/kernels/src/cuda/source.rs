//! The kernels in CUDA C.
//!
//! One kernel is one source: small, so that a program compiles only what it uses. No header of the
//! toolkit's is needed. Half and bfloat16 are converted here, and computed in float as on the host.

use std::ffi::CString;

use anyhow::Result;

use millstream_types::DType;

use super::call::{NUMBERS, OPERANDS, RANK};

/// What all kernels start with: the argument, the walk, loads and stores.
fn prelude() -> String {
    format!(
        r#"typedef unsigned long long u64;
struct Head {{ unsigned size, operands, at, step; }};
struct Operand {{ u64 data; u64 bytes; u64 strides[{RANK}]; }};
struct Call {{
    Head head; u64 count; unsigned rank, dense; u64 shape[{RANK}];
    Operand operand[{OPERANDS}]; double numbers[{NUMBERS}]; long long integers[{NUMBERS}];
}};
struct f16 {{ unsigned short bits; }};
struct bf16 {{ unsigned short bits; }};
__device__ inline float load(const float* at) {{ return *at; }}
__device__ inline double load(const double* at) {{ return *at; }}
#ifdef MS_HOST
// For the tests' stand-in: half in plain integers.
inline float widened(unsigned short bits) {{
    unsigned sign = (unsigned)(bits & 0x8000u) << 16, exponent = bits >> 10 & 31u, part = bits & 1023u;
    if (exponent == 31u) return __uint_as_float(sign | 0x7f800000u | part << 13);
    if (exponent != 0) return __uint_as_float(sign | (exponent + 112u) << 23 | part << 13);
    float small = (float)part * 5.9604644775390625e-8f;
    return sign ? -small : small;
}}
inline unsigned short narrowed(float value) {{
    unsigned bits = __float_as_uint(value), sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) return (unsigned short)(sign | 0x7fffu);
    if (size >= 0x47800000u) return (unsigned short)(sign | 0x7c00u);
    // A sum whose last bit is a half's last: the addition rounds to the nearest, ties to even.
    if (size < 0x38800000u) {{
        float sum = __uint_as_float(size) + 0.5f;
        return (unsigned short)(sign | (__float_as_uint(sum) - 0x3f000000u));
    }}
    size += 0xfffu + (size >> 13 & 1u);
    return (unsigned short)(sign | (size - 0x38000000u) >> 13);
}}
#else
#define MS_TOUCH(at, size)
__device__ inline float widened(unsigned short bits) {{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}}
__device__ inline unsigned short narrowed(float value) {{
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}}
#endif
__device__ inline float load(const f16* at) {{ return widened(at->bits); }}
__device__ inline float load(const bf16* at) {{
    return __uint_as_float((unsigned)at->bits << 16);
}}
__device__ inline void store(float* at, float value) {{ *at = value; }}
__device__ inline void store(double* at, double value) {{ *at = value; }}
__device__ inline void store(f16* at, float value) {{ at->bits = narrowed(value); }}
__device__ inline void store(bf16* at, float value) {{
    unsigned bits = __float_as_uint(value);
    // To the nearest, of two as near to the even one; what is no number stays none.
    unsigned rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    at->bits = value != value ? (unsigned short)((bits >> 16) | 0x40u) : (unsigned short)rounded;
}}
template <int N> __device__ inline void place(const Call& call, u64 index, u64 (&at)[N]) {{
    for (int k = 0; k < N; ++k) at[k] = 0;
    for (int dim = (int)call.rank - 1; dim >= 0; --dim) {{
        u64 length = call.shape[dim], within = index % length;
        index /= length;
        for (int k = 0; k < N; ++k) at[k] += within * call.operand[k].strides[dim];
    }}
}}
"#
    )
}

/// The type of elements in a kernel, and the one that they are computed in.
pub(super) fn types(dtype: DType) -> Option<(&'static str, &'static str)> {
    Some(match dtype {
        DType::F32 => ("float", "float"),
        DType::F64 => ("double", "double"),
        DType::F16 => ("f16", "float"),
        DType::BF16 => ("bf16", "float"),
        _ => return None,
    })
}

/// The kernel `name`: each element of the last operand becomes `function` of those of the others,
/// `x` and `y`, and of the numbers `a`, `b`, all of type `T`.
pub(super) fn elementwise(
    name: &str,
    inputs: usize,
    (element, computed): (&str, &str),
    function: &str,
) -> Result<CString> {
    let operands = inputs + 1;
    let load = |k: usize| format!("load((const {element}*)call.operand[{k}].data + at[{k}])");
    let x = if inputs > 0 { load(0) } else { "0".to_owned() };
    let y = if inputs > 1 { load(1) } else { "a".to_owned() };
    let body = format!(
        r#"typedef {computed} T;
extern "C" __global__ void {name}(const Call call) {{
    T a = (T)call.numbers[0], b = (T)call.numbers[1];
    u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 index = (u64)blockIdx.x * blockDim.x + threadIdx.x; index < call.count; index += step) {{
        u64 at[{operands}];
        place(call, index, at);
        T x = {x}, y = {y};
        (void)x; (void)y; (void)b;
        store(({element}*)call.operand[{inputs}].data + at[{inputs}], (T)({function}));
    }}
}}
"#
    );
    Ok(CString::new(prelude() + &body)?)
}

/// The kernel `name`, which copies elements of `bytes` bytes as they are.
pub(super) fn copy(name: &str, bytes: usize) -> Result<CString> {
    let element = match bytes {
        1 => "unsigned char",
        2 => "unsigned short",
        4 => "unsigned",
        _ => "u64",
    };
    let body = format!(
        r#"extern "C" __global__ void {name}(const Call call) {{
    u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 index = (u64)blockIdx.x * blockDim.x + threadIdx.x; index < call.count; index += step) {{
        u64 at[2];
        place(call, index, at);
        (({element}*)call.operand[1].data)[at[1]] = ((const {element}*)call.operand[0].data)[at[0]];
    }}
}}
"#
    );
    Ok(CString::new(prelude() + &body)?)
}
