// The gradient of max pooling: each element of an image adds the gradients of the windows that
// selected it, in the order of the windows. Iterates over the gradient of the images.
// Operands: the gradient of the images, the gradient of the windows, the selected indices, the
// failure flag.
extern "C" __global__ void KERNEL(const StridedArgs args) {
    const Axis rows = axis(args, 0), columns = axis(args, 1);
    for (u64 index = THREAD; index < args.count; index += THREADS) {
        Coordinates position = coordinates(args, index, 0, args.rank);
        const long long row = (long long)position.at[args.rank - 2];
        const long long column = (long long)position.at[args.rank - 1];
        const u64 start = offset(args, 1, position, 0, args.rank);
        const u64 index_start = offset(args, 2, position, 0, args.rank);
        const Range y = windows_of(rows, row, false), x = windows_of(columns, column, false);
        T sum = 0;
        for (long long i = y.from; i < y.to; ++i) {
            for (long long k = x.from; k < x.to; ++k) {
                const long long at = DATA(const long long, 2)[
                    index_start + i * args.integers[19] + k * args.integers[20]];
                const u64 window = start + i * args.integers[14] + k * args.integers[15];
                if (at == row * columns.length + column) sum += load(DATA(const E, 1) + window);
            }
        }
        store(DATA(E, 0) + offset(args, 0, position, 0, args.rank), sum);
    }
}
