// Sums each part of PART losses, a block per part, into a word of the workspace.
extern "C" __global__ void KERNEL(const StridedArgs args) {
    __shared__ T lanes[BLOCK];
    __shared__ T leaves[PART / LEAF];
    const u64 parts = (args.count + PART - 1) / PART;
    const unsigned thread = threadIdx.x;
    for (u64 number = blockIdx.x; number < parts; number += gridDim.x) {
        const u64 start = number * PART;
        const u64 end = start + PART < args.count ? start + PART : args.count;
        for (unsigned first = 0; first < PART / LEAF; first += LEAVES) {
            const u64 from = start + (first + thread / 8) * LEAF;
            T sum = 0;
            for (u64 k = thread % 8; k < LEAF && from + k < end; k += 8)
                sum += loss_of(args, coordinates(args, from + k, 0, args.rank));
            lanes[thread] = sum;
            __syncthreads();
            if (thread < LEAVES) leaves[first + thread] = leaf_of(lanes + 8 * thread);
            __syncthreads();
        }
        if (thread == 0) {
            Pairwise sum;
            for (u64 leaf = 0; start + leaf * LEAF < end; ++leaf) sum.push(leaves[leaf]);
            *(T*)(args.operand[OUT].data + 8 * number) = sum.total();
        }
        __syncthreads();
    }
}
