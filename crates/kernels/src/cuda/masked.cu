// Operands: x, the mask, the result, the number of its rows. The mask covers the dimensions before the
// split. Integers, from the third on: the stride of the result's rows.
#define CHOSEN(index) \
    (load(DATA(const boolean, 1) + distance(walk, 1, coordinates(walk, index, 0, walk.split), 0, walk.split)) != 0)
#define EACH(row, from, within) \
    Coordinates outer = coordinates(walk, from, 0, walk.split); \
    Coordinates inner = coordinates(walk, within, walk.split, walk.rank); \
    DATA(E, 2)[(row) * (u64)walk.integers[2] + distance(walk, 2, inner, walk.split, walk.rank)] = \
        DATA(const E, 0)[distance(walk, 0, outer, 0, walk.split) \
            + distance(walk, 0, inner, walk.split, walk.rank)]
#define END(found) DATA(long long, 3)[0] = (long long)(found)
