// Stream compaction in one block: iterates over the candidates in row-major order, numbers the
// selected ones, and emits the `row_length` elements of each.
// Integers: the number of candidates; the row length.
// Defined before: SELECTED(index) decides whether a candidate is selected. EMIT(row, at, element)
// writes one element of candidate `at`, which is selected as number `row`. FINISH(count) receives
// the number of selected candidates.
extern "C" __global__ void KERNEL(const StridedArgs args) {
    __shared__ unsigned sums[BLOCK];
    __shared__ u64 candidates[BLOCK];
    const u64 count = (u64)args.integers[0], row_length = (u64)args.integers[1];
    const unsigned thread = threadIdx.x;
    u64 emitted = 0;
    for (u64 base = 0; base < count; base += BLOCK) {
        const u64 index = base + thread;
        const unsigned is_selected = index < count && SELECTED(index);
        sums[thread] = is_selected;
        __syncthreads();
        for (unsigned distance = 1; distance < BLOCK; distance *= 2) {
            const unsigned earlier = thread >= distance ? sums[thread - distance] : 0;
            __syncthreads();
            sums[thread] += earlier;
            __syncthreads();
        }
        const u64 selected = sums[BLOCK - 1];
        if (is_selected) candidates[sums[thread] - 1] = index;
        __syncthreads();
        for (u64 number = thread; number < selected * row_length; number += BLOCK) {
            const u64 row = emitted + number / row_length, at = candidates[number / row_length];
            EMIT(row, at, number % row_length);
        }
        emitted += selected;
        __syncthreads();
    }
    if (thread == 0) FINISH(emitted);
}
