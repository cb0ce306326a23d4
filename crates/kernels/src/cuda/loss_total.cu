// Adds the sums of the parts and divides the total by the first scalar.
// Operands: the words, the result. Integers: the number of words.
extern "C" __global__ void KERNEL(const StridedArgs args) {
    if (THREAD > 0) return;
    Pairwise sum;
    for (u64 number = 0; number < (u64)args.integers[0]; ++number)
        sum.push(*(const T*)(args.operand[0].data + 8 * number));
    store(DATA(E, 1) + 0, sum.total() / (T)args.scalars[0]);
}
