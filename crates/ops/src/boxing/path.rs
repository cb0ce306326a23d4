//! Steps of boxing, their costs, and the cheapest path from one sharding to another.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use millstream_types::{Mesh, NdSbp, Reduction, Sbp, Sharding};

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

/// Returns the cheapest path between two shardings of one mesh, for a tensor of this shape: the one
/// with the fewest received elements, then with the fewest steps, then the first in a fixed order.
/// `None` if the shardings are partial by different reductions.
///
/// ```
/// use millstream_ops::boxing::path;
/// use millstream_types::{Mesh, Result, Sharding, sbp::{B, S}};
///
/// let mesh = Mesh::new([[0, 1], [2, 3]])?;
/// let [from, to] = [Sharding::new(&mesh, [B, S(0)])?, Sharding::new(&mesh, [S(0), S(0)])?];
/// let path = path(&[8, 8], &from, &to).unwrap();
/// // Rows 4 to 7 of rank 1 lie on rank 2 and 3 afterwards: no local step leads there.
/// assert!(path.received > 0);
/// # Ok::<(), millstream_types::Error>(())
/// ```
pub fn path(shape: &[usize], from: &Sharding, to: &Sharding) -> Option<Path> {
    if from == to {
        return Some(Path::default());
    }
    let mesh = from.mesh();
    let choices = choices(shape, from, to);
    let goal: NdSbp = to.sbp().into();
    // By state: the least cost so far, and the state before.
    let mut reached: FxHashMap<NdSbp, (u64, u32, NdSbp)> = FxHashMap::default();
    let mut queue = BinaryHeap::new();
    let start: NdSbp = from.sbp().into();
    queue.push(Reverse((0u64, 0u32, start.clone(), start.clone())));
    while let Some(Reverse((received, steps, state, before))) = queue.pop() {
        if reached.contains_key(&state) {
            continue;
        }
        reached.insert(state.clone(), (received, steps, before));
        if state == goal {
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

/// Returns what each axis may hold on a path: what it holds at either end, the splits of the ends'
/// dimensions and of a few others, whole tensors.
fn choices(shape: &[usize], from: &Sharding, to: &Sharding) -> Vec<SmallVec<[Sbp; 8]>> {
    let (mesh, ends) = (from.mesh(), [from.sbp(), to.sbp()].concat());
    let least = mesh.shape().iter().product::<usize>();
    let long = (0..shape.len()).filter(|dim| shape[*dim] >= least).take(MOST_DIMS);
    let mut dims: Vec<usize> = ends.iter().filter_map(|sbp| sbp.dim()).chain(long).collect();
    dims.sort_unstable();
    dims.dedup();
    // Two reductions in one state would depend on their order.
    (0..mesh.rank())
        .map(|axis| {
            let partial = [from.sbp()[axis], to.sbp()[axis]].into_iter();
            let partial = partial.filter(|sbp| sbp.reduction().is_some());
            let mut all: SmallVec<[Sbp; 8]> =
                dims.iter().map(|dim| Sbp::Split(*dim)).chain([Sbp::Broadcast]).collect();
            all.extend(partial);
            all.dedup();
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
            let kept: u64 = (0..mesh.ranks().len())
                .map(|position| kept(shape, mesh, state, axis, next, position))
                .sum();
            total - kept
        }
        (Sbp::Split(_) | Sbp::Partial(_), Sbp::Partial(_)) => return None,
    })
}

/// Returns the elements that the rank at a position of the mesh has before and after a step between
/// two splits.
fn kept(
    shape: &[usize],
    mesh: &Mesh,
    state: &[Sbp],
    axis: usize,
    next: Sbp,
    position: usize,
) -> u64 {
    let at = mesh.coordinates_at(position);
    let mut after: NdSbp = state.into();
    after[axis] = next;
    let part = |sbp: &[Sbp]| {
        let sharding = Sharding::new(mesh, sbp.iter().copied()).ok();
        sharding.map(|sharding| sharding.part(shape, &at))
    };
    let (Some(own), Some(other)) = (part(state), part(&after)) else { return 0 };
    let common = own.iter().zip(&other).map(|(own, other)| {
        (own.end.min(other.end)).saturating_sub(own.start.max(other.start)) as u64
    });
    common.product()
}
