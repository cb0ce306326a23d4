// The mean of each window. Iterates over the windows. Operands: the images, the means.
extern "C" __global__ void KERNEL(const StridedArgs args) {
    const Axis rows = axis(args, 0), columns = axis(args, 1);
    const bool adaptive = args.integers[16] != 0;
    for (u64 index = THREAD; index < args.count; index += THREADS) {
        Coordinates position = coordinates(args, index, 0, args.rank);
        const E* image = DATA(const E, 0) + offset(args, 0, position, 0, args.rank);
        const Range y = window(rows, (long long)position.at[args.rank - 2], adaptive);
        const Range x = window(columns, (long long)position.at[args.rank - 1], adaptive);
        T sum = 0;
        for (long long row = y.from; row < y.to; ++row) {
            T line = 0;
            for (long long column = x.from; column < x.to; ++column)
                line += load(image + row * args.integers[12] + column * args.integers[13]);
            sum += line;
        }
        // A window that lies entirely in the padding has divisor 0.
        const bool empty = y.from >= y.to || x.from >= x.to;
        const T mean = empty ? (T)0 : sum / divisor(args, y, x);
        store(DATA(E, 1) + offset(args, 1, position, 0, args.rank), mean);
    }
}
