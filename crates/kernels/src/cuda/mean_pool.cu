// Operands: the images, the means of their windows. The walk goes over the latter.
extern "C" __global__ void KERNEL(const Walk walk) {
    const Side rows = side(walk, 0), columns = side(walk, 1);
    const bool shares = walk.integers[16] != 0;
    for (u64 index = THREAD; index < walk.count; index += THREADS) {
        Coordinates here = coordinates(walk, index, 0, walk.rank);
        const E* image = DATA(const E, 0) + distance(walk, 0, here, 0, walk.rank);
        const Part down = part(rows, (long long)here.at[walk.rank - 2], shares);
        const Part across = part(columns, (long long)here.at[walk.rank - 1], shares);
        T sum = 0;
        for (long long row = down.from; row < down.to; ++row) {
            T line = 0;
            for (long long column = across.from; column < across.to; ++column)
                line += load(image + row * walk.integers[12] + column * walk.integers[13]);
            sum += line;
        }
        // A window in the padding alone has nothing to divide by.
        const bool empty = down.from >= down.to || across.from >= across.to;
        const T mean = empty ? (T)0 : sum / divisor(walk, down, across);
        store(DATA(E, 1) + distance(walk, 1, here, 0, walk.rank), mean);
    }
}
