// One block to a line.
extern "C" __global__ void KERNEL(const Walk walk) {
    for (u64 number = blockIdx.x; number < walk.count; number += gridDim.x) {
        const Line line = line_of(walk, number);
        u64 pairs = 1;
        while (2 * pairs < line.length) pairs *= 2;
        for (u64 at = threadIdx.x; at < line.length; at += blockDim.x)
            line.places[at * line.step] = (long long)at;
        __syncthreads();
        for (u64 merge = 2; merge <= 2 * pairs; merge *= 2) {
            for (u64 apart = merge / 2; apart > 0; apart /= 2) {
                const u64 step = apart == merge / 2 ? 0 : apart;
                for (u64 pair = threadIdx.x; pair < pairs; pair += blockDim.x)
                    compare(line, merge, step, pair);
                __syncthreads();
            }
        }
    }
}
