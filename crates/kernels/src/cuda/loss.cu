// Before this stand INPUTS, how many operands a loss is of, and FUNCTION, of x[0] and so on, a and b.
// Operands: those, the results or the sums of parts, the word of failure.
// Integers: which inputs are left out, bit by bit, and count as 1.
#define OUT INPUTS
#define FAIL (INPUTS + 1)
__device__ inline T greater(T a, T b) { return a > b || a != a ? a : b; }
__device__ inline T loss_of(const Walk& walk, const Coordinates& here) {
    const T a = (T)walk.numbers[0], b = (T)walk.numbers[1];
    T x[INPUTS];
    for (unsigned k = 0; k < INPUTS; ++k) {
        x[k] = 1;
        if (!(walk.integers[0] >> k & 1))
            x[k] = load(DATA(const E, k) + distance(walk, k, here, 0, walk.rank));
    }
    (void)a; (void)b;
    return (T)(FUNCTION);
}
