// Sums the losses and the weights in one block, and divides for a mean.
// Operands, from the fifth on: the loss, the total weight.
// Integers, from the seventh on: whether to compute the mean.
extern "C" __global__ void KERNEL(const StridedArgs args) {
    __shared__ T losses[BLOCK];
    __shared__ T weights[BLOCK];
    __shared__ T leaves[2][LEAVES];
    const unsigned thread = threadIdx.x;
    Pairwise loss, weight;
    for (u64 start = 0; start < args.count; start += LEAVES * LEAF) {
        const u64 from = start + thread / 8 * LEAF;
        T sum = 0, all = 0;
        for (u64 k = thread % 8; k < LEAF && from + k < args.count; k += 8) {
            const Target target = target_of(args, coordinates(args, from + k, 0, args.rank));
            if (target.counts) sum += -load(DATA(const E, 0) + target.at) * target.weight;
            all += target.weight;
        }
        losses[thread] = sum;
        weights[thread] = all;
        __syncthreads();
        if (thread < LEAVES) {
            leaves[0][thread] = leaf_of(losses + 8 * thread);
            leaves[1][thread] = leaf_of(weights + 8 * thread);
        }
        __syncthreads();
        if (thread == 0) {
            for (u64 leaf = 0; leaf < LEAVES && start + leaf * LEAF < args.count; ++leaf) {
                loss.push(leaves[0][leaf]);
                weight.push(leaves[1][leaf]);
            }
        }
        __syncthreads();
    }
    if (thread > 0) return;
    const T sum = loss.total(), all = weight.total();
    store(DATA(E, 4) + 0, args.integers[6] ? sum / all : sum);
    store(DATA(E, 5) + 0, all);
}
