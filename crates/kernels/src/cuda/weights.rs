//! The kernels between the products of attention: scores to weights, and the weights' gradients to the
//! scores'. A block of threads has one query.

use std::ffi::CString;
use std::mem::offset_of;

use anyhow::{Result, ensure};

use millstream_ep::cuda::Native;
use millstream_types::DType;

use super::call::{Argument, Head, Place};
use super::{Unsupported, launch, source};
use crate::context::RawTensor;

/// The threads of a block, each with every so many-th key.
const THREADS: usize = 256;

/// An operand: where it lies, and its strides by batch, head, query and key, in elements.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Operand {
    place: Place,
    strides: [u64; 4],
}

/// What the kernels are given, by value. The same lies in [`prelude`], in CUDA C.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Call {
    head: Head,
    heads: u64,
    queries: u64,
    keys: u64,
    width: u64,
    /// Whether a query sees only keys up to its own number.
    causal: u64,
    /// The mask's dtype, as a number of [`MASKS`].
    mask: u64,
    scale: f64,
    operand: [Operand; 8],
}

// SAFETY: `repr(C)`, of words after the head: no gaps.
unsafe impl Argument for Call {
    fn head(&self) -> Head {
        self.head
    }
}

/// The dtypes that a mask may have, by their numbers in the kernels.
const MASKS: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];

impl Call {
    /// For a part of the heads: `scores` is `[b,h,s,l]`, `mask` broadcast to that.
    pub(super) fn new(
        scores: &RawTensor<'_>,
        width: usize,
        (scale, causal): (f64, bool),
        mask: Option<RawTensor<'_>>,
        operands: &[RawTensor<'_>],
    ) -> Result<Call> {
        let &[_, heads, queries, keys] = scores.shape else { anyhow::bail!("{scores:?}") };
        let mut call = Call {
            head: Head {
                size: size_of::<Call>() as u32,
                operands: 8,
                at: offset_of!(Call, operand) as u32,
                step: size_of::<Operand>() as u32,
            },
            heads: heads as u64,
            queries: queries as u64,
            keys: keys as u64,
            width: width as u64,
            causal: causal.into(),
            scale,
            ..Call::default()
        };
        ensure!(operands.len() < call.operand.len(), "too many operands");
        for (to, from) in call.operand.iter_mut().zip(operands) {
            to.place = Place::of(from);
            for (to, &from) in to.strides.iter_mut().zip(from.strides) {
                *to = from as u64;
            }
        }
        if let Some(mask) = mask {
            let known = MASKS.iter().position(|&dtype| dtype == mask.dtype);
            call.mask = known.ok_or_else(|| Unsupported::of(mask.dtype.name()))? as u64;
            let to = &mut call.operand[7];
            to.place = Place::of(&mask);
            for (to, &from) in to.strides.iter_mut().zip(mask.strides) {
                *to = from as u64;
            }
        }
        Ok(call)
    }
}

/// What both kernels start with.
fn prelude(dtype: DType) -> Result<String> {
    if !dtype.is_float() {
        return Err(Unsupported::of(dtype.name()));
    }
    let (element, computed) = (source::element(dtype), source::element(source::computed(dtype)));
    Ok(format!(
        r#"struct Lies {{ u64 data, bytes, strides[4]; }};
struct Weights {{
    Head head; u64 heads, queries, keys, width, causal, mask; double scale; Lies operand[8];
}};
typedef {element} E;
typedef {computed} T;
struct Row {{ u64 batch, head, query; }};
__device__ inline u64 at(const Lies& of, const Row& row) {{
    return row.batch * of.strides[0] + row.head * of.strides[1] + row.query * of.strides[2];
}}
template <class V> __device__ inline T get(u64 data, u64 index) {{
    return (T)load((const V*)data + index);
}}
template <class V> __device__ inline void put(u64 data, u64 index, T value) {{
    store((V*)data + index, value);
}}
__device__ inline T none() {{ return -(T)__int_as_float(0x7f800000); }}
// The score of a key, minus infinity for one that is not seen.
__device__ inline T score(const Weights& call, const Row& row, u64 index, u64 key) {{
    if (call.causal && key > row.query) return none();
    T value = get<T>(call.operand[0].data, index) * (T)call.scale;
    const Lies& mask = call.operand[7];
    if (mask.bytes == 0) return value;
    u64 place = at(mask, row) + key * mask.strides[3];
    switch (call.mask) {{
        case 0: return value + get<float>(mask.data, place);
        case 1: return value + get<double>(mask.data, place);
        case 2: return value + get<f16>(mask.data, place);
        default: return value + get<bf16>(mask.data, place);
    }}
}}
// What is no number stays none.
__device__ inline T greater(T a, T b) {{ return a != a ? a : b > a || b != b ? b : a; }}
// Of what all threads have, the sum or the greatest, in the same order every time.
template <bool SUM> __device__ inline T joined(T* shared, T own) {{
    __syncthreads();
    shared[threadIdx.x] = own;
    for (unsigned half = {THREADS} / 2; half > 0; half /= 2) {{
        __syncthreads();
        if (threadIdx.x < half) {{
            T a = shared[threadIdx.x], b = shared[threadIdx.x + half];
            shared[threadIdx.x] = SUM ? a + b : greater(a, b);
        }}
    }}
    __syncthreads();
    return shared[0];
}}
__device__ inline Row row_of(const Weights& call) {{
    u64 head = blockIdx.x / call.queries;
    Row row = {{ head / call.heads, head % call.heads, blockIdx.x % call.queries }};
    return row;
}}
"#
    ))
}

fn forward_name(dtype: DType) -> String {
    format!("ms_attention__{}", dtype.name())
}

/// Operands: scores, weights, logarithms of the sums.
fn forward_source(dtype: DType) -> Result<CString> {
    let (name, prelude) = (forward_name(dtype), prelude(dtype)?);
    let body = format!(
        r#"{prelude}extern "C" __global__ void {name}(const Weights call) {{
    __shared__ T shared[{THREADS}];
    Row row = row_of(call);
    u64 base = blockIdx.x * call.keys;
    T most = none();
    for (u64 key = threadIdx.x; key < call.keys; key += {THREADS})
        most = greater(most, score(call, row, base + key, key));
    most = joined<false>(shared, most);
    bool seen = most != none();
    T sum = 0;
    if (seen)
        for (u64 key = threadIdx.x; key < call.keys; key += {THREADS})
            sum += exp(score(call, row, base + key, key) - most);
    sum = joined<true>(shared, sum);
    for (u64 key = threadIdx.x; key < call.keys; key += {THREADS}) {{
        T weight = seen ? exp(score(call, row, base + key, key) - most) / sum : (T)0;
        put<E>(call.operand[1].data, base + key, weight);
    }}
    if (threadIdx.x == 0)
        put<T>(call.operand[2].data, at(call.operand[2], row), seen ? most + log(sum) : (T)0);
}}
"#
    );
    source::with_prelude(&body)
}

