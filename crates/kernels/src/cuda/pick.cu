// Each element of the result is the one of x that indices name: all of them along the result's own
// dimensions, and each a step along one of x's.
// Operands: x, the result, the word of failure, the indices.
// Integers: how many indices; whether they count from the end below zero; for each index its bytes,
// the length of its dimension, and x's stride there.
extern "C" __global__ void KERNEL(const Walk walk) {
    for (u64 index = THREAD; index < walk.count; index += THREADS) {
        Coordinates here = coordinates(walk, index, 0, walk.rank);
        u64 from = distance(walk, 0, here, 0, walk.rank);
        bool inside = true;
        for (long long k = 0; k < walk.integers[0]; ++k) {
            const long long* of = walk.integers + 2 + 3 * k;
            unsigned operand = (unsigned)(3 + k);
            long long at = whole(walk, operand, of[0], distance(walk, operand, here, 0, walk.rank));
            if (at < 0 && walk.integers[1]) at += of[1];
            inside = inside && at >= 0 && at < of[1];
            from += (u64)at * (u64)of[2];
        }
        E value = 0;
        if (inside) value = DATA(const E, 0)[from];
        else fail(walk, 2);
        DATA(E, 1)[distance(walk, 1, here, 0, walk.rank)] = value;
    }
}
