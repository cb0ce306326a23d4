//! What the matching calls of the ranks have to agree on.

use std::fmt::Write;

use millstream_types::{Attrs, TensorSpec};

/// A call of a collective, as other ranks depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RankCall {
    /// Op, dtypes, numbers of elements, reduction and root.
    pub(super) text: String,
    /// The position of the rank, and how many elements an all-to-all gives to each and gets from
    /// each.
    pairs: Option<(usize, Vec<i64>, Vec<i64>)>,
}

impl RankCall {
    /// Returns the call of the rank at a position of a group of so many.
    pub(super) fn of(
        op: &str,
        operands: &[TensorSpec],
        attrs: &Attrs,
        (position, ranks): (usize, usize),
    ) -> RankCall {
        // The name of a message is the same on both sides.
        let mut text = match op {
            "send" | "recv_" => String::from("message("),
            _ => format!("{op}("),
        };
        let numel = |spec: &TensorSpec| spec.shape().iter().product::<usize>() as i64;
        let counts = |name: &str, of: Option<&TensorSpec>, each: Option<i64>| -> Vec<i64> {
            let Some(of) = of else { return Vec::new() };
            let row: usize = of.shape().iter().skip(1).product();
            let rows = of.shape().first().copied().unwrap_or(1);
            let equal = each.unwrap_or((rows / ranks.max(1) * row) as i64);
            match attrs.ints(name).ok().flatten() {
                Some(splits) => splits.into_iter().map(|rows| rows * row as i64).collect(),
                None => vec![equal; ranks],
            }
        };
        let (first, second) = (operands.first(), operands.get(1));
        let mut pairs = None;
        let each: Vec<(&TensorSpec, i64)> = match op {
            "allgather_" => {
                let all = counts("splits", first, second.map(numel));
                all.into_iter().filter_map(|count| Some((second?, count))).collect()
            }
            "reduce_scatter_" => {
                let all = counts("splits", second, first.map(numel));
                all.into_iter().filter_map(|count| Some((second?, count))).collect()
            }
            "gather_to_" | "scatter_from_" => {
                let all = counts("splits", first, first.map(numel));
                all.into_iter().filter_map(|count| Some((first?, count))).collect()
            }
            "alltoall_" => {
                let sent = counts("input_splits", second, None);
                pairs = Some((position, sent, counts("output_splits", first, None)));
                let _ = write!(text, "{}", second.map_or("", |x| x.dtype.name()));
                Vec::new()
            }
            "barrier_" => Vec::new(),
            _ => operands.iter().map(|spec| (spec, numel(spec))).collect(),
        };
        for (k, (spec, count)) in each.into_iter().enumerate() {
            // Writing to a string does not fail.
            let _ = write!(text, "{}{}[{count}]", if k == 0 { "" } else { ", " }, spec.dtype);
        }
        if ["allreduce_", "reduce_", "reduce_scatter_"].contains(&op) {
            let reduction = millstream_ops::collective::ReduceOp::of(attrs);
            let _ = write!(text, "; {}", reduction.map_or("?", |reduction| reduction.name()));
        }
        if let Ok(Some(root)) = attrs.int("root") {
            let _ = write!(text, "; root {root}");
        }
        text.push(')');
        RankCall { text, pairs }
    }

    /// Returns a call of a barrier.
    pub(super) fn barrier() -> RankCall {
        RankCall { text: String::from("global_sync()"), pairs: None }
    }

    /// Returns whether two calls may meet.
    pub(super) fn agrees(&self, other: &RankCall) -> bool {
        let fits = match (&self.pairs, &other.pairs) {
            (Some((at, sent, received)), Some((to, theirs, taken))) => {
                sent.get(*to) == taken.get(*at) && theirs.get(*at) == received.get(*to)
            }
            _ => true,
        };
        self.text == other.text && fits
    }
}
