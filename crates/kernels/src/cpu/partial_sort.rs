//! Partial sorting, with ties broken as in PyTorch on the CPU.
//!
//! PyTorch's `topk` calls the partial sort of the C++ library, or its selection of one element
//! followed by a sort of the elements before it. Neither is stable: the order of equal elements
//! depends on the steps of the algorithms. This module takes the same steps as libstdc++.
//!
//! Sources: `topk_impl_loop` in
//! <https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/TopKImpl.h>; the algorithms
//! of <https://github.com/gcc-mirror/gcc/blob/master/libstdc%2B%2B-v3/include/bits/stl_algo.h> and
//! `stl_heap.h`: introselect, introsort (D. R. Musser, "Introspective sorting and selection
//! algorithms", Software: Practice and Experience 27 (1997)), heap selection.

/// The length up to which insertion sort is used.
const SHORT: usize = 16;

/// Moves the first `count` elements of a row by `less` to its front, in order. If `sorted` is
/// false, their order is unspecified.
pub(crate) fn partial_sort<T: Copy>(
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

/// Returns the limit of partitionings before heapsort takes over: twice the logarithm of the
/// length.
fn depth(length: usize) -> usize {
    2 * length.checked_ilog2().unwrap_or(0) as usize
}

/// Introselect: moves the element of rank `at` to position `at`, with no lesser element after it.
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
    introsort_loop(row, depth(row.len()), less);
    let (short, _) = row.split_at_mut(row.len().min(SHORT));
    insert_all(short, less);
    for at in SHORT..row.len() {
        insert(row, at, less);
    }
}

/// Partitions a row into stretches of at most [`SHORT`] elements, each in its final range.
fn introsort_loop<T: Copy>(mut row: &mut [T], mut left: usize, less: &impl Fn(&T, &T) -> bool) {
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
        introsort_loop(back, left, less);
        row = front;
    }
}

/// Partitions a row of more than three elements by the median of its second, middle and last
/// element. No element before the returned position is greater than any after it.
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

/// Insertion sort. An element less than the first moves to the front without further comparisons.
fn insert_all<T: Copy>(row: &mut [T], less: &impl Fn(&T, &T) -> bool) {
    for at in 1..row.len() {
        if less(&row[at], &row[0]) {
            row[..=at].rotate_right(1);
        } else {
            insert(row, at, less);
        }
    }
}

/// Moves an element towards the front, past all greater elements.
fn insert<T: Copy>(row: &mut [T], at: usize, less: &impl Fn(&T, &T) -> bool) {
    let mut to = at;
    while to > 0 && less(&row[at], &row[to - 1]) {
        to -= 1;
    }
    row[to..=at].rotate_right(1);
}

/// Moves the least `count` elements of a row to its front, as a heap.
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

/// Sorts a heap in place.
fn sort_heap<T: Copy>(heap: &mut [T], less: &impl Fn(&T, &T) -> bool) {
    for last in (1..heap.len()).rev() {
        let value = heap[last];
        heap[last] = heap[0];
        sift(&mut heap[..last], 0, value, less);
    }
}

/// Fills a hole in a heap: moves the greater children up to a leaf, then moves the value up from
/// the leaf to its position.
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

    /// Returns a row with many equal keys, without randomness.
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
                    partial_sort(&mut row, count, true, |a, b| a.0 < b.0);
                    let got: Vec<usize> = row[..count].iter().map(|r| r.0).collect();
                    assert_eq!(got, expected[..count], "{length} {keys} {count}");
                    let mut positions: Vec<usize> = row.iter().map(|r| r.1).collect();
                    positions.sort_unstable();
                    assert!(positions.into_iter().eq(0..length));
                }
            }
        }
    }

    /// Uses a row on which median-of-three partitioning degenerates.
    #[test]
    fn a_heap_takes_over_where_cuts_do_not_help() {
        let n = 4096usize;
        let killer: Vec<usize> =
            (0..n).map(|i| if i % 2 == 0 { i / 2 } else { n / 2 + i / 2 }).collect();
        for at in [n / 2, n - 1] {
            let mut row = killer.clone();
            partial_sort(&mut row, at + 1, true, |a, b| a < b);
            assert!(row[..at].is_sorted());
        }
    }
}
