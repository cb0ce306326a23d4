// What kernels that walk start with: the argument, and places.
struct Walk {
    Head head; u64 count; unsigned rank, split; u64 shape[RANK];
    Operand operand[WALKED]; double numbers[WALK_NUMBERS]; long long integers[WALK_INTEGERS];
};

#define THREAD ((u64)blockIdx.x * blockDim.x + threadIdx.x)
#define THREADS ((u64)gridDim.x * blockDim.x)

// An operand's elements.
template <class A> struct Data {
    A* first;
    __device__ inline A& operator[](u64 at) const {
        MS_TOUCH(first + at, sizeof(A));
        return first[at];
    }
    __device__ inline A* operator+(u64 at) const { return first + at; }
};
#define DATA(type, k) (Data<type>{(type*)walk.operand[k].data})

// The coordinates of element `index` of the dimensions from `from` to before `to`.
struct Coordinates { u64 at[RANK]; };
__device__ inline Coordinates coordinates(const Walk& walk, u64 index, unsigned from, unsigned to) {
    Coordinates found;
    for (unsigned dim = to; dim > from;) {
        --dim;
        if (dim == from) {
            found.at[dim] = index;
        } else {
            u64 length = walk.shape[dim];
            found.at[dim] = index % length;
            index /= length;
        }
    }
    return found;
}
// How far an operand's element at these coordinates is from its first.
__device__ inline u64 distance(
    const Walk& walk, unsigned k, const Coordinates& found, unsigned from, unsigned to
) {
    u64 sum = 0;
    for (unsigned dim = from; dim < to; ++dim) sum += found.at[dim] * walk.operand[k].strides[dim];
    return sum;
}
// An operand's element number `index` of the whole walk.
__device__ inline u64 place(const Walk& walk, unsigned k, u64 index) {
    return distance(walk, k, coordinates(walk, index, 0, walk.rank), 0, walk.rank);
}
// A whole number of `bytes` bytes; one byte has no sign.
__device__ inline long long whole(const Walk& walk, unsigned k, long long bytes, u64 at) {
    if (bytes == 8) return DATA(const long long, k)[at];
    if (bytes == 4) return DATA(const int, k)[at];
    return DATA(const unsigned char, k)[at];
}
// Says that the call has failed.
__device__ inline void fail(const Walk& walk, unsigned k) {
    DATA(volatile u64, k)[0] = 1;
}
