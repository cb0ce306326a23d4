// The loss of each target. Operands, from the fifth on: the losses.
extern "C" __global__ void KERNEL(const Walk walk) {
    for (u64 index = THREAD; index < walk.count; index += THREADS) {
        Coordinates here = coordinates(walk, index, 0, walk.rank);
        const Target target = target_of(walk, here);
        T loss = 0;
        if (target.counts) loss = -load(DATA(const E, 0) + target.at) * target.weight;
        store(DATA(E, 4) + distance(walk, 4, here, 0, walk.rank), loss);
    }
}
