// Sets elements to 0 at random and scales the rest.
// Operands: x, the result, the mask, and elements of the seed and of the offset, or the mask; for a
// part, what numbers its elements.
// Integers: the seed and the offset, each as a constant and whether an element is added; the number
// of a part's first element, and whether this is a part.
// Scalars: the probability that an element is kept; the scale.
extern "C" __global__ void KERNEL(const StridedArgs args) {
    const u64 seed = NUMBER(3, 0), draw = NUMBER(4, 2);
    const T scale = (T)args.scalars[1];
    for (u64 index = THREAD; index < args.count; index += THREADS) {
        Coordinates position = coordinates(args, index, 0, args.rank);
        const u64 number = ELEMENT_NUMBER(5, 4);
        const RandomWords words = random_words(number / 4, draw, seed);
        const bool kept = is_below(words.at[number % 4], args.scalars[0]);
        const T x = (T)load(DATA(const E, 0) + offset(args, 0, position, 0, args.rank));
        store(DATA(E, 1) + offset(args, 1, position, 0, args.rank), x * (T)kept * scale);
        store(DATA(boolean, 2) + offset(args, 2, position, 0, args.rank), (i64)kept);
    }
}
