// Gathers elements of x: each element of the result reads x at the offset that its own coordinates
// and all indices give. Each index adds its value times the stride of one dimension of x.
// Operands: x, the result, the failure flag, the indices.
// Integers: the number of indices; whether negative indices count from the end; for each index its
// bytes, the length of its dimension, and the stride of x along that dimension.
extern "C" __global__ void KERNEL(const StridedArgs args) {
    for (u64 index = THREAD; index < args.count; index += THREADS) {
        Coordinates position = coordinates(args, index, 0, args.rank);
        u64 from = offset(args, 0, position, 0, args.rank);
        bool in_range = true;
        for (long long k = 0; k < args.integers[0]; ++k) {
            const long long* index_info = args.integers + 2 + 3 * k;
            unsigned operand = (unsigned)(3 + k);
            const u64 entry = offset(args, operand, position, 0, args.rank);
            long long at = load_index(args, operand, index_info[0], entry);
            if (at < 0 && args.integers[1]) at += index_info[1];
            in_range = in_range && at >= 0 && at < index_info[1];
            from += (u64)at * (u64)index_info[2];
        }
        E value = 0;
        if (in_range) value = DATA(const E, 0)[from];
        else fail(args, 2);
        DATA(E, 1)[offset(args, 1, position, 0, args.rank)] = value;
    }
}
