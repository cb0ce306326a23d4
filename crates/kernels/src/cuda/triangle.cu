// Copies matrices with zeros on one side of a diagonal.
// Operands: x, the result, which may be x.
// Integers: the number of rows; of columns; the diagonal; whether to keep the elements above it.
extern "C" __global__ void KERNEL(const StridedArgs args) {
    const u64 rows = (u64)args.integers[0], columns = (u64)args.integers[1];
    for (u64 index = THREAD; index < args.count; index += THREADS) {
        const long long row = (long long)(index / columns % rows);
        const long long diagonal = (long long)(index % columns) - row;
        const bool keep =
            args.integers[3] ? diagonal >= args.integers[2] : diagonal <= args.integers[2];
        Coordinates position = coordinates(args, index, 0, args.rank);
        E value = 0;
        if (keep) value = DATA(const E, 0)[offset(args, 0, position, 0, args.rank)];
        DATA(E, 1)[offset(args, 1, position, 0, args.rank)] = value;
    }
}
