// Whether each window took a place that is in it.
// Operands: where windows took, the word of failure. The walk goes over the first.
extern "C" __global__ void KERNEL(const Walk walk) {
    const Side rows = side(walk, 0), columns = side(walk, 1);
    for (u64 index = THREAD; index < walk.count; index += THREADS) {
        Coordinates here = coordinates(walk, index, 0, walk.rank);
        const long long at = DATA(const long long, 0)[distance(walk, 0, here, 0, walk.rank)];
        const Part down = spread(rows, (long long)here.at[walk.rank - 2]);
        const Part across = spread(columns, (long long)here.at[walk.rank - 1]);
        const long long row = at / columns.length, column = at % columns.length;
        const bool inside = at >= 0 && row >= down.from && row < down.to && column >= across.from
            && column < across.to && (row - down.from) % rows.dilation == 0
            && (column - across.from) % columns.dilation == 0;
        if (!inside) fail(walk, 1);
    }
}
