// Rotates or reverses x along each dimension.
// Operands: x, the result.
// Integers: the distance of a rotation of all elements as one row; then, for each dimension, the
// index of x that comes first in the result (the later ones follow, then those before it), or -1 to
// reverse the dimension.
extern "C" __global__ void KERNEL(const StridedArgs args) {
    const u64 shift = (u64)args.integers[0];
    for (u64 index = THREAD; index < args.count; index += THREADS) {
        u64 to_rest = index, from_rest = index + shift;
        if (from_rest >= args.count) from_rest -= args.count;
        u64 to = 0, from = 0;
        for (unsigned dim = args.rank; dim > 0;) {
            --dim;
            const u64 length = args.shape[dim];
            const long long start = args.integers[1 + dim];
            to += to_rest % length * args.operand[1].strides[dim];
            u64 at = from_rest % length;
            if (start < 0) at = length - 1 - at;
            else at = at + (u64)start >= length ? at + (u64)start - length : at + (u64)start;
            from += at * args.operand[0].strides[dim];
            to_rest /= length;
            from_rest /= length;
        }
        DATA(E, 1)[to] = DATA(const E, 0)[from];
    }
}
