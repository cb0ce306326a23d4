//! The softmax of attention: computes weights from scores, and the gradients of scores from the
//! gradients of weights. One block of threads processes one query.

use std::ffi::CString;
use std::mem::offset_of;

use anyhow::{Result, ensure};

use millstream_ep::cuda::NativeStream;
use millstream_types::DType;

use super::args::{ArgsHeader, KernelArgs, MemoryRange};
use super::{Unsupported, launch, source};
use crate::context::RawTensor;

/// The threads of a block. Thread k processes the keys k, k + THREADS, k + 2 · THREADS, ….
const THREADS: usize = 256;

/// An operand: its memory, and its strides by batch, head, query and key, in elements.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct AttentionOperand {
    memory: MemoryRange,
    strides: [u64; 4],
}

/// The argument block, passed by value. [`attention_prelude`] declares the same type in CUDA C.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct AttentionArgs {
    header: ArgsHeader,
    heads: u64,
    queries: u64,
    keys: u64,
    head_size: u64,
    /// Whether a query attends only to keys up to its own number.
    causal: u64,
    /// The index of the mask's dtype in [`MASK_DTYPES`].
    mask: u64,
    scale: f64,
    operand: [AttentionOperand; 8],
}

// SAFETY: `repr(C)`; after the header all fields are words, so there is no padding.
unsafe impl KernelArgs for AttentionArgs {
    fn header(&self) -> ArgsHeader {
        self.header
    }
}

/// The dtypes of masks. Kernels identify a dtype by its index.
const MASK_DTYPES: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];

impl AttentionArgs {
    /// Returns the arguments for a part of the heads. `scores` is `[b,h,s,l]`; `mask` is broadcast
    /// to it.
    pub(super) fn new(
        scores: &RawTensor<'_>,
        head_size: usize,
        (scale, causal): (f64, bool),
        mask: Option<RawTensor<'_>>,
        operands: &[RawTensor<'_>],
    ) -> Result<AttentionArgs> {
        let &[_, heads, queries, keys] = scores.shape else { anyhow::bail!("{scores:?}") };
        let mut args = AttentionArgs {
            header: ArgsHeader {
                size: size_of::<AttentionArgs>() as u32,
                operands: 8,
                offset: offset_of!(AttentionArgs, operand) as u32,
                stride: size_of::<AttentionOperand>() as u32,
            },
            heads: heads as u64,
            queries: queries as u64,
            keys: keys as u64,
            head_size: head_size as u64,
            causal: causal.into(),
            scale,
            ..AttentionArgs::default()
        };
        ensure!(operands.len() < args.operand.len(), "too many operands");
        for (to, from) in args.operand.iter_mut().zip(operands) {
            to.memory = MemoryRange::of(from);
            for (to, &from) in to.strides.iter_mut().zip(from.strides) {
                *to = from as u64;
            }
        }
        if let Some(mask) = mask {
            let known = MASK_DTYPES.iter().position(|&dtype| dtype == mask.dtype);
            args.mask = known.ok_or_else(|| Unsupported::of(mask.dtype.name()))? as u64;
            let to = &mut args.operand[7];
            to.memory = MemoryRange::of(&mask);
            for (to, &from) in to.strides.iter_mut().zip(mask.strides) {
                *to = from as u64;
            }
        }
        Ok(args)
    }
}

/// Returns the common start of both kernels.
fn attention_prelude(dtype: DType) -> Result<String> {
    if !dtype.is_float() {
        return Err(Unsupported::of(dtype.name()));
    }
    let (element, computed) = (source::element(dtype), source::element(source::computed(dtype)));
    Ok(format!(
        r#"struct AttentionOperand {{ u64 data, bytes, strides[4]; }};
struct AttentionArgs {{
    ArgsHeader header; u64 heads, queries, keys, head_size, causal, mask; double scale;
    AttentionOperand operand[8];
}};
typedef {element} E;
typedef {computed} T;
struct Row {{ u64 batch, head, query; }};
__device__ inline u64 offset(const AttentionOperand& of, const Row& row) {{
    return row.batch * of.strides[0] + row.head * of.strides[1] + row.query * of.strides[2];
}}
template <class V> __device__ inline T get(u64 data, u64 index) {{
    return (T)load((const V*)data + index);
}}
template <class V> __device__ inline void put(u64 data, u64 index, T value) {{
    store((V*)data + index, value);
}}
__device__ inline T minus_infinity() {{ return -(T)__int_as_float(0x7f800000); }}
// The score of a key; minus infinity if the query does not attend to it.
__device__ inline T score(const AttentionArgs& args, const Row& row, u64 index, u64 key) {{
    if (args.causal && key > row.query) return minus_infinity();
    T value = get<T>(args.operand[0].data, index) * (T)args.scale;
    const AttentionOperand& mask = args.operand[7];
    if (mask.bytes == 0) return value;
    u64 entry = offset(mask, row) + key * mask.strides[3];
    switch (args.mask) {{
        case 0: return value + get<float>(mask.data, entry);
        case 1: return value + get<double>(mask.data, entry);
        case 2: return value + get<f16>(mask.data, entry);
        default: return value + get<bf16>(mask.data, entry);
    }}
}}
// The greater one. NaN if either is NaN.
__device__ inline T greater(T a, T b) {{ return a != a ? a : b > a || b != b ? b : a; }}
// The sum or the maximum of the values of all threads, always in the same order.
template <bool SUM> __device__ inline T block_reduce(T* shared, T own) {{
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
__device__ inline Row row_of(const AttentionArgs& args) {{
    u64 head = blockIdx.x / args.queries;
    Row row = {{ head / args.heads, head % args.heads, blockIdx.x % args.queries }};
    return row;
}}
"#
    ))
}

fn forward_name(dtype: DType) -> String {
    format!("ms_attention_softmax__{}", dtype.name())
}

/// Returns the source of the forward kernel. Operands: scores, weights, logarithms of the sums.
fn forward_source(dtype: DType) -> Result<CString> {
    let (name, prelude) = (forward_name(dtype), attention_prelude(dtype)?);
    let body = format!(
        r#"{prelude}extern "C" __global__ void {name}(const AttentionArgs args) {{
    __shared__ T shared[{THREADS}];
    Row row = row_of(args);
    u64 base = blockIdx.x * args.keys;
    T greatest = minus_infinity();
    for (u64 key = threadIdx.x; key < args.keys; key += {THREADS})
        greatest = greater(greatest, score(args, row, base + key, key));
    greatest = block_reduce<false>(shared, greatest);
    bool any = greatest != minus_infinity();
    T sum = 0;
    if (any)
        for (u64 key = threadIdx.x; key < args.keys; key += {THREADS})
            sum += exp(score(args, row, base + key, key) - greatest);
    sum = block_reduce<true>(shared, sum);
    for (u64 key = threadIdx.x; key < args.keys; key += {THREADS}) {{
        T weight = any ? exp(score(args, row, base + key, key) - greatest) / sum : (T)0;
        put<E>(args.operand[1].data, base + key, weight);
    }}
    if (threadIdx.x == 0) {{
        T logarithm = any ? greatest + log(sum) : (T)0;
        put<T>(args.operand[2].data, offset(args.operand[2], row), logarithm);
    }}
}}
"#
    );
    source::with_prelude(&body)
}

fn backward_name(dtype: DType) -> String {
    format!("ms_attention_softmax_backward__{}", dtype.name())
}

/// Returns the source of the kernel of the gradients. Operands: scores, the gradient of the
/// weights, weights, the gradient of the scores, the gradient of the result, the result, logarithms
/// of the sums.
fn backward_source(dtype: DType) -> Result<CString> {
    let (name, prelude) = (backward_name(dtype), attention_prelude(dtype)?);
    let body = format!(
        r#"{prelude}extern "C" __global__ void {name}(const AttentionArgs args) {{
    __shared__ T shared[{THREADS}];
    Row row = row_of(args);
    const AttentionOperand& grad = args.operand[4];
    const AttentionOperand& result = args.operand[5];
    T sum = 0;
    for (u64 k = threadIdx.x; k < args.head_size; k += {THREADS})
        sum += get<E>(grad.data, offset(grad, row) + k * grad.strides[3])
            * get<E>(result.data, offset(result, row) + k * result.strides[3]);
    sum = block_reduce<true>(shared, sum);
    T log = get<T>(args.operand[6].data, offset(args.operand[6], row));
    u64 base = blockIdx.x * args.keys;
    for (u64 key = threadIdx.x; key < args.keys; key += {THREADS}) {{
        T value = score(args, row, base + key, key);
        T weight = value == minus_infinity() ? (T)0 : exp(value - log);
        T gradient = get<T>(args.operand[1].data, base + key);
        put<E>(args.operand[2].data, base + key, weight);
        put<E>(args.operand[3].data, base + key, weight * (gradient - sum) * (T)args.scale);
    }}
}}
"#
    );
    source::with_prelude(&body)
}

