// Operands: x, the mask, the values, the word of failure. The mask covers the dimensions before the
// split. Integers, from the third on: the stride of the values' rows, and how many they have, -1
// where one row stands for all.
#define CHOSEN(index) \
    (load(DATA(const boolean, 1) + distance(walk, 1, coordinates(walk, index, 0, walk.split), 0, walk.split)) != 0)
#define EACH(row, to, within) \
    if (walk.integers[3] >= 0 && (row) >= (u64)walk.integers[3]) break; \
    Coordinates outer = coordinates(walk, to, 0, walk.split); \
    Coordinates inner = coordinates(walk, within, walk.split, walk.rank); \
    DATA(E, 0)[distance(walk, 0, outer, 0, walk.split) \
        + distance(walk, 0, inner, walk.split, walk.rank)] = \
        DATA(const E, 2)[(row) * (u64)walk.integers[2] \
            + distance(walk, 2, inner, walk.split, walk.rank)]
#define END(found) if (walk.integers[3] >= 0 && (found) != (u64)walk.integers[3]) fail(walk, 3)
