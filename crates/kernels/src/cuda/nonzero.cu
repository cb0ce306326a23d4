// Operands: x, the rows of coordinates, their number.
#define CHOSEN(index) (load(DATA(const E, 0) + place(walk, 0, index)) != 0)
#define EACH(row, from, dim) \
    DATA(long long, 1)[(row) * rest + (dim)] = \
        (long long)coordinates(walk, from, 0, walk.rank).at[dim]
#define END(found) DATA(long long, 2)[0] = (long long)(found)
