// Executes one step of the network, a thread per pair. Initializes the indices if the merge is 0.
extern "C" __global__ void KERNEL(const StridedArgs args) {
    const u64 merge = (u64)args.integers[4], distance = (u64)args.integers[5];
    const u64 width = (u64)args.integers[6];
    for (u64 index = THREAD; index < args.count; index += THREADS) {
        const Line line = line_of(args, index / width);
        const u64 within = index % width;
        if (merge > 0) compare(line, merge, distance, within);
        else if (within < line.length) line.indices[within * line.step] = (long long)within;
    }
}
