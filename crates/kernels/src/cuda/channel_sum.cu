// Sums all dimensions but the first, a block for each sum. Operands: the elements, the sums.
// Integers: the number of sums.
extern "C" __global__ void KERNEL(const StridedArgs args) {
    __shared__ T sums[BLOCK];
    const u64 channels = (u64)args.integers[0], length = args.count / channels;
    for (u64 channel = blockIdx.x; channel < channels; channel += gridDim.x) {
        const Coordinates position = coordinates(args, channel, 0, args.split);
        const u64 first = offset(args, 0, position, 0, args.split);
        T sum = 0;
        for (u64 index = threadIdx.x; index < length; index += BLOCK) {
            const Coordinates within = coordinates(args, index, args.split, args.rank);
            const u64 at = first + offset(args, 0, within, args.split, args.rank);
            sum += (T)load(DATA(const E, 0) + at);
        }
        __syncthreads();
        sums[threadIdx.x] = sum;
        // The order of the additions is fixed.
        for (unsigned half = BLOCK / 2; half > 0; half /= 2) {
            __syncthreads();
            if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
        }
        if (threadIdx.x == 0)
            store(DATA(E, 1) + offset(args, 1, position, 0, args.split), sums[0]);
    }
}
