// Puts the places of each line in the order of its elements by a bitonic network, whose comparisons
// all point the same way, so that what would lie behind a line's end never moves. Of equal elements
// the one with the lower place comes first, so that the order is the only one there is.
// Source: K. E. Batcher, "Sorting networks and their applications", AFIPS 1968; in the form whose
// merges begin with mirrored places.
// Operands: x, the places, neither of which moves along the line. Integers: the length of a line, the
// strides of both along it, whether the greatest come first; for one step of the network alone, the
// length of a merge, and how far apart is compared, zero for mirrored places.
struct Line {
    const E* x;
    long long* places;
    u64 length, x_step, step;
    bool descending;
};
__device__ inline Line line_of(const Walk& walk, u64 number) {
    Coordinates here = coordinates(walk, number, 0, walk.rank);
    Line line;
    line.x = DATA(const E, 0) + distance(walk, 0, here, 0, walk.rank);
    line.places = DATA(long long, 1) + distance(walk, 1, here, 0, walk.rank);
    line.length = (u64)walk.integers[0];
    line.x_step = (u64)walk.integers[1];
    line.step = (u64)walk.integers[2];
    line.descending = walk.integers[3] != 0;
    return line;
}
// What is not a number is greater than all else.
__device__ inline bool less(T a, T b) { return a < b || (a == a && b != b); }
// Brings one pair of a step in order: pair `number` of those of places `apart`, or mirrored in a merge.
__device__ inline void compare(const Line& line, u64 merge, u64 apart, u64 number) {
    u64 low, high;
    if (apart == 0) {
        const u64 half = merge / 2, start = number / half * merge, within = number % half;
        low = start + within;
        high = start + merge - 1 - within;
    } else {
        low = number / apart * 2 * apart + number % apart;
        high = low + apart;
    }
    if (high >= line.length) return;
    const long long first = line.places[low * line.step], second = line.places[high * line.step];
    T a = load(line.x + (u64)first * line.x_step), b = load(line.x + (u64)second * line.x_step);
    const bool ordered = line.descending ? less(b, a) : less(a, b);
    const bool turned = line.descending ? less(a, b) : less(b, a);
    if (turned || (!ordered && second < first)) {
        line.places[low * line.step] = second;
        line.places[high * line.step] = first;
    }
}
