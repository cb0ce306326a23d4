// Elements of x that indices name become, or are joined by, values: one after the other, in row-major
// order of the values. Lines of values along the dimensions after the split never meet in x. Within a
// line, each of some threads goes through all of it and sees to the elements of x that are its own.
// Operands: x, the values, the word of failure, the indices.
// Integers: how many indices; whether they count from the end below zero; how many threads a line has;
// how long a line is; a number for the kernel; for each index its bytes, the length of its dimension,
// and x's stride there.
// Before this stands JOIN, what is done with x's element `to` and the values' element `from`.
__device__ inline float joined(const Walk& walk, float a, float b) {
    return a + (float)walk.numbers[0] * b;
}
__device__ inline double joined(const Walk& walk, double a, double b) {
    return a + walk.numbers[0] * b;
}
__device__ inline long long joined(const Walk& walk, long long a, long long b) {
    return (long long)((u64)a + (u64)walk.integers[4] * (u64)b);
}
extern "C" __global__ void KERNEL(const Walk walk) {
    const u64 parts = (u64)walk.integers[2], length = (u64)walk.integers[3];
    const u64 lines = walk.count / parts;
    for (u64 number = THREAD; number < walk.count; number += THREADS) {
        const u64 line = number % lines, part = number / lines;
        Coordinates here = coordinates(walk, line, 0, walk.split);
        const u64 x_start = distance(walk, 0, here, 0, walk.split);
        const u64 value_start = distance(walk, 1, here, 0, walk.split);
        for (u64 step = 0; step < length; ++step) {
            Coordinates along = coordinates(walk, step, walk.split, walk.rank);
            u64 to = x_start, name = 0;
            bool inside = true;
            for (long long k = 0; k < walk.integers[0]; ++k) {
                const long long* of = walk.integers + 5 + 3 * k;
                unsigned operand = (unsigned)(3 + k);
                u64 index = distance(walk, operand, here, 0, walk.split)
                    + distance(walk, operand, along, walk.split, walk.rank);
                long long at = whole(walk, operand, of[0], index);
                if (at < 0 && walk.integers[1]) at += of[1];
                inside = inside && at >= 0 && at < of[1];
                name = name * (u64)of[1] + (u64)at;
                to += (u64)at * (u64)of[2];
            }
            if (!inside) {
                fail(walk, 2);
            } else if (name % parts == part) {
                u64 from = value_start + distance(walk, 1, along, walk.split, walk.rank);
                JOIN;
            }
        }
    }
}
