// Checks that the index that each window selected lies in the window. Iterates over the indices.
// Operands: the selected indices, the failure flag.
extern "C" __global__ void KERNEL(const StridedArgs args) {
    const Axis rows = axis(args, 0), columns = axis(args, 1);
    for (u64 index = THREAD; index < args.count; index += THREADS) {
        Coordinates position = coordinates(args, index, 0, args.rank);
        const long long at = DATA(const long long, 0)[offset(args, 0, position, 0, args.rank)];
        const Range y = dilated_window(rows, (long long)position.at[args.rank - 2]);
        const Range x = dilated_window(columns, (long long)position.at[args.rank - 1]);
        const long long row = at / columns.length, column = at % columns.length;
        const bool inside = at >= 0 && row >= y.from && row < y.to
            && column >= x.from && column < x.to
            && (row - y.from) % rows.dilation == 0 && (column - x.from) % columns.dilation == 0;
        if (!inside) fail(args, 1);
    }
}
