// The first elements of each line in order: one thread to an element counts those that come before
// it, until there are too many. Of equal elements the one with the lower place comes first.
// Operands: x, the values, the places, none of which moves along the line. Integers: the length of a
// line, how many are wanted, the strides of all three along it, whether the greatest come first.
__device__ inline bool less(T a, T b) { return a < b || (a == a && b != b); }
extern "C" __global__ void KERNEL(const Walk walk) {
    const u64 length = (u64)walk.integers[0], wanted = (u64)walk.integers[1];
    const u64 x_step = (u64)walk.integers[2];
    const bool descending = walk.integers[5] != 0;
    for (u64 index = THREAD; index < walk.count; index += THREADS) {
        const u64 at = index % length;
        Coordinates here = coordinates(walk, index / length, 0, walk.rank);
        const E* x = DATA(const E, 0) + distance(walk, 0, here, 0, walk.rank);
        const T own = load(x + at * x_step);
        u64 ahead = 0;
        for (u64 other = 0; other < length && ahead < wanted; ++other) {
            const T value = load(x + other * x_step);
            const bool first = descending ? less(own, value) : less(value, own);
            const bool later = descending ? less(value, own) : less(own, value);
            ahead += first || (!later && other < at);
        }
        if (ahead >= wanted) continue;
        const u64 values = distance(walk, 1, here, 0, walk.rank) + ahead * (u64)walk.integers[3];
        const u64 places = distance(walk, 2, here, 0, walk.rank) + ahead * (u64)walk.integers[4];
        DATA(E, 1)[values] = x[at * x_step];
        DATA(long long, 2)[places] = (long long)at;
    }
}
