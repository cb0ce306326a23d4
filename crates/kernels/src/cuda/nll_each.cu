// Writes the loss of each target. Operands, from the fifth on: the losses.
extern "C" __global__ void KERNEL(const StridedArgs args) {
    for (u64 index = THREAD; index < args.count; index += THREADS) {
        Coordinates position = coordinates(args, index, 0, args.rank);
        const Target target = target_of(args, position);
        T loss = 0;
        if (target.counts) loss = -load(DATA(const E, 0) + target.at) * target.weight;
        store(DATA(E, 4) + offset(args, 4, position, 0, args.rank), loss);
    }
}
