// Cumulative sums or products. One thread per line.
// Defined before: RESULT, the type of the result's elements; WIDE, the type that is computed in;
// START, the initial value; COMBINE, the operator.
// Operands: x, the result; their strides exclude the scanned dimension.
// Integers: the length of a line; the strides of both operands along it.
extern "C" __global__ void KERNEL(const StridedArgs args) {
    const u64 length = (u64)args.integers[0];
    const u64 x_step = (u64)args.integers[1], step = (u64)args.integers[2];
    for (u64 line = THREAD; line < args.count; line += THREADS) {
        Coordinates position = coordinates(args, line, 0, args.rank);
        const E* from = DATA(const E, 0) + offset(args, 0, position, 0, args.rank);
        RESULT* to = DATA(RESULT, 1) + offset(args, 1, position, 0, args.rank);
        WIDE total = START;
        for (u64 at = 0; at < length; ++at) {
            total = total COMBINE (WIDE)load(from + at * x_step);
            store(to + at * step, (T)total);
        }
    }
}
