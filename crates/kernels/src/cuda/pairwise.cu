// Pairwise sums in the order of the host's kernels: leaves of LEAF elements are added in eight
// interleaved sums, and leaves are combined as a binary counter carries.
#define LEAF 256
#define LEAVES (BLOCK / 8)
struct Pairwise {
    T slots[56];
    int used;
    u64 count;
    __device__ inline Pairwise() : used(0), count(0) {}
    __device__ inline void push(T value) {
        for (u64 rest = count; rest & 1; rest >>= 1) value = slots[--used] + value;
        slots[used++] = value;
        ++count;
    }
    __device__ inline T total() const {
        if (used == 0) return 0;
        T sum = slots[used - 1];
        for (int k = used - 2; k >= 0; --k) sum = slots[k] + sum;
        return sum;
    }
};
__device__ inline T leaf_of(const T* lanes) {
    return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3]))
        + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}
