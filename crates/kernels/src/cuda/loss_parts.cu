// The sum of each part of PART losses, one block to a part, into a word of the workspace.
extern "C" __global__ void KERNEL(const Walk walk) {
    __shared__ T lanes[BLOCK];
    __shared__ T leaves[PART / LEAF];
    const u64 parts = (walk.count + PART - 1) / PART;
    const unsigned thread = threadIdx.x;
    for (u64 number = blockIdx.x; number < parts; number += gridDim.x) {
        const u64 start = number * PART;
        const u64 end = start + PART < walk.count ? start + PART : walk.count;
        for (unsigned first = 0; first < PART / LEAF; first += LEAVES) {
            const u64 from = start + (first + thread / 8) * LEAF;
            T sum = 0;
            for (u64 k = thread % 8; k < LEAF && from + k < end; k += 8)
                sum += loss_of(walk, coordinates(walk, from + k, 0, walk.rank));
            lanes[thread] = sum;
            __syncthreads();
            if (thread < LEAVES) leaves[first + thread] = leaf_of(lanes + 8 * thread);
            __syncthreads();
        }
        if (thread == 0) {
            Pairwise sum;
            for (u64 leaf = 0; start + leaf * LEAF < end; ++leaf) sum.push(leaves[leaf]);
            *(T*)(walk.operand[OUT].data + 8 * number) = sum.total();
        }
        __syncthreads();
    }
}
