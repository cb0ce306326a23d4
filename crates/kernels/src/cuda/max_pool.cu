// Operands: the images, the greatest of each window, and where it is. The walk goes over the latter.
extern "C" __global__ void KERNEL(const Walk walk) {
    const Side rows = side(walk, 0), columns = side(walk, 1);
    for (u64 index = THREAD; index < walk.count; index += THREADS) {
        Coordinates here = coordinates(walk, index, 0, walk.rank);
        const E* image = DATA(const E, 0) + distance(walk, 0, here, 0, walk.rank);
        const Part down = spread(rows, (long long)here.at[walk.rank - 2]);
        const Part across = spread(columns, (long long)here.at[walk.rank - 1]);
        T greatest = (T)(-1e300 * 1e300);
        long long at = down.from * columns.length + across.from;
        for (long long row = down.from; row < down.to; row += rows.dilation) {
            for (long long column = across.from; column < across.to; column += columns.dilation) {
                const T value = load(image + row * walk.integers[12] + column * walk.integers[13]);
                if (value > greatest || value != value) {
                    greatest = value;
                    at = row * columns.length + column;
                }
            }
        }
        store(DATA(E, 1) + distance(walk, 1, here, 0, walk.rank), greatest);
        DATA(long long, 2)[distance(walk, 2, here, 0, walk.rank)] = at;
    }
}
