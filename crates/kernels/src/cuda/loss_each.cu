extern "C" __global__ void KERNEL(const Walk walk) {
    for (u64 index = THREAD; index < walk.count; index += THREADS) {
        Coordinates here = coordinates(walk, index, 0, walk.rank);
        store(DATA(E, OUT) + distance(walk, OUT, here, 0, walk.rank), loss_of(walk, here));
    }
}
