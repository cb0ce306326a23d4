// The gradient of a table's rows: each is the sum of those of the places that took it, in order. The
// first place that took a row sees to it; rows that nobody took are zero already.
// Operands: the gradient of the places, the table's, the word of failure, the rows taken.
// Integers: how many places; how many columns; the bytes of an index; how many rows there are; the
// strides of the table; the row without a gradient; whether to divide by how often a row was taken.
extern "C" __global__ void KERNEL(const Walk walk) {
    const u64 places = (u64)walk.integers[0], columns = (u64)walk.integers[1];
    const long long bytes = walk.integers[2], rows = walk.integers[3];
#define ROW(number) \
    whole(walk, 3, bytes, distance(walk, 3, coordinates(walk, number, 0, walk.split), 0, walk.split))
    for (u64 number = THREAD; number < walk.count; number += THREADS) {
        const u64 first = number / columns, column = number % columns;
        const long long row = ROW(first);
        if (row < 0 || row >= rows) {
            fail(walk, 2);
            continue;
        }
        bool seen = row == walk.integers[6];
        for (u64 other = first; other > 0 && !seen; --other) seen = ROW(other - 1) == row;
        if (seen) continue;
        T factor = 1;
        if (walk.integers[7]) {
            u64 taken = 0;
            for (u64 other = first; other < places; ++other) taken += ROW(other) == row;
            factor = 1 / (T)taken;
        }
        Coordinates across = coordinates(walk, column, walk.split, walk.rank);
        const u64 start = distance(walk, 0, across, walk.split, walk.rank);
        T sum = 0;
        for (u64 other = first; other < places; ++other) {
            if (ROW(other) != row) continue;
            Coordinates here = coordinates(walk, other, 0, walk.split);
            sum += load(DATA(const E, 0) + start + distance(walk, 0, here, 0, walk.split)) * factor;
        }
        const u64 to = (u64)row * (u64)walk.integers[4] + column * (u64)walk.integers[5];
        store(DATA(E, 1) + to, sum);
    }
}
