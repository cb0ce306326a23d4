// Writes the gradient of each target's class; all other gradients are zero already.
// Operands, from the fifth on: the gradient of the loss, the total weight.
// Integers, from the seventh on: whether the loss was a mean.
extern "C" __global__ void KERNEL(const StridedArgs args) {
    for (u64 index = THREAD; index < args.count; index += THREADS) {
        Coordinates position = coordinates(args, index, 0, args.rank);
        const Target target = target_of(args, position);
        if (!target.counts) continue;
        const T all = args.integers[6] ? (T)load(DATA(const E, 5) + 0) : (T)1;
        const T grad = load(DATA(const E, 4) + offset(args, 4, position, 0, args.rank));
        store(DATA(E, 0) + target.at, -target.weight * grad / all);
    }
}
