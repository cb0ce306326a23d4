// The gradient of an embedding table: each row is the sum of the gradients of the lookups that read
// it, in their order. The thread of the first lookup of a row writes the row; rows without a lookup
// are zero already.
// Operands: the gradient of the lookups, the table's gradient, the failure flag, the indices.
// Integers: the number of lookups; the number of columns; the bytes of an index; the number of
// rows; the two strides of the table; the row that has no gradient; whether to divide by the number
// of lookups of the row.
extern "C" __global__ void KERNEL(const StridedArgs args) {
    const u64 lookups = (u64)args.integers[0], columns = (u64)args.integers[1];
    const long long bytes = args.integers[2], rows = args.integers[3];
#define ROW_OF(lookup) \
    load_index(args, 3, bytes, \
        offset(args, 3, coordinates(args, lookup, 0, args.split), 0, args.split))
    for (u64 number = THREAD; number < args.count; number += THREADS) {
        const u64 first = number / columns, column = number % columns;
        const long long row = ROW_OF(first);
        if (row < 0 || row >= rows) {
            fail(args, 2);
            continue;
        }
        bool done = row == args.integers[6];
        for (u64 other = first; other > 0 && !done; --other) done = ROW_OF(other - 1) == row;
        if (done) continue;
        T factor = 1;
        if (args.integers[7]) {
            u64 uses = 0;
            for (u64 other = first; other < lookups; ++other) uses += ROW_OF(other) == row;
            factor = 1 / (T)uses;
        }
        Coordinates within_row = coordinates(args, column, args.split, args.rank);
        const u64 start = offset(args, 0, within_row, args.split, args.rank);
        T sum = 0;
        for (u64 other = first; other < lookups; ++other) {
            if (ROW_OF(other) != row) continue;
            Coordinates position = coordinates(args, other, 0, args.split);
            const u64 from = start + offset(args, 0, position, 0, args.split);
            sum += load(DATA(const E, 0) + from) * factor;
        }
        const u64 to = (u64)row * (u64)args.integers[4] + column * (u64)args.integers[5];
        store(DATA(E, 1) + to, sum);
    }
}
