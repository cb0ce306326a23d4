// The common part of the kernels of the negative log likelihood. Iterates over the targets.
// Operands: x or its gradient, the targets, the class weights, the failure flag; then those of the
// kernel.
// Integers: the number of classes; the class stride of the first operand; the bytes of a target;
// the ignored class; whether there are class weights; their stride.
struct Target {
    bool counts;
    u64 at;
    T weight;
};
__device__ inline Target target_of(const StridedArgs& args, const Coordinates& position) {
    Target target;
    const u64 index = offset(args, 1, position, 0, args.rank);
    const long long number = load_index(args, 1, args.integers[2], index);
    target.counts = number != args.integers[3];
    target.weight = 0;
    target.at = 0;
    if (target.counts && (number < 0 || number >= args.integers[0])) {
        fail(args, 3);
        target.counts = false;
    }
    if (target.counts) {
        target.at = offset(args, 0, position, 0, args.rank) + (u64)number * (u64)args.integers[1];
        target.weight = 1;
        if (args.integers[4])
            target.weight = load(DATA(const E, 2) + (u64)number * (u64)args.integers[5]);
    }
    return target;
}
