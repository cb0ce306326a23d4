// Computes weights again, and the gradients of the scores. Operands: scores, the gradient of the
// weights, weights, the gradient of the scores, the gradient of the result, the result, logarithms
// of the sums, mask.
extern "C" __global__ void KERNEL(const StridedArgs args) {
    __shared__ T shared[BLOCK];
    const u64 keys = args.shape[3], length = (u64)args.integers[2];
    for (u64 number = blockIdx.x; number < args.count; number += gridDim.x) {
        const Coordinates position = coordinates(args, number, 0, 3);
        const Row row = row_of(args, position);
        u64 at[7];
        for (unsigned k = 1; k < 7; ++k) at[k] = offset(args, k, position, 0, 3);
        T sum = 0;
        for (u64 k = threadIdx.x; k < length; k += BLOCK)
            sum += (T)load(DATA(const E, 4) + (at[4] + k * args.operand[4].strides[3]))
                * (T)load(DATA(const E, 5) + (at[5] + k * args.operand[5].strides[3]));
        sum = block_reduce<true>(shared, sum);
        const T logarithm = load(DATA(const T, 6) + at[6]);
        for (u64 key = threadIdx.x; key < keys; key += BLOCK) {
            T value = score(args, row, key);
            T weight = value == minus_infinity() ? (T)0 : exp(value - logarithm);
            T gradient = load(DATA(const T, 1) + (at[1] + key * args.operand[1].strides[3]));
            store(DATA(E, 2) + (at[2] + key * args.operand[2].strides[3]), weight);
            store(DATA(E, 3) + (at[3] + key * args.operand[3].strides[3]),
                weight * (gradient - sum) * (T)args.scalars[0]);
        }
    }
}
