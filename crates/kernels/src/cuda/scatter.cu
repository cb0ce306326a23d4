// Scatters values to elements of x: replaces each element, or combines it with the value. Values
// that address one element are applied in their row-major order. The dimensions after the split
// form lines of values, and two lines never address the same element of x. Several threads share a
// line: each reads all of its indices, and writes only the elements of x that belong to it.
// Operands: x, the values, the failure flag, the indices.
// Integers: the number of indices; whether negative indices count from the end; the threads of a
// line; the length of a line; a scalar for COMBINE; for each index its bytes, the length of its
// dimension, and the stride of x along that dimension.
// Defined before: COMBINE, which applies element `from` of the values to element `to` of x.
__device__ inline float scaled_sum(const StridedArgs& args, float a, float b) {
    return a + (float)args.scalars[0] * b;
}
__device__ inline double scaled_sum(const StridedArgs& args, double a, double b) {
    return a + args.scalars[0] * b;
}
__device__ inline long long scaled_sum(const StridedArgs& args, long long a, long long b) {
    return (long long)((u64)a + (u64)args.integers[4] * (u64)b);
}
__device__ inline float product(float a, float b) { return a * b; }
__device__ inline double product(double a, double b) { return a * b; }
__device__ inline long long product(long long a, long long b) { return (long long)((u64)a * (u64)b); }
// NaN if either is NaN.
__device__ inline T greatest(T a, T b) { return a > b || a != a ? a : b; }
__device__ inline T least(T a, T b) { return a < b || a != a ? a : b; }
extern "C" __global__ void KERNEL(const StridedArgs args) {
    const u64 threads = (u64)args.integers[2], length = (u64)args.integers[3];
    const u64 lines = args.count / threads;
    for (u64 number = THREAD; number < args.count; number += THREADS) {
        const u64 line = number % lines, thread = number / lines;
        Coordinates position = coordinates(args, line, 0, args.split);
        const u64 x_start = offset(args, 0, position, 0, args.split);
        const u64 value_start = offset(args, 1, position, 0, args.split);
        for (u64 step = 0; step < length; ++step) {
            Coordinates along = coordinates(args, step, args.split, args.rank);
            u64 to = x_start, element = 0;
            bool in_range = true;
            for (long long k = 0; k < args.integers[0]; ++k) {
                const long long* index_info = args.integers + 5 + 3 * k;
                unsigned operand = (unsigned)(3 + k);
                u64 index = offset(args, operand, position, 0, args.split)
                    + offset(args, operand, along, args.split, args.rank);
                long long at = load_index(args, operand, index_info[0], index);
                if (at < 0 && args.integers[1]) at += index_info[1];
                in_range = in_range && at >= 0 && at < index_info[1];
                element = element * (u64)index_info[1] + (u64)at;
                to += (u64)at * (u64)index_info[2];
            }
            if (!in_range) {
                fail(args, 2);
            } else if (element % threads == thread) {
                u64 from = value_start + offset(args, 1, along, args.split, args.rank);
                COMBINE;
            }
        }
    }
}
