// Sets elements to 0 at random and scales the rest.
// Operands: x, the result, the mask, and the offset, if it is a tensor, or the mask.
// Integers: the seed; the offset; whether the offset is a tensor.
// Scalars: the probability that an element is kept; the scale.
extern "C" __global__ void KERNEL(const StridedArgs args) {
    const u64 seed = (u64)args.integers[0];
    const u64 draw = args.integers[2] ? (u64)DATA(const i64, 3)[0] : (u64)args.integers[1];
    const T scale = (T)args.scalars[1];
    for (u64 index = THREAD; index < args.count; index += THREADS) {
        Coordinates position = coordinates(args, index, 0, args.rank);
        const RandomWords words = random_words(index / 4, draw, seed);
        const bool kept = is_below(words.at[index % 4], args.scalars[0]);
        const T x = (T)load(DATA(const E, 0) + offset(args, 0, position, 0, args.rank));
        store(DATA(E, 1) + offset(args, 1, position, 0, args.rank), x * (T)kept * scale);
        store(DATA(boolean, 2) + offset(args, 2, position, 0, args.rank), (i64)kept);
    }
}
