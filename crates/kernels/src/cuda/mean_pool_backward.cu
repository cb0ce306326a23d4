// The gradient of each place is the sum of its parts in those of the windows it is in, in their order.
// Operands: the gradient of the images, that of the means. The walk goes over the former.
extern "C" __global__ void KERNEL(const Walk walk) {
    const Side rows = side(walk, 0), columns = side(walk, 1);
    const bool shares = walk.integers[16] != 0;
    for (u64 index = THREAD; index < walk.count; index += THREADS) {
        Coordinates here = coordinates(walk, index, 0, walk.rank);
        const long long row = (long long)here.at[walk.rank - 2];
        const long long column = (long long)here.at[walk.rank - 1];
        const E* means = DATA(const E, 1) + distance(walk, 1, here, 0, walk.rank);
        const Part down = around(rows, row, shares), across = around(columns, column, shares);
        T sum = 0;
        for (long long i = down.from; i < down.to; ++i) {
            const Part below = part(rows, i, shares);
            for (long long k = across.from; k < across.to; ++k) {
                const Part beside = part(columns, k, shares);
                if (row >= below.from && row < below.to && column >= beside.from && column < beside.to)
                    sum += load(means + i * walk.integers[14] + k * walk.integers[15])
                        / divisor(walk, below, beside);
            }
        }
        store(DATA(E, 0) + distance(walk, 0, here, 0, walk.rank), sum);
    }
}
