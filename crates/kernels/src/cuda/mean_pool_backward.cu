// The gradient of mean pooling: each element of an image adds its share of the gradients of the
// windows that contain it, in the order of the windows. Iterates over the gradient of the images.
// Operands: the gradient of the images, the gradient of the means.
extern "C" __global__ void KERNEL(const StridedArgs args) {
    const Axis rows = axis(args, 0), columns = axis(args, 1);
    const bool adaptive = args.integers[16] != 0;
    for (u64 index = THREAD; index < args.count; index += THREADS) {
        Coordinates position = coordinates(args, index, 0, args.rank);
        const long long row = (long long)position.at[args.rank - 2];
        const long long column = (long long)position.at[args.rank - 1];
        const E* means = DATA(const E, 1) + offset(args, 1, position, 0, args.rank);
        const Range y = windows_of(rows, row, adaptive), x = windows_of(columns, column, adaptive);
        T sum = 0;
        for (long long i = y.from; i < y.to; ++i) {
            const Range wy = window(rows, i, adaptive);
            for (long long k = x.from; k < x.to; ++k) {
                const Range wx = window(columns, k, adaptive);
                if (row >= wy.from && row < wy.to && column >= wx.from && column < wx.to)
                    sum += load(means + i * args.integers[14] + k * args.integers[15])
                        / divisor(args, wy, wx);
            }
        }
        store(DATA(E, 0) + offset(args, 0, position, 0, args.rank), sum);
    }
}
