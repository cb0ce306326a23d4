//! The first elements of a row in order, with ties in the order in which PyTorch leaves them.
//!
//! PyTorch's `topk` hands a row to the C++ library's partial sort, or to its selection of one
//! element followed by a sort of what lies before it. Neither is stable, so which of two equal
//! elements comes first depends on the steps of those algorithms. These are the same steps, as
//! libstdc++ takes them.
//!
//! Sources: `topk_impl_loop` in
//! <https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/TopKImpl.h>; the algorithms of
//! <https://github.com/gcc-mirror/gcc/blob/master/libstdc%2B%2B-v3/include/bits/stl_algo.h> and
//! `stl_heap.h`: introselect, introsort (D. R. Musser, "Introspective sorting and selection
//! algorithms", Software: Practice and Experience 27 (1997)), heap selection.

/// Rows up to this length are sorted by insertion.
const SHORT: usize = 16;

/// Brings the first `count` of a row to its front, in order by `less`. `sorted` may be false where
/// their order does not matter.
pub(crate) fn first<T: Copy>(
    row: &mut [T],
    count: usize,
    sorted: bool,
    less: impl Fn(&T, &T) -> bool,
) {
    let less = &less;
    if count == 0 {
        return;
    }
    if count * 64 <= row.len() {
        heap_select(row, count, less);
        sort_heap(&mut row[..count], less);
        return;
    }
    select(row, count - 1, less);
    if sorted {
        sort(&mut row[..count - 1], less);
    }
}

/// Twice the logarithm of a length: so often a row is cut before a heap takes over.
fn depth(length: usize) -> usize {
    2 * length.checked_ilog2().unwrap_or(0) as usize
}

/// Brings the element that belongs at `at` there, with none after it that is less.
fn select<T: Copy>(row: &mut [T], at: usize, less: &impl Fn(&T, &T) -> bool) {
    let (mut from, mut to) = (0, row.len());
    if from == to || at == to {
        return;
    }
    let mut left = depth(row.len());
    while to - from > 3 {
        if left == 0 {
            heap_select(&mut row[from..to], at + 1 - from, less);
            row.swap(from, at);
            return;
        }
        left -= 1;
        let cut = from + partition(&mut row[from..to], less);
        if cut <= at {
            from = cut;
        } else {
            to = cut;
        }
    }
    insert_all(&mut row[from..to], less);
}

/// Sorts a row.
fn sort<T: Copy>(row: &mut [T], less: &impl Fn(&T, &T) -> bool) {
    cut(row, depth(row.len()), less);
    let (short, _) = row.split_at_mut(row.len().min(SHORT));
    insert_all(short, less);
    for at in SHORT..row.len() {
        insert(row, at, less);
    }
}

/// Cuts a row into stretches of at most [`SHORT`], none of whose elements belongs into another.
fn cut<T: Copy>(mut row: &mut [T], mut left: usize, less: &impl Fn(&T, &T) -> bool) {
    while row.len() > SHORT {
        if left == 0 {
            let all = row.len();
            heap_select(row, all, less);
            sort_heap(row, less);
            return;
        }
        left -= 1;
        let at = partition(row, less);
        let (front, back) = row.split_at_mut(at);
        cut(back, left, less);
        row = front;
    }
}

/// Cuts a row of more than three by the median of its second, middle and last element: none before
/// the place returned is greater than any after it.
fn partition<T: Copy>(row: &mut [T], less: &impl Fn(&T, &T) -> bool) -> usize {
    let (a, b, c) = (1, row.len() / 2, row.len() - 1);
    let median = if less(&row[a], &row[b]) {
        if less(&row[b], &row[c]) {
            b
        } else if less(&row[a], &row[c]) {
            c
        } else {
            a
        }
    } else if less(&row[a], &row[c]) {
        a
    } else if less(&row[b], &row[c]) {
        c
    } else {
        b
    };
    row.swap(0, median);
    let pivot = row[0];
    let (mut low, mut high) = (1, row.len());
    loop {
        while less(&row[low], &pivot) {
            low += 1;
        }
        high -= 1;
        while less(&pivot, &row[high]) {
            high -= 1;
        }
        if low >= high {
            return low;
        }
        row.swap(low, high);
        low += 1;
    }
}

