// The elements of x in another place along each dimension.
// Operands: x, the result. Integers: how far elements are moved as if all were one row; then for each
// dimension the first element, after which the others follow and those before it at the end, or -1 to
// read it backwards.
extern "C" __global__ void KERNEL(const Walk walk) {
    const u64 shift = (u64)walk.integers[0];
    for (u64 index = THREAD; index < walk.count; index += THREADS) {
        u64 to_rest = index, from_rest = index + shift;
        if (from_rest >= walk.count) from_rest -= walk.count;
        u64 to = 0, from = 0;
        for (unsigned dim = walk.rank; dim > 0;) {
            --dim;
            const u64 length = walk.shape[dim];
            const long long start = walk.integers[1 + dim];
            to += to_rest % length * walk.operand[1].strides[dim];
            u64 at = from_rest % length;
            if (start < 0) at = length - 1 - at;
            else at = at + (u64)start >= length ? at + (u64)start - length : at + (u64)start;
            from += at * walk.operand[0].strides[dim];
            to_rest /= length;
            from_rest /= length;
        }
        DATA(E, 1)[to] = DATA(const E, 0)[from];
    }
}
