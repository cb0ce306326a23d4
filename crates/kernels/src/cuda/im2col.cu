// Unfolds images. Each thread writes the part of a column that belongs to one channel.
extern "C" __global__ void KERNEL(const StridedArgs args) {
    for (u64 index = THREAD; index < args.count; index += THREADS) {
        const u64 within = index % POSITIONS, rest = index / POSITIONS;
        const u64 channel = rest % CHANNELS, number = rest / CHANNELS;
        const u64 position = FIRST + within;
        const u64 l = position % MAP(2), j = position / MAP(2) % MAP(1);
        const u64 i = position / MAP(2) / MAP(1);
        const u64 from = offset(args, 0, coordinates(args, rest, 0, 3), 0, 3);
        u64 to = number * STEP + channel * WINDOW_SIZE * ROW + within;
        for (u64 a = 0; a < WINDOW(0); ++a) {
            // In the padding before the image, these wrap to more than its length.
            const u64 x = i * STRIDE(0) + a * DILATION(0) - PADDING(0);
            for (u64 b = 0; b < WINDOW(1); ++b) {
                const u64 y = j * STRIDE(1) + b * DILATION(1) - PADDING(1);
                for (u64 c = 0; c < WINDOW(2); ++c) {
                    const u64 z = l * STRIDE(2) + c * DILATION(2) - PADDING(2);
                    E value = 0;
                    if (x < IMAGE(0) && y < IMAGE(1) && z < IMAGE(2))
                        value = DATA(const E, 0)[from + x * IMAGE_STRIDE(0) + y * IMAGE_STRIDE(1)
                            + z * IMAGE_STRIDE(2)];
                    DATA(E, 1)[to] = value;
                    to += ROW;
                }
            }
        }
    }
}
