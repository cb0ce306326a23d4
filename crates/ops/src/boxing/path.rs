//! Steps of boxing, their costs, and the cheapest path from one sharding to another.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use millstream_types::{DType, Mesh, NdSbp, Reduction, Sbp, Sharding};

/// The change of how the ranks along one axis hold a tensor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    /// The axis.
    pub axis: usize,
    /// The sharding before.
    pub from: Sharding,
    /// The sharding after; it differs in this axis alone.
    pub to: Sharding,
}

/// The cheapest steps between two shardings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The elements that all ranks receive together.
    pub received: u64,
}

/// The most dimensions whose splits are considered between those of both ends.
const MOST_DIMS: usize = 4;

/// Returns the cheapest path between two shardings of one mesh, for a tensor of this dtype and
/// shape: the one with the fewest received elements, then with the fewest steps, then the first in
/// a fixed order. `None` if the shardings are of two meshes, or partial by different reductions.
///
/// ```
/// use millstream_ops::boxing::path;
/// use millstream_types::{DType, Mesh, Result, Sharding, sbp::{B, S}};
///
/// let mesh = Mesh::new([[0, 1], [2, 3]])?;
/// let [from, to] = [Sharding::new(&mesh, [B, S(0)])?, Sharding::new(&mesh, [S(0), S(0)])?];
/// let path = path(DType::F32, &[8, 8], &from, &to).unwrap();
/// // Rows 4 to 7 of rank 1 lie on rank 2 and 3 afterwards: no local step leads there.
/// assert!(path.received > 0);
/// # Ok::<(), millstream_types::Error>(())
/// ```
pub fn path(dtype: DType, shape: &[usize], from: &Sharding, to: &Sharding) -> Option<Path> {
    if from == to {
        return Some(Path::default());
    }
    let mesh = from.mesh();
    if to.mesh() != mesh {
        return None;
    }
    let choices = choices(dtype, shape, from, to);
    let goal: NdSbp = to.sbp().into();
    let reached = reached(shape, from, Some(&goal), &choices);
    let (received, ..) = *reached.get(&goal).as_ref()?;
    let mut states = vec![goal];
    while let Some((_, _, before)) = reached.get(&states[states.len() - 1])
        && *before != states[states.len() - 1]
    {
        states.push(before.clone());
    }
    states.reverse();
    let sharding = |sbp: &NdSbp| Sharding::new(mesh, sbp.iter().copied()).ok();
    let steps: Option<Vec<Step>> = states
        .windows(2)
        .map(|pair| {
            let axis = (0..mesh.rank()).find(|axis| pair[0][*axis] != pair[1][*axis])?;
            Some(Step { axis, from: sharding(&pair[0])?, to: sharding(&pair[1])? })
        })
        .collect();
    Some(Path { steps: steps?, received: *received })
}

/// By state: the elements that all ranks receive on the way, its steps, and the state before.
type Reached = FxHashMap<NdSbp, (u64, u32, NdSbp)>;

/// Searches the cheapest ways from a sharding to a goal, or to all states.
fn reached(
    shape: &[usize],
    from: &Sharding,
    goal: Option<&NdSbp>,
    choices: &[SmallVec<[Sbp; 8]>],
) -> Reached {
    let mesh = from.mesh();
    let mut reached = Reached::default();
    let mut queue = BinaryHeap::new();
    let start: NdSbp = from.sbp().into();
    queue.push(Reverse((0u64, 0u32, start.clone(), start)));
    while let Some(Reverse((received, steps, state, before))) = queue.pop() {
        if reached.contains_key(&state) {
            continue;
        }
        reached.insert(state.clone(), (received, steps, before));
        if goal == Some(&state) {
            break;
        }
        for axis in 0..mesh.rank() {
            for next in choices[axis].iter().copied().filter(|next| *next != state[axis]) {
                let Some(cost) = cost(shape, mesh, &state, axis, next) else { continue };
                let mut after = state.clone();
                after[axis] = next;
                if !reached.contains_key(&after) {
                    queue.push(Reverse((received + cost, steps + 1, after, state.clone())));
                }
            }
        }
    }
    reached
}

/// Returns what all ranks receive on the way to each of the usual shardings of a tensor: at least
/// nearly as much as on its [`path`], which considers fewer splits on the way.
pub(super) fn received(dtype: DType, shape: &[usize], from: &Sharding) -> FxHashMap<NdSbp, u64> {
    let mut choices = choices(dtype, shape, from, from);
    for own in &mut choices {
        for split in (0..shape.len().min(MOST_DIMS)).map(Sbp::Split) {
            if !own.contains(&split) {
                own.push(split);
            }
        }
    }
    let reached = reached(shape, from, None, &choices);
    reached.into_iter().map(|(state, (received, ..))| (state, received)).collect()
}

