// The common part of the softmax kernels of attention: scores, and reductions over a block.
// Defined before: MASK, the number of the mask's operand.
// The iteration space has the dimensions batch, head, query and key. A block processes a query.
// Operand 0: the scores. Integers: whether a query attends only to keys up to its own number; the
// index of the mask's dtype in `MASK_DTYPES`, -1 without a mask; the length of a head.
// Scalars: the factor of the scores.
struct Row { u64 query, scores, mask; };
__device__ inline Row row_of(const StridedArgs& args, const Coordinates& position) {
    return {position.at[2], offset(args, 0, position, 0, 3), offset(args, MASK, position, 0, 3)};
}
__device__ inline T minus_infinity() { return -(T)__int_as_float(0x7f800000); }
// The score of a key; minus infinity if the query does not attend to it.
__device__ inline T score(const StridedArgs& args, const Row& row, u64 key) {
    if (args.integers[0] && key > row.query) return minus_infinity();
    const u64 at = row.scores + key * args.operand[0].strides[3];
    const u64 entry = row.mask + key * args.operand[MASK].strides[3];
    T value = load(DATA(const T, 0) + at) * (T)args.scalars[0];
    switch (args.integers[1]) {
        case 0: return value + (T)load(DATA(const float, MASK) + entry);
        case 1: return value + (T)load(DATA(const double, MASK) + entry);
        case 2: return value + (T)load(DATA(const f16, MASK) + entry);
        case 3: return value + (T)load(DATA(const bf16, MASK) + entry);
        default: return value;
    }
}
// The greater one. NaN if either is NaN.
__device__ inline T greater(T a, T b) { return a != a ? a : b > a || b != b ? b : a; }
// The sum or the maximum of the values of all threads, always in the same order.
template <bool SUM> __device__ inline T block_reduce(T* shared, T own) {
    __syncthreads();
    shared[threadIdx.x] = own;
    for (unsigned half = BLOCK / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            T a = shared[threadIdx.x], b = shared[threadIdx.x + half];
            shared[threadIdx.x] = SUM ? a + b : greater(a, b);
        }
    }
    __syncthreads();
    return shared[0];
}
