// The common part of the kernels over an iteration space: the argument block, and offsets of
// elements. `strided.rs` declares the same type in Rust.
struct StridedArgs {
    ArgsHeader header; u64 count; unsigned rank, split; u64 shape[MAX_RANK];
    OperandLayout operand[MAX_OPERANDS]; double scalars[MAX_SCALARS];
    long long integers[MAX_INTEGERS];
};

#define THREAD ((u64)blockIdx.x * blockDim.x + threadIdx.x)
#define THREADS ((u64)gridDim.x * blockDim.x)

// The elements of an operand.
template <class A> struct Data {
    A* first;
    __device__ inline A& operator[](u64 at) const {
        MS_TOUCH(first + at, sizeof(A));
        return first[at];
    }
    __device__ inline A* operator+(u64 at) const { return first + at; }
};
#define DATA(type, k) (Data<type>{(type*)args.operand[k].data})

// The coordinates of element `index` in the dimensions `from..to`.
struct Coordinates { u64 at[MAX_RANK]; };
__device__ inline Coordinates coordinates(
    const StridedArgs& args, u64 index, unsigned from, unsigned to
) {
    Coordinates result;
    for (unsigned dim = to; dim > from;) {
        --dim;
        if (dim == from) {
            result.at[dim] = index;
        } else {
            u64 length = args.shape[dim];
            result.at[dim] = index % length;
            index /= length;
        }
    }
    return result;
}
// The offset of the element at these coordinates in operand k, over the dimensions `from..to`.
__device__ inline u64 offset(
    const StridedArgs& args, unsigned k, const Coordinates& position, unsigned from, unsigned to
) {
    u64 sum = 0;
    for (unsigned dim = from; dim < to; ++dim) {
        sum += position.at[dim] * args.operand[k].strides[dim];
    }
    return sum;
}
// The offset of element `index` of the whole iteration space in operand k.
__device__ inline u64 offset_of(const StridedArgs& args, unsigned k, u64 index) {
    return offset(args, k, coordinates(args, index, 0, args.rank), 0, args.rank);
}
// Loads an integer of `bytes` bytes. A single byte is unsigned.
__device__ inline long long load_index(
    const StridedArgs& args, unsigned k, long long bytes, u64 at
) {
    if (bytes == 8) return DATA(const long long, k)[at];
    if (bytes == 4) return DATA(const int, k)[at];
    return DATA(const unsigned char, k)[at];
}
// Fails the call; operand k is its failure flag.
__device__ inline void fail(const StridedArgs& args, unsigned k) {
    DATA(volatile u64, k)[0] = 1;
}
