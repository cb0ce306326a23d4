// Writes the coordinates of the nonzero elements of x.
// Operands: x, the rows of coordinates, their number.
#define SELECTED(index) (load(DATA(const E, 0) + offset_of(args, 0, index)) != 0)
#define EMIT(row, from, dim) \
    DATA(long long, 1)[(row) * row_length + (dim)] = \
        (long long)coordinates(args, from, 0, args.rank).at[dim]
#define FINISH(count) DATA(long long, 2)[0] = (long long)(count)
