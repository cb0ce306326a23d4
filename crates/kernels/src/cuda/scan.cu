// Running sums or products: one thread to a line, from its start to its end.
// Before this stand RESULT, the type of the result's elements, WIDE, the one that is computed in, START
// and JOIN.
// Operands: x, the result, neither of which moves along the line. Integers: the length of a line, the
// strides of both along it.
extern "C" __global__ void KERNEL(const Walk walk) {
    const u64 length = (u64)walk.integers[0];
    const u64 x_step = (u64)walk.integers[1], step = (u64)walk.integers[2];
    for (u64 line = THREAD; line < walk.count; line += THREADS) {
        Coordinates here = coordinates(walk, line, 0, walk.rank);
        const E* from = DATA(const E, 0) + distance(walk, 0, here, 0, walk.rank);
        RESULT* to = DATA(RESULT, 1) + distance(walk, 1, here, 0, walk.rank);
        WIDE total = START;
        for (u64 at = 0; at < length; ++at) {
            total = total JOIN (WIDE)load(from + at * x_step);
            store(to + at * step, (T)total);
        }
    }
}