/// Returns all sources with their names.
pub(super) fn sources() -> Vec<(String, CString)> {
    let forward = MASK_DTYPES.into_iter().map(|d| (forward_name(d), forward_source(d)));
    let backward = MASK_DTYPES.into_iter().map(|d| (backward_name(d), backward_source(d)));
    forward.chain(backward).filter_map(|(name, source)| Some((name, source.ok()?))).collect()
}

fn rows(scores: &RawTensor<'_>) -> Result<u32> {
    Ok(u32::try_from(scores.shape[..3].iter().product::<usize>())?)
}

/// Launches the softmax of each row of scores. Operands: scores, weights, logarithms of the sums.
///
/// # Errors
/// An error of the compiler or the driver.
///
/// # Safety
/// The operands are valid until the kernel has run, and it is ordered against all other uses of
/// them. Scores and weights may be the same memory, if they are of one dtype.
pub(super) unsafe fn forward(
    native: &NativeStream,
    dtype: DType,
    scores: &RawTensor<'_>,
    args: AttentionArgs,
) -> Result<()> {
    let name = forward_name(dtype);
    // SAFETY: the kernel accesses only the operands. A thread reads an element of the scores for
    // the last time before it writes the same element of the weights.
    unsafe { launch::launch_blocks(native, &name, || forward_source(dtype), rows(scores)?, args) }
}

/// Launches the computation of weights and gradients of scores. Operands as for the kernel.
///
/// # Errors
/// An error of the compiler or the driver.
///
/// # Safety
/// As for [`forward`]. The weights may be stored in the memory of the scores, and the gradient of
/// the scores in the memory of the gradient of the weights.
pub(super) unsafe fn backward(
    native: &NativeStream,
    dtype: DType,
    scores: &RawTensor<'_>,
    args: AttentionArgs,
) -> Result<()> {
    let name = backward_name(dtype);
    // SAFETY: as above.
    unsafe { launch::launch_blocks(native, &name, || backward_source(dtype), rows(scores)?, args) }
}
