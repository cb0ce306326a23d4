// The gradient of each target's class; the others' are zero already. Operands, from the fifth on: the
// gradient of the loss, the total weight. Integers, from the seventh on: whether it was a mean.
extern "C" __global__ void KERNEL(const Walk walk) {
    for (u64 index = THREAD; index < walk.count; index += THREADS) {
        Coordinates here = coordinates(walk, index, 0, walk.rank);
        const Target target = target_of(walk, here);
        if (!target.counts) continue;
        const T all = walk.integers[6] ? (T)load(DATA(const E, 5) + 0) : (T)1;
        const T grad = load(DATA(const E, 4) + distance(walk, 4, here, 0, walk.rank));
        store(DATA(E, 0) + target.at, -target.weight * grad / all);
    }
}
