// One step of the network, one thread to a pair; or, with no merge, the places as they are.
extern "C" __global__ void KERNEL(const Walk walk) {
    const u64 merge = (u64)walk.integers[4], apart = (u64)walk.integers[5];
    const u64 width = (u64)walk.integers[6];
    for (u64 index = THREAD; index < walk.count; index += THREADS) {
        const Line line = line_of(walk, index / width);
        const u64 within = index % width;
        if (merge > 0) compare(line, merge, apart, within);
        else if (within < line.length) line.places[within * line.step] = (long long)within;
    }
}
