// The gradient of each place is the sum of those of the windows that took it, in their order. A window
// that took a place which is not in it fails.
// Operands: the gradient of the images, that of the windows, where they took, the word of failure. The
// walk goes over the first.
extern "C" __global__ void KERNEL(const Walk walk) {
    const Side rows = side(walk, 0), columns = side(walk, 1);
    for (u64 index = THREAD; index < walk.count; index += THREADS) {
        Coordinates here = coordinates(walk, index, 0, walk.rank);
        const long long row = (long long)here.at[walk.rank - 2];
        const long long column = (long long)here.at[walk.rank - 1];
        const u64 start = distance(walk, 1, here, 0, walk.rank);
        const u64 place_start = distance(walk, 2, here, 0, walk.rank);
        const Part down = around(rows, row, false), across = around(columns, column, false);
        T sum = 0;
        for (long long i = down.from; i < down.to; ++i) {
            for (long long k = across.from; k < across.to; ++k) {
                const long long at = DATA(const long long, 2)[
                    place_start + i * walk.integers[19] + k * walk.integers[20]];
                if (at == row * columns.length + column)
                    sum += load(DATA(const E, 1) + start + i * walk.integers[14] + k * walk.integers[15]);
            }
        }
        store(DATA(E, 0) + distance(walk, 0, here, 0, walk.rank), sum);
    }
}
