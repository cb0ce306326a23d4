//! The comparison can fail: each mistake here, planted in a kernel's text, is found by the comparison of
//! an op that the kernel computes, and without it nothing is found.

use millstream_cuda_standin::StandIn;

use millstream_gpu_check::ops::{Which, check};

/// Of each kind of kernel: the op, what its text has, and what a mistake would have there.
const MISTAKES: &[(&str, &str, &str)] = &[
    // Elements: the tail after what is moved 16 bytes at a time, a wrong operator, a dimension left out.
    ("add", "index < count; index += step", "index + 1 < count; index += step"),
    ("sub", "plus(x, times(negative(a), y))", "plus(x, times(a, y))"),
    ("mul", "int dim = (int)call.rank - 1; dim >= 0", "int dim = (int)call.rank - 1; dim > 0"),
    // What only the data tell: a divisor.
    ("fmod", "wrong || y == 0", "wrong || false"),
    // Rows: what the last part of a sum holds, the last step of joining, a bias.
    ("sum", "together(join(total, some), s", "together(total, s"),
    ("_softmax", "half > 0; half /= 2", "half > 1; half /= 2"),
    ("native_layer_norm", "* rstd * w + b", "* rstd * w"),
    // Several elements at once: each of them, the last that a thread holds, what stands for all.
    ("mean", "read<T, Via>(xs.at[k])", "read<T, Via>(xs.at[0])"),
    ("_log_softmax", "if (index < end) f(", "if (index + step < end) f("),
    ("native_batch_norm", "all.at[k] = one.at[0]", "all.at[k] = Pack<E, 1>().at[0]"),
    // Parts of rows: the last one.
    (
        "native_layer_norm_backward",
        "part < call.parts; part += s.places",
        "part + 1 < call.parts; part += s.places",
    ),
    // Running sums: the end of a line. Sorting: the last comparisons.
    ("cumsum", "at < length; ++at", "at + 1 < length; ++at"),
    ("sort", "apart > 0; apart /= 2", "apart > 1; apart /= 2"),
    // Indices: a stride, and a factor.
    ("index_select", "(u64)at * (u64)of[2]", "(u64)at"),
    ("index_add", "a + (float)walk.numbers[0] * b", "a + b"),
    // A mask: values that are added.
    ("index_put", "added((T)load(to), (T)load(from))", "(T)load(from)"),
    // Places: the diagonal itself, and which end is first.
    ("tril", "across <= walk.integers[2]", "across < walk.integers[2]"),
    ("flip", "at = length - 1 - at", "at = at"),
    // Windows: the last column, and what a mean divides by.
    ("max_pool2d_with_indices", "column < across.to", "column + 1 < across.to"),
    ("avg_pool2d", "(down.length * across.length)", "(down.length)"),
    // Attention: a query's own key. Losses: a sign.
    ("_scaled_dot_product_flash_attention_for_cpu", "key > row.query", "key >= row.query"),
    (
        "nll_loss_forward",
        "-load(DATA(const E, 0) + target.at)",
        "load(DATA(const E, 0) + target.at)",
    ),
];

#[test]
fn mistakes_are_found() {
    if !millstream_cuda_standin::compiles() {
        return println!("skipped: no C++ compiler");
    }
    let stand_in = StandIn::load().unwrap_or_else(|error| panic!("{error:#}"));
    let mut missed = Vec::new();
    for &(op, from, to) in MISTAKES {
        let failures = |planted: bool| {
            let turn = stand_in.turn();
            if planted {
                turn.plant(from, to);
            }
            check(0, 7, &Which { thorough: false, only: &[op] }).unwrap().failed
        };
        let (without, with) = (failures(false), failures(true));
        assert!(without.is_empty(), "{op}: {without:#?}");
        match with.first() {
            Some(found) => println!("{op}: {to}: {found}"),
            None => missed.push(format!("{op}: '{to}' in place of '{from}'")),
        }
    }
    assert!(missed.is_empty(), "not found:\n{}", missed.join("\n"));
}
