// The function of one loss.
// Defined before: INPUTS, the number of inputs, and FUNCTION, an expression in x[0], x[1], ..., a
// and b.
// Operands: the inputs, the losses or the sums of parts, the failure flag.
// Integers: a bit mask of the absent inputs, which count as 1.
#define OUT INPUTS
#define FAILURE (INPUTS + 1)
__device__ inline T greater(T a, T b) { return a > b || a != a ? a : b; }
__device__ inline T loss_of(const StridedArgs& args, const Coordinates& position) {
    const T a = (T)args.scalars[0], b = (T)args.scalars[1];
    T x[INPUTS];
    for (unsigned k = 0; k < INPUTS; ++k) {
        x[k] = 1;
        if (!(args.integers[0] >> k & 1))
            x[k] = load(DATA(const E, k) + offset(args, k, position, 0, args.rank));
    }
    (void)a; (void)b;
    return (T)(FUNCTION);
}
