// The product of integers. Each thread sums one element in unsigned words, whose wrapping agrees
// with the wrapping of all narrower integers.
// Operands: x, y, the bias, the result. Integers: alpha, beta, the strides of x and y along the
// summed dimension, and its length.
extern "C" __global__ void KERNEL(const StridedArgs args) {
    const u64 alpha = (u64)args.integers[0], beta = (u64)args.integers[1];
    const u64 x_step = (u64)args.integers[2], y_step = (u64)args.integers[3];
    const u64 length = (u64)args.integers[4];
    for (u64 index = THREAD; index < args.count; index += THREADS) {
        const u64 x = offset_of(args, 0, index), y = offset_of(args, 1, index);
        u64 sum = 0;
        for (u64 k = 0; k < length; ++k)
            sum += (u64)load(DATA(const E, 0) + (x + k * x_step))
                * (u64)load(DATA(const E, 1) + (y + k * y_step));
        sum *= alpha;
        if (beta != 0) sum += beta * (u64)load(DATA(const E, 2) + offset_of(args, 2, index));
        store(DATA(E, 3) + offset_of(args, 3, index), (i64)sum);
    }
}