/// Sorts by insertion; an element less than the first goes to the front at once.
fn insert_all<T: Copy>(row: &mut [T], less: &impl Fn(&T, &T) -> bool) {
    for at in 1..row.len() {
        if less(&row[at], &row[0]) {
            row[..=at].rotate_right(1);
        } else {
            insert(row, at, less);
        }
    }
}

/// Moves an element towards the front, past all that it is less than.
fn insert<T: Copy>(row: &mut [T], at: usize, less: &impl Fn(&T, &T) -> bool) {
    let mut to = at;
    while to > 0 && less(&row[at], &row[to - 1]) {
        to -= 1;
    }
    row[to..=at].rotate_right(1);
}

/// Makes the first `count` elements of a row those that belong there, as a heap.
fn heap_select<T: Copy>(row: &mut [T], count: usize, less: &impl Fn(&T, &T) -> bool) {
    let (heap, rest) = row.split_at_mut(count);
    for parent in (0..count / 2).rev() {
        let value = heap[parent];
        sift(heap, parent, value, less);
    }
    for other in rest {
        if less(other, &heap[0]) {
            let value = std::mem::replace(other, heap[0]);
            sift(heap, 0, value, less);
        }
    }
}

/// Makes a heap a sorted row.
fn sort_heap<T: Copy>(heap: &mut [T], less: &impl Fn(&T, &T) -> bool) {
    for last in (1..heap.len()).rev() {
        let value = heap[last];
        heap[last] = heap[0];
        sift(&mut heap[..last], 0, value, less);
    }
}

/// Fills a hole in a heap: greater children move up to it, and the value takes its place from
/// below.
fn sift<T: Copy>(heap: &mut [T], hole: usize, value: T, less: &impl Fn(&T, &T) -> bool) {
    let (top, mut hole) = (hole, hole);
    let count = heap.len();
    while 2 * hole + 2 < count {
        let right = 2 * hole + 2;
        let child = if less(&heap[right], &heap[right - 1]) { right - 1 } else { right };
        heap[hole] = heap[child];
        hole = child;
    }
    if 2 * hole + 2 == count {
        heap[hole] = heap[count - 1];
        hole = count - 1;
    }
    while hole > top && less(&heap[(hole - 1) / 2], &value) {
        heap[hole] = heap[(hole - 1) / 2];
        hole = (hole - 1) / 2;
    }
    heap[hole] = value;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows whose keys tie often, without randomness.
    fn row(length: usize, keys: usize, seed: usize) -> Vec<(usize, usize)> {
        (0..length).map(|k| ((k * 7919 + seed * 104_729 + k * k * 31) % keys, k)).collect()
    }

    #[test]
    fn the_first_are_the_first() {
        for length in [1, 2, 3, 4, 5, 16, 17, 40, 200, 1000] {
            for keys in [1, 2, 5, 1000] {
                for count in [1, 2, length / 64, length / 2, length] {
                    let count = count.clamp(1, length);
                    let mut row = row(length, keys, count);
                    let mut expected: Vec<usize> = row.iter().map(|r| r.0).collect();
                    expected.sort_unstable();
                    first(&mut row, count, true, |a, b| a.0 < b.0);
                    let got: Vec<usize> = row[..count].iter().map(|r| r.0).collect();
                    assert_eq!(got, expected[..count], "{length} {keys} {count}");
                    let mut places: Vec<usize> = row.iter().map(|r| r.1).collect();
                    places.sort_unstable();
                    assert!(places.into_iter().eq(0..length));
                }
            }
        }
    }

    /// A row against which cutting by medians of three does badly ends all the same.
    #[test]
    fn a_heap_takes_over_where_cuts_do_not_help() {
        let n = 4096usize;
        let killer: Vec<usize> =
            (0..n).map(|i| if i % 2 == 0 { i / 2 } else { n / 2 + i / 2 }).collect();
        for at in [n / 2, n - 1] {
            let mut row = killer.clone();
            first(&mut row, at + 1, true, |a, b| a < b);
            assert!(row[..at].is_sorted());
        }
    }
}
