// Goes through what is to be chosen from in row-major order, in one block: notes which elements are
// chosen, numbers them, and does something with each of the `rest` elements behind one.
// Before this stand CHOSEN(index), whether an element is, and EACH(row, at, within), what is done with
// element `within` of the chosen one at `at`, the one numbered `row`.
extern "C" __global__ void KERNEL(const Walk walk) {
    __shared__ unsigned sums[BLOCK];
    __shared__ u64 places[BLOCK];
    const u64 all = (u64)walk.integers[0], rest = (u64)walk.integers[1];
    const unsigned thread = threadIdx.x;
    u64 found = 0;
    for (u64 base = 0; base < all; base += BLOCK) {
        const u64 index = base + thread;
        const unsigned chosen = index < all && CHOSEN(index);
        sums[thread] = chosen;
        __syncthreads();
        for (unsigned apart = 1; apart < BLOCK; apart *= 2) {
            const unsigned before = thread >= apart ? sums[thread - apart] : 0;
            __syncthreads();
            sums[thread] += before;
            __syncthreads();
        }
        const u64 together = sums[BLOCK - 1];
        if (chosen) places[sums[thread] - 1] = index;
        __syncthreads();
        for (u64 number = thread; number < together * rest; number += BLOCK) {
            const u64 row = found + number / rest, at = places[number / rest];
            EACH(row, at, number % rest);
        }
        found += together;
        __syncthreads();
    }
    if (thread == 0) END(found);
}
