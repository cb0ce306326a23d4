// Turns scores into weights. Operands: scores, weights, logarithms of the sums, mask.
extern "C" __global__ void KERNEL(const StridedArgs args) {
    __shared__ T shared[BLOCK];
    const u64 keys = args.shape[3];
    for (u64 number = blockIdx.x; number < args.count; number += gridDim.x) {
        const Coordinates position = coordinates(args, number, 0, 3);
        const Row row = row_of(args, position);
        T greatest = minus_infinity();
        for (u64 key = threadIdx.x; key < keys; key += BLOCK)
            greatest = greater(greatest, score(args, row, key));
        greatest = block_reduce<false>(shared, greatest);
        const bool any = greatest != minus_infinity();
        T sum = 0;
        if (any)
            for (u64 key = threadIdx.x; key < keys; key += BLOCK)
                sum += exp(score(args, row, key) - greatest);
        sum = block_reduce<true>(shared, sum);
        const u64 to = offset(args, 1, position, 0, 3);
        for (u64 key = threadIdx.x; key < keys; key += BLOCK) {
            T weight = any ? exp(score(args, row, key) - greatest) / sum : (T)0;
            store(DATA(E, 1) + (to + key * args.operand[1].strides[3]), weight);
        }
        if (threadIdx.x == 0)
            store(DATA(T, 2) + offset(args, 2, position, 0, 3), any ? greatest + log(sum) : (T)0);
    }
}
