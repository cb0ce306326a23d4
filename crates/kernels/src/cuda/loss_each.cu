// Writes the loss of each element.
extern "C" __global__ void KERNEL(const StridedArgs args) {
    for (u64 index = THREAD; index < args.count; index += THREADS) {
        Coordinates position = coordinates(args, index, 0, args.rank);
        store(DATA(E, OUT) + offset(args, OUT, position, 0, args.rank), loss_of(args, position));
    }
}
