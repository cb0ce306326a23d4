// Matrices with zero on one side of a diagonal.
// Operands: x, the result, which may be x. Integers: rows, columns, the diagonal, whether to keep
// what lies above it.
extern "C" __global__ void KERNEL(const Walk walk) {
    const u64 rows = (u64)walk.integers[0], columns = (u64)walk.integers[1];
    for (u64 index = THREAD; index < walk.count; index += THREADS) {
        const long long row = (long long)(index / columns % rows);
        const long long across = (long long)(index % columns) - row;
        const bool keep = walk.integers[3] ? across >= walk.integers[2] : across <= walk.integers[2];
        Coordinates here = coordinates(walk, index, 0, walk.rank);
        E value = 0;
        if (keep) value = DATA(const E, 0)[distance(walk, 0, here, 0, walk.rank)];
        DATA(E, 1)[distance(walk, 1, here, 0, walk.rank)] = value;
    }
}