/// Returns what each axis may hold on a path: what it holds at either end, the splits of the ends'
/// dimensions and of a few others, whole tensors, and sums: a part among zeros costs nothing, and a
/// sum of one part with zeros is exact.
fn choices(
    dtype: DType,
    shape: &[usize],
    from: &Sharding,
    to: &Sharding,
) -> Vec<SmallVec<[Sbp; 8]>> {
    let (mesh, ends) = (from.mesh(), [from.sbp(), to.sbp()].concat());
    let least = mesh.shape().iter().product::<usize>();
    let long = (0..shape.len()).filter(|dim| shape[*dim] >= least).take(MOST_DIMS);
    let mut dims: Vec<usize> = ends.iter().filter_map(|sbp| sbp.dim()).chain(long).collect();
    dims.sort_unstable();
    dims.dedup();
    let has_extrema =
        ends.iter().filter_map(|sbp| sbp.reduction()).any(|other| other != Reduction::Sum);
    let sum = Some(Sbp::Partial(Reduction::Sum)).filter(|_| dtype != DType::Bool && !has_extrema);
    (0..mesh.rank())
        .map(|axis| {
            let partial = [from.sbp()[axis], to.sbp()[axis]].into_iter();
            let partial = partial.filter(|sbp| sbp.reduction().is_some());
            let mut all: SmallVec<[Sbp; 8]> =
                dims.iter().map(|dim| Sbp::Split(*dim)).chain([Sbp::Broadcast]).collect();
            for sbp in partial.chain(sum) {
                if !all.contains(&sbp) {
                    all.push(sbp);
                }
            }
            all
        })
        .collect()
}

/// Returns the elements that all ranks receive in a step; `None` if there is no such step.
fn cost(shape: &[usize], mesh: &Mesh, state: &[Sbp], axis: usize, next: Sbp) -> Option<u64> {
    let (own, later) = (state[axis], &state[axis + 1..]);
    let is_last = |dim| !later.contains(&Sbp::Split(dim));
    let ranks = mesh.shape()[axis] as u64;
    if [own, next].into_iter().filter_map(Sbp::dim).any(|dim| !is_last(dim)) {
        return None;
    }
    let reductions = state.iter().enumerate().filter(|(k, _)| *k != axis);
    let mut reductions = reductions.filter_map(|(_, sbp)| sbp.reduction());
    if let Some(reduction) = next.reduction()
        && reductions.any(|other| other != reduction)
    {
        return None;
    }
    // The elements of the groups' tensors, over all groups along the axis.
    let numel: u64 = shape.iter().map(|length| *length as u64).product();
    let others = state.iter().zip(mesh.shape()).enumerate();
    let copies = others
        .filter(|(k, (sbp, _))| *k != axis && sbp.dim().is_none())
        .map(|(_, (_, ranks))| *ranks as u64);
    let total = numel * copies.product::<u64>();
    Some(match (own, next) {
        (Sbp::Broadcast, _) => 0,
        (Sbp::Split(_), Sbp::Partial(Reduction::Sum)) => 0,
        (Sbp::Split(_), Sbp::Broadcast) | (Sbp::Partial(_), Sbp::Split(_)) => total * (ranks - 1),
        (Sbp::Partial(_), Sbp::Broadcast) => 2 * total * (ranks - 1),
        (Sbp::Split(_), Sbp::Split(_)) => {
            let kept = kept(shape, mesh, state, axis, next);
            total - kept
        }
        (Sbp::Split(_) | Sbp::Partial(_), Sbp::Partial(_)) => return None,
    })
}

