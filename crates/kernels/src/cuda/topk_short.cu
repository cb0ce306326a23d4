// The first elements of each short line in sorted order, with ties in the order of PyTorch. One
// thread per line executes the steps of the host's kernel, which cites the sources.
// Operands and integers are those of `topk.cu`.
#define MAX_LENGTH 1024
#define SHORT 16

struct Line {
    const E* x;
    u64 step;
    bool descending;
    // The indices of the line's elements.
    unsigned short at[MAX_LENGTH];
};
__device__ inline bool less(T a, T b) { return a < b || (a == a && b != b); }
__device__ inline bool before(const Line& line, unsigned short a, unsigned short b) {
    const T first = load(line.x + a * line.step), second = load(line.x + b * line.step);
    return line.descending ? less(second, first) : less(first, second);
}
__device__ inline void swap(Line& line, unsigned a, unsigned b) {
    const unsigned short first = line.at[a];
    line.at[a] = line.at[b];
    line.at[b] = first;
}
// The number of partitions before a heap takes over: twice the binary logarithm of the length.
__device__ inline int depth(unsigned length) {
    int logarithm = 0;
    while (length > 1) {
        length /= 2;
        ++logarithm;
    }
    return 2 * logarithm;
}
// Moves the element at `to` to `from`, and the elements from `from` on up by one.
__device__ inline void rotate(Line& line, unsigned from, unsigned to) {
    const unsigned short last = line.at[to];
    for (unsigned k = to; k > from; --k) line.at[k] = line.at[k - 1];
    line.at[from] = last;
}
// Moves an element towards `from`, past all greater elements.
__device__ inline void insert(Line& line, unsigned from, unsigned at) {
    unsigned to = at;
    while (to > from && before(line, line.at[at], line.at[to - 1])) --to;
    rotate(line, to, at);
}
// Sorts a range by insertion. An element less than the first one goes directly to the front.
__device__ inline void insert_all(Line& line, unsigned from, unsigned to) {
    for (unsigned at = from + 1; at < to; ++at) {
        if (before(line, line.at[at], line.at[from])) rotate(line, from, at);
        else insert(line, from, at);
    }
}
// Fills a hole in a heap: moves greater children up into the hole, then sifts the value up.
__device__ inline void sift(
    Line& line, unsigned from, unsigned count, unsigned hole, unsigned short value
) {
    const unsigned top = hole;
    unsigned short* heap = line.at + from;
    while (2 * hole + 2 < count) {
        const unsigned right = 2 * hole + 2;
        const unsigned child = before(line, heap[right], heap[right - 1]) ? right - 1 : right;
        heap[hole] = heap[child];
        hole = child;
    }
    if (2 * hole + 2 == count) {
        heap[hole] = heap[count - 1];
        hole = count - 1;
    }
    while (hole > top && before(line, heap[(hole - 1) / 2], value)) {
        heap[hole] = heap[(hole - 1) / 2];
        hole = (hole - 1) / 2;
    }
    heap[hole] = value;
}
// Selects the first `count` elements of a range in sorted order, and leaves them as a heap.
__device__ inline void heap_select(Line& line, unsigned from, unsigned count, unsigned to) {
    for (unsigned parent = count / 2; parent > 0; --parent)
        sift(line, from, count, parent - 1, line.at[from + parent - 1]);
    for (unsigned other = from + count; other < to; ++other) {
        if (!before(line, line.at[other], line.at[from])) continue;
        const unsigned short value = line.at[other];
        line.at[other] = line.at[from];
        sift(line, from, count, 0, value);
    }
}
// Sorts a heap.
__device__ inline void sort_heap(Line& line, unsigned from, unsigned count) {
    for (unsigned last = count; last > 1; --last) {
        const unsigned short value = line.at[from + last - 1];
        line.at[from + last - 1] = line.at[from];
        sift(line, from, last - 1, 0, value);
    }
}
// Partitions a range of more than three elements by the median of its second, middle and last one.
__device__ inline unsigned partition(Line& line, unsigned from, unsigned to) {
    const unsigned a = from + 1, b = from + (to - from) / 2, c = to - 1;
    unsigned median;
    if (before(line, line.at[a], line.at[b])) {
        if (before(line, line.at[b], line.at[c])) median = b;
        else median = before(line, line.at[a], line.at[c]) ? c : a;
    } else {
        if (before(line, line.at[a], line.at[c])) median = a;
        else median = before(line, line.at[b], line.at[c]) ? c : b;
    }
    swap(line, from, median);
    const unsigned short pivot = line.at[from];
    unsigned low = from + 1, high = to;
    while (true) {
        while (before(line, line.at[low], pivot)) ++low;
        --high;
        while (before(line, pivot, line.at[high])) --high;
        if (low >= high) return low;
        swap(line, low, high);
        ++low;
    }
}
// Places the element that belongs at `at`, with no lesser element after it.
__device__ inline void select(Line& line, unsigned at, unsigned length) {
    unsigned from = 0, to = length;
    for (int left = depth(length); to - from > 3; --left) {
        if (left == 0) {
            heap_select(line, from, at + 1 - from, to);
            swap(line, from, at);
            return;
        }
        const unsigned cut = partition(line, from, to);
        if (cut <= at) from = cut;
        else to = cut;
    }
    insert_all(line, from, to);
}
// Sorts the first `length` elements: partitions them into short ranges that are ordered among each
// other, then sorts by insertion.
__device__ inline void sort(Line& line, unsigned length) {
    unsigned starts[32], ends[32];
    int lefts[32], waiting = 1;
    starts[0] = 0;
    ends[0] = length;
    lefts[0] = depth(length);
    while (waiting > 0) {
        --waiting;
        const unsigned from = starts[waiting];
        unsigned to = ends[waiting];
        int left = lefts[waiting];
        while (to - from > SHORT) {
            if (left == 0) {
                heap_select(line, from, to - from, to);
                sort_heap(line, from, to - from);
                break;
            }
            --left;
            const unsigned cut = partition(line, from, to);
            starts[waiting] = cut;
            ends[waiting] = to;
            lefts[waiting] = left;
            ++waiting;
            to = cut;
        }
    }
    insert_all(line, 0, length < SHORT ? length : SHORT);
    for (unsigned at = SHORT; at < length; ++at) insert(line, 0, at);
}
extern "C" __global__ void KERNEL(const StridedArgs args) {
    const unsigned length = (unsigned)args.integers[0], wanted = (unsigned)args.integers[1];
    Line line;
    line.step = (u64)args.integers[2];
    line.descending = args.integers[5] != 0;
    for (u64 index = THREAD; index < args.count; index += THREADS) {
        Coordinates position = coordinates(args, index, 0, args.rank);
        line.x = DATA(const E, 0) + offset(args, 0, position, 0, args.rank);
        for (unsigned k = 0; k < length; ++k) line.at[k] = (unsigned short)k;
        if (wanted * 64 <= length) {
            heap_select(line, 0, wanted, length);
            sort_heap(line, 0, wanted);
        } else {
            select(line, wanted - 1, length);
            sort(line, wanted - 1);
        }
        const u64 values = offset(args, 1, position, 0, args.rank);
        const u64 indices = offset(args, 2, position, 0, args.rank);
        for (unsigned k = 0; k < wanted; ++k) {
            DATA(E, 1)[values + k * (u64)args.integers[3]] = line.x[line.at[k] * line.step];
            DATA(long long, 2)[indices + k * (u64)args.integers[4]] = line.at[k];
        }
    }
}
