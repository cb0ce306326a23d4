// Operands: x, the mask, the values, the word of failure. The mask covers the dimensions before the
// split. Integers, from the third on: the stride of the values' rows, and how many they have, -1
// where one row stands for all.
// Where ADDS is defined values are added. No element is chosen twice: there is no order to keep.
#ifdef ADDS
__device__ inline float added(float a, float b) { return a + b; }
__device__ inline double added(double a, double b) { return a + b; }
__device__ inline long long added(long long a, long long b) { return (long long)((u64)a + (u64)b); }
#define PUT(to, from) store(to, added((T)load(to), (T)load(from)))
#else
#define PUT(to, from) MS_TOUCH(from, sizeof(E)); MS_TOUCH(to, sizeof(E)); *to = *from
#endif
#define CHOSEN(index) \
    (load(DATA(const boolean, 1) + distance(walk, 1, coordinates(walk, index, 0, walk.split), 0, walk.split)) != 0)
#define EACH(row, to, within) \
    if (walk.integers[3] >= 0 && (row) >= (u64)walk.integers[3]) break; \
    Coordinates outer = coordinates(walk, to, 0, walk.split); \
    Coordinates inner = coordinates(walk, within, walk.split, walk.rank); \
    E* into = DATA(E, 0) + (distance(walk, 0, outer, 0, walk.split) \
        + distance(walk, 0, inner, walk.split, walk.rank)); \
    const E* value = DATA(const E, 2) + ((row) * (u64)walk.integers[2] \
        + distance(walk, 2, inner, walk.split, walk.rank)); \
    PUT(into, value)
#define END(found) if (walk.integers[3] >= 0 && (found) != (u64)walk.integers[3]) fail(walk, 3)
