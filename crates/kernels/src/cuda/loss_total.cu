// The sum of the parts, divided by the first number. Operands: the words, the result. Integers: how many.
extern "C" __global__ void KERNEL(const Walk walk) {
    if (THREAD > 0) return;
    Pairwise sum;
    for (u64 number = 0; number < (u64)walk.integers[0]; ++number)
        sum.push(*(const T*)(walk.operand[0].data + 8 * number));
    store(DATA(E, 1) + 0, sum.total() / (T)walk.numbers[0]);
}
