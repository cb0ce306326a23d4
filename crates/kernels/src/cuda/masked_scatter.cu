// Scatters rows of values to the elements that a mask selects. The mask covers the dimensions
// before the split. Adds the values if ADDS is defined. The order does not matter, because the mask
// selects no element twice.
// Operands: x, the mask, the values, the failure flag.
// Integers, from the third on: the stride from one row of values to the next; the number of rows,
// or -1 if one row is used for all.
#ifdef ADDS
__device__ inline float added(float a, float b) { return a + b; }
__device__ inline double added(double a, double b) { return a + b; }
__device__ inline long long added(long long a, long long b) { return (long long)((u64)a + (u64)b); }
#define WRITE(to, from) store(to, added((T)load(to), (T)load(from)))
#else
#define WRITE(to, from) MS_TOUCH(from, sizeof(E)); MS_TOUCH(to, sizeof(E)); *to = *from
#endif
#define SELECTED(index) \
    (load(DATA(const boolean, 1) \
        + offset(args, 1, coordinates(args, index, 0, args.split), 0, args.split)) != 0)
#define EMIT(row, to, element) \
    if (args.integers[3] >= 0 && (row) >= (u64)args.integers[3]) break; \
    Coordinates outer = coordinates(args, to, 0, args.split); \
    Coordinates inner = coordinates(args, element, args.split, args.rank); \
    E* into = DATA(E, 0) + (offset(args, 0, outer, 0, args.split) \
        + offset(args, 0, inner, args.split, args.rank)); \
    const E* value = DATA(const E, 2) + ((row) * (u64)args.integers[2] \
        + offset(args, 2, inner, args.split, args.rank)); \
    WRITE(into, value)
#define FINISH(count) if (args.integers[3] >= 0 && (count) != (u64)args.integers[3]) fail(args, 3)
