//! The cheapest path from one sharding to another.

use smallvec::SmallVec;

use millstream_types::{DType, NdSbp, Reduction, Sbp, Sharding};

use super::states::{Choices, States};

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
    let mut states = States::new(mesh, shape, choices(dtype, shape, from, to));
    let (start, goal) = (states.number(from.sbp())?, states.number(to.sbp())?);
    let ways = states.ways(start, Some(goal));
    let received = ways[goal]?.received;
    let before = |state: &usize| ways[*state].map(|way| way.before).filter(|_| *state != start);
    let passed = std::iter::successors(Some(goal), before);
    let mut passed: Vec<NdSbp> = passed.map(|state| states.sbp(state)).collect();
    passed.reverse();
    let sharding = |sbp: &NdSbp| Sharding::new(mesh, sbp.iter().copied()).ok();
    let steps: Option<Vec<Step>> = passed
        .windows(2)
        .map(|pair| {
            let axis = (0..mesh.rank()).find(|axis| pair[0][*axis] != pair[1][*axis])?;
            Some(Step { axis, from: sharding(&pair[0])?, to: sharding(&pair[1])? })
        })
        .collect();
    Some(Path { steps: steps?, received })
}

/// Returns what each axis may hold on the ways from a sharding to all usual ones. The ranks receive
/// about as much on these ways as on [`path`]s, for which fewer splits are considered.
pub(super) fn usual_choices(dtype: DType, shape: &[usize], from: &Sharding) -> Choices {
    let mut choices = choices(dtype, shape, from, from);
    for own in &mut choices {
        for split in (0..shape.len().min(MOST_DIMS)).map(Sbp::Split) {
            if !own.contains(&split) {
                own.push(split);
            }
        }
        own.sort_unstable();
    }
    choices
}

/// Returns what each axis may hold on a path: what it holds at either end, the splits of the ends'
/// dimensions and of a few others, whole tensors, and sums: a part among zeros costs nothing, and a
/// sum of one part with zeros is exact.
fn choices(dtype: DType, shape: &[usize], from: &Sharding, to: &Sharding) -> Choices {
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
            all.sort_unstable();
            all
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use millstream_types::Mesh;
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

    /// Elements beyond a word count as the most that a word holds.
    #[test]
    fn costs_of_the_longest_tensors_do_not_overflow() {
        let mesh = Mesh::of(&[2, 4], &[0, 1, 2, 3, 4, 5, 6, 7]).unwrap();
        let [from, to] = [[P, P], [B, B]].map(|sbp| Sharding::new(&mesh, sbp).unwrap());
        let path = path(DType::U8, &[1 << 62], &from, &to).unwrap();
        assert_eq!(path.received, u64::MAX);
    }

    /// Costs of steps are exact, also where parts are of different lengths, or empty.
    #[test]
    fn steps_of_uneven_parts() {
        for (shape, mesh) in [([5, 7, 3], vec![2, 3]), ([5, 1, 2], vec![3, 2, 2])] {
            let ranks: Vec<u32> = (0..mesh.iter().product::<usize>() as u32).collect();
            let mesh = Mesh::of(&mesh, &ranks).unwrap();
            let mut each = SmallVec::from_slice(&[S(0), S(1), S(2), B, P]);
            each.sort_unstable();
            let choices: Choices = vec![each; mesh.rank()];
            let mut states = States::new(&mesh, &shape, choices);
            let mut checked = 0;
            for state in 0..states.count() {
                let from = states.sbp(state);
                for (after, cost) in states.steps(state).to_vec() {
                    let to = states.sbp(after);
                    let axis = (0..mesh.rank()).find(|axis| from[*axis] != to[*axis]).unwrap();
                    let expected = received(&shape, &mesh, &from, &to, axis);
                    assert_eq!(Some(cost), expected, "{from:?} to {to:?} of {shape:?}");
                    checked += 1;
                }
            }
            assert!(checked > states.count(), "{checked} steps");
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
