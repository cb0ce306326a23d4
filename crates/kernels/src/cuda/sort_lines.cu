// Sorts each line in one block.
extern "C" __global__ void KERNEL(const StridedArgs args) {
    for (u64 number = blockIdx.x; number < args.count; number += gridDim.x) {
        const Line line = line_of(args, number);
        u64 pairs = 1;
        while (2 * pairs < line.length) pairs *= 2;
        for (u64 at = threadIdx.x; at < line.length; at += blockDim.x)
            line.indices[at * line.step] = (long long)at;
        __syncthreads();
        for (u64 merge = 2; merge <= 2 * pairs; merge *= 2) {
            for (u64 distance = merge / 2; distance > 0; distance /= 2) {
                const u64 compared = distance == merge / 2 ? 0 : distance;
                for (u64 pair = threadIdx.x; pair < pairs; pair += blockDim.x)
                    compare(line, merge, compared, pair);
                __syncthreads();
            }
        }
    }
}
