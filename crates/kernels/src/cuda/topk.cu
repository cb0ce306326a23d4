// The first elements of each line in sorted order. A thread per element counts the elements that
// come before it, until there are too many. Of equal elements the one with the lower index comes
// first.
// Operands: x, the values, the indices; their strides exclude the sorted dimension.
// Integers: the length of a line; the number of elements to return; the strides of all three
// operands along the line; whether the greatest come first.
__device__ inline bool less(T a, T b) { return a < b || (a == a && b != b); }
extern "C" __global__ void KERNEL(const StridedArgs args) {
    const u64 length = (u64)args.integers[0], wanted = (u64)args.integers[1];
    const u64 x_step = (u64)args.integers[2];
    const bool descending = args.integers[5] != 0;
    for (u64 index = THREAD; index < args.count; index += THREADS) {
        const u64 at = index % length;
        Coordinates position = coordinates(args, index / length, 0, args.rank);
        const E* x = DATA(const E, 0) + offset(args, 0, position, 0, args.rank);
        const T own = load(x + at * x_step);
        u64 ahead = 0;
        for (u64 other = 0; other < length && ahead < wanted; ++other) {
            const T value = load(x + other * x_step);
            const bool first = descending ? less(own, value) : less(value, own);
            const bool later = descending ? less(value, own) : less(own, value);
            ahead += first || (!later && other < at);
        }
        if (ahead >= wanted) continue;
        const u64 values = offset(args, 1, position, 0, args.rank) + ahead * (u64)args.integers[3];
        const u64 indices = offset(args, 2, position, 0, args.rank) + ahead * (u64)args.integers[4];
        DATA(E, 1)[values] = x[at * x_step];
        DATA(long long, 2)[indices] = (long long)at;
    }
}
