// Folds columns. Each thread sums one element of an image, in the order of the kernel positions.
// Columns have the type that floats are computed in; integers wrap in their own.
// A third operand is a bias for each channel.
template <class A> struct Column { typedef A type; };
template <> struct Column<f16> { typedef float type; };
template <> struct Column<bf16> { typedef float type; };
// Whether the kernel position `tap` reads `position` of the image for some `output` position.
__device__ inline bool taps(
    const StridedArgs& args, int k, u64 position, u64 tap, u64& output
) {
    const u64 shifted = position + PADDING(k), shift = tap * DILATION(k);
    if (shifted < shift) return false;
    output = (shifted - shift) / STRIDE(k);
    return output * STRIDE(k) == shifted - shift && output < MAP(k);
}
extern "C" __global__ void KERNEL(const StridedArgs args) {
    for (u64 index = THREAD; index < args.count; index += THREADS) {
        const Coordinates position = coordinates(args, index, 0, 6);
        const u64 channel = position.at[1] * args.shape[2] + position.at[2];
        const u64 from = position.at[0] * STEP + channel * WINDOW_SIZE * ROW;
        T sum = 0;
        for (u64 a = 0; a < WINDOW(0); ++a) {
            u64 i;
            if (!taps(args, 0, position.at[3], a, i)) continue;
            for (u64 b = 0; b < WINDOW(1); ++b) {
                u64 j;
                if (!taps(args, 1, position.at[4], b, j)) continue;
                for (u64 c = 0; c < WINDOW(2); ++c) {
                    u64 l;
                    if (!taps(args, 2, position.at[5], c, l)) continue;
                    const u64 row = (a * WINDOW(1) + b) * WINDOW(2) + c;
                    const u64 at = (i * MAP(1) + j) * MAP(2) + l;
                    sum += (T)load(DATA(const Column<E>::type, 1) + (from + row * ROW + at));
                }
            }
        }
        if (args.header.operands > 2)
            sum += (T)load(DATA(const E, 2) + offset(args, 2, position, 0, 6));
        store(DATA(E, 0) + offset(args, 0, position, 0, 6), sum);
    }
}