fn backward_name(dtype: DType) -> String {
    format!("ms_attention_backward__{}", dtype.name())
}

/// Operands: scores, the weights' gradients, weights, the scores' gradients, the result's gradient, the
/// result, logarithms of the sums.
fn backward_source(dtype: DType) -> Result<CString> {
    let (name, prelude) = (backward_name(dtype), prelude(dtype)?);
    let body = format!(
        r#"{prelude}extern "C" __global__ void {name}(const Weights call) {{
    __shared__ T shared[{THREADS}];
    Row row = row_of(call);
    const Lies& grad = call.operand[4];
    const Lies& result = call.operand[5];
    T sum = 0;
    for (u64 k = threadIdx.x; k < call.width; k += {THREADS})
        sum += get<E>(grad.data, at(grad, row) + k * grad.strides[3])
            * get<E>(result.data, at(result, row) + k * result.strides[3]);
    sum = joined<true>(shared, sum);
    T log = get<T>(call.operand[6].data, at(call.operand[6], row));
    u64 base = blockIdx.x * call.keys;
    for (u64 key = threadIdx.x; key < call.keys; key += {THREADS}) {{
        T value = score(call, row, base + key, key);
        T weight = value == none() ? (T)0 : exp(value - log);
        T gradient = get<T>(call.operand[1].data, base + key);
        put<E>(call.operand[2].data, base + key, weight);
        put<E>(call.operand[3].data, base + key, weight * (gradient - sum) * (T)call.scale);
    }}
}}
"#
    );
    source::with_prelude(&body)
}

/// Every source there is, by name.
pub(super) fn sources() -> Vec<(String, CString)> {
    let forward = MASKS.into_iter().map(|d| (forward_name(d), forward_source(d)));
    let backward = MASKS.into_iter().map(|d| (backward_name(d), backward_source(d)));
    forward.chain(backward).filter_map(|(name, source)| Some((name, source.ok()?))).collect()
}

fn rows(scores: &RawTensor<'_>) -> Result<u32> {
    Ok(u32::try_from(scores.shape[..3].iter().product::<usize>())?)
}

/// Weights from scores: softmax of each row. Operands: scores, weights, logarithms of the sums.
///
/// # Errors
/// The compiler's or the driver's.
///
/// # Safety
/// The operands are valid until the kernel has run, and it is ordered against all other uses of them.
/// Scores and weights may be the same memory, if they are of one dtype.
pub(super) unsafe fn forward(
    native: &Native,
    dtype: DType,
    scores: &RawTensor<'_>,
    call: Call,
) -> Result<()> {
    let name = forward_name(dtype);
    // SAFETY: the kernel touches the operands alone; a thread reads an element of the scores for the last
    // time before it writes the same one of the weights.
    unsafe { launch::blocks(native, &name, || forward_source(dtype), rows(scores)?, call) }
}

/// Weights and the scores' gradients. Operands as for the kernel.
///
/// # Errors
/// The compiler's or the driver's.
///
/// # Safety
/// As for [`forward`]; the weights may be the scores, and the scores' gradients the weights'.
pub(super) unsafe fn backward(
    native: &Native,
    dtype: DType,
    scores: &RawTensor<'_>,
    call: Call,
) -> Result<()> {
    let name = backward_name(dtype);
    // SAFETY: as above.
    unsafe { launch::blocks(native, &name, || backward_source(dtype), rows(scores)?, call) }
}
