// Operands: x, or the gradient for it, the targets, the weights of the classes, the word of failure;
// then those of the kernel. The walk goes over the targets.
// Integers: the classes, the stride of the first operand from one to the next, the bytes of a target,
// the class that does not count, whether there are weights, and their stride.
struct Target {
    bool counts;
    u64 at;
    T weight;
};
__device__ inline Target target_of(const Walk& walk, const Coordinates& here) {
    Target target;
    const u64 index = distance(walk, 1, here, 0, walk.rank);
    const long long number = whole(walk, 1, walk.integers[2], index);
    target.counts = number != walk.integers[3];
    target.weight = 0;
    target.at = 0;
    if (target.counts && (number < 0 || number >= walk.integers[0])) {
        fail(walk, 3);
        target.counts = false;
    }
    if (target.counts) {
        target.at = distance(walk, 0, here, 0, walk.rank) + (u64)number * (u64)walk.integers[1];
        target.weight = 1;
        if (walk.integers[4])
            target.weight = load(DATA(const E, 2) + (u64)number * (u64)walk.integers[5]);
    }
    return target;
}