/// Returns the elements that ranks have both before and after a step between two splits.
fn kept(shape: &[usize], mesh: &Mesh, state: &[Sbp], axis: usize, next: Sbp) -> u64 {
    let mut after: NdSbp = state.into();
    after[axis] = next;
    let held = |sbp: &[Sbp]| Sharding::new(mesh, sbp.iter().copied()).ok();
    let (Some(own), Some(other)) = (held(state), held(&after)) else { return 0 };
    let of_position = |position: usize| {
        let at = mesh.coordinates_at(position);
        let (own, other) = (own.part(shape, &at), other.part(shape, &at));
        let common = own.iter().zip(&other).map(|(own, other)| {
            (own.end.min(other.end)).saturating_sub(own.start.max(other.start)) as u64
        });
        common.product::<u64>()
    };
    (0..mesh.ranks().len()).map(of_position).sum()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use millstream_types::sbp::{B, P, S};

    use super::*;

    /// The elements of a rank, by their numbers in the whole tensor.
    fn elements(shape: &[usize], sharding: &Sharding, position: usize) -> BTreeSet<usize> {
        let part = sharding.part(shape, &sharding.mesh().coordinates_at(position));
        let mut all = vec![0];
        for (range, length) in part.iter().zip(shape) {
            all = all
                .into_iter()
                .flat_map(|row| range.clone().map(move |k| row * length + k))
                .collect();
        }
        all.into_iter().collect()
    }

    /// The cost of a step, by the elements that ranks lack: a rank can get what any rank of its
    /// group has.
    fn received(
        shape: &[usize],
        mesh: &Mesh,
        from: &[Sbp],
        to: &[Sbp],
        axis: usize,
    ) -> Option<u64> {
        let sharding = |sbp: &[Sbp]| Sharding::new(mesh, sbp.iter().copied()).unwrap();
        let (before, after) = (sharding(from), sharding(to));
        let (ranks, each) = (mesh.ranks().len(), mesh.shape()[axis] as u64);
        let total = |of: &Sharding| -> u64 {
            (0..ranks).map(|at| elements(shape, of, at).len() as u64).sum()
        };
        let of_group = |position: usize| {
            let group = mesh.group(axis, &mesh.coordinates_at(position));
            let held = (0..ranks).filter(|at| group.contains(&mesh.ranks()[*at]));
            held.flat_map(|at| elements(shape, &before, at)).collect::<BTreeSet<usize>>()
        };
        match (from[axis], to[axis]) {
            (Sbp::Partial(_), Sbp::Broadcast) => Some(2 * total(&before) / each * (each - 1)),
            (Sbp::Broadcast | Sbp::Split(_), Sbp::Partial(_)) => {
                // Its elements stay at their places among zeros.
                let fits = |at| elements(shape, &after, at).is_superset(&of_group(at));
                (0..ranks).all(fits).then_some(0)
            }
            (held, _) => {
                let mut missing = 0;
                for at in 0..ranks {
                    let needed = elements(shape, &after, at);
                    if !of_group(at).is_superset(&needed) {
                        return None;
                    }
                    missing += match held {
                        Sbp::Partial(_) => needed.len() as u64 * (each - 1),
                        _ => needed.difference(&elements(shape, &before, at)).count() as u64,
                    };
                }
                Some(missing)
            }
        }
    }

    /// No sequence of steps between any two shardings moves fewer elements than the path, by the
    /// shortest paths between all of them.
    #[test]
    fn paths_are_the_cheapest() {
        let shape = [8, 16, 8];
        for mesh in [vec![2], vec![4], vec![2, 2], vec![2, 4], vec![4, 2]] {
            let ranks: Vec<u32> = (0..mesh.iter().product::<usize>() as u32).collect();
            let mesh = Mesh::of(&mesh, &ranks).unwrap();
            let each = [S(0), S(1), S(2), B, P];
            let mut states = vec![Vec::new()];
            for _ in 0..mesh.rank() {
                states = states
                    .iter()
                    .flat_map(|of: &Vec<Sbp>| each.map(|sbp| [&of[..], &[sbp]].concat()))
                    .collect();
            }
            let count = states.len();
            let mut least = vec![vec![None; count]; count];
            for (a, from) in states.iter().enumerate() {
                for (b, to) in states.iter().enumerate() {
                    let mut differ = (0..mesh.rank()).filter(|axis| from[*axis] != to[*axis]);
                    least[a][b] = match (differ.next(), differ.next()) {
                        (None, _) => Some(0),
                        (Some(axis), None) => received(&shape, &mesh, from, to, axis),
                        _ => None,
                    };
                }
            }
            for middle in 0..count {
                for a in 0..count {
                    for b in 0..count {
                        let by = least[a][middle].zip(least[middle][b]).map(|(x, y)| x + y);
                        least[a][b] = least[a][b].into_iter().chain(by).min();
                    }
                }
            }
            for (a, from) in states.iter().enumerate() {
                for (b, to) in states.iter().enumerate() {
                    let [from, to] =
                        [from, to].map(|sbp| Sharding::new(&mesh, sbp.iter().copied()).unwrap());
                    let found = path(DType::F32, &shape, &from, &to).unwrap();
                    assert_eq!(Some(found.received), least[a][b], "{from:?} to {to}: {found:?}");
                    let ends = found.steps.iter().map(|step| &step.to).next_back();
                    assert_eq!(ends.unwrap_or(&from), &to);
                }
            }
        }
    }

    /// OneFlow costs this move at nothing; half of the elements are on other ranks.
    #[test]
    fn a_split_below_a_split_moves() {
        let mesh = Mesh::new([[0, 1], [2, 3]]).unwrap();
        let [from, to] = [[B, S(0)], [S(0), S(0)]].map(|sbp| Sharding::new(&mesh, sbp).unwrap());
        let received = |shape: &[usize]| path(DType::F32, shape, &from, &to).unwrap().received;
        assert_eq!(received(&[8, 8]), 64);
        assert_eq!(received(&[8]), 8);
    }
}
