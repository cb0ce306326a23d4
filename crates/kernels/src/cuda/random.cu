// Fills a tensor with random numbers. `random.rs` declares the numbers of the distributions.
// Operands: the result; x, whose elements are the probabilities of `bernoulli`, or the result;
// elements of the seed and of the offset, or the result; for a part, what numbers its elements.
// Integers: the seed and the offset, each as a constant and whether an element is added; the number
// of a part's first element, and whether this is a part; the distribution; the bits of the
// precision of a uniform number; the least integer; their number. Scalars: the bounds, or mean and
// standard deviation, or the rate, or the probability.
extern "C" __global__ void KERNEL(const StridedArgs args) {
    const u64 seed = NUMBER(2, 0), draw = NUMBER(3, 2);
    const i64 kind = args.integers[6], digits = args.integers[7];
    const u64 range = (u64)args.integers[9];
    const double a = args.scalars[0], b = args.scalars[1];
    for (u64 index = THREAD; index < args.count; index += THREADS) {
        Coordinates position = coordinates(args, index, 0, args.rank);
        E* to = DATA(E, 0) + offset(args, 0, position, 0, args.rank);
        const bool by_words = kind == BERNOULLI || kind == BY_ELEMENTS || (kind == UNIFORM && digits);
        const u64 number = ELEMENT_NUMBER(4, 4);
        const RandomWords words = random_words(by_words ? number / 4 : number / 2, draw, seed);
        const unsigned word = words.at[number % 4];
        const u64 x = long_word(words, (unsigned)(number % 2));
        if (kind == UNIFORM) {
            double share = fraction(x);
            if (digits) share = (double)(word >> (32 - digits)) / (double)((u64)1 << digits);
            store(to, a + share * (b - a));
        } else if (kind == NORMAL) {
            const double radius = sqrt(-2 * log(1 - fraction(long_word(words, 0))));
            const double angle = 6.283185307179586477 * fraction(long_word(words, 1));
            store(to, a + radius * (number % 2 ? sin(angle) : cos(angle)) * b);
        } else if (kind == EXPONENTIAL) {
            store(to, -log(1 - fraction(x)) / a);
        } else if (kind == INTEGERS) {
            store(to, (i64)((u64)args.integers[8] + x % range));
        } else if (kind == BERNOULLI) {
            store(to, (i64)is_below(word, a));
        } else {
            const E* from = DATA(const E, 1) + offset(args, 1, position, 0, args.rank);
            store(to, (i64)is_below(word, (double)load(from)));
        }
    }
}
