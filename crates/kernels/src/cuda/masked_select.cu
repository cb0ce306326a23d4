// Copies what a mask selects to rows of the result. The mask covers the dimensions before the
// split.
// Operands: x, the mask, the result, its number of rows.
// Integers, from the third on: the stride from one row of the result to the next.
#define SELECTED(index) \
    (load(DATA(const boolean, 1) \
        + offset(args, 1, coordinates(args, index, 0, args.split), 0, args.split)) != 0)
#define EMIT(row, from, element) \
    Coordinates outer = coordinates(args, from, 0, args.split); \
    Coordinates inner = coordinates(args, element, args.split, args.rank); \
    DATA(E, 2)[(row) * (u64)args.integers[2] + offset(args, 2, inner, args.split, args.rank)] = \
        DATA(const E, 0)[offset(args, 0, outer, 0, args.split) \
            + offset(args, 0, inner, args.split, args.rank)]
#define FINISH(count) DATA(long long, 3)[0] = (long long)(count)
