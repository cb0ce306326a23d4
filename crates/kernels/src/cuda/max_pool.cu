// The greatest element of each window, and its index. Iterates over the windows.
// Operands: the images, the greatest elements, their indices.
__device__ inline void set_least(float& x) { x = (float)(-1e300 * 1e300); }
__device__ inline void set_least(double& x) { x = -1e300 * 1e300; }
__device__ inline void set_least(long long& x) { x = (long long)(1ull << 63); }
extern "C" __global__ void KERNEL(const StridedArgs args) {
    const Axis rows = axis(args, 0), columns = axis(args, 1);
    for (u64 index = THREAD; index < args.count; index += THREADS) {
        Coordinates position = coordinates(args, index, 0, args.rank);
        const E* image = DATA(const E, 0) + offset(args, 0, position, 0, args.rank);
        const Range y = dilated_window(rows, (long long)position.at[args.rank - 2]);
        const Range x = dilated_window(columns, (long long)position.at[args.rank - 1]);
        T greatest;
        set_least(greatest);
        long long at = y.from * columns.length + x.from;
        for (long long row = y.from; row < y.to; row += rows.dilation) {
            for (long long column = x.from; column < x.to; column += columns.dilation) {
                const T value = load(image + row * args.integers[12] + column * args.integers[13]);
                if (value > greatest || value != value) {
                    greatest = value;
                    at = row * columns.length + column;
                }
            }
        }
        store(DATA(E, 1) + offset(args, 1, position, 0, args.rank), greatest);
        DATA(long long, 2)[offset(args, 2, position, 0, args.rank)] = at;
    }
}
