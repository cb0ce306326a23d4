//! Writes a profile in pieces, for the scripts of a page.

use crate::family::Family;
use crate::model::{Instruction, NONE, Operand, Profile, Role, Wait};
use crate::order::{Order, Segment, critical_path};
use crate::{memory, repeats, work};

use super::write::{Columns, header, number, piece};
use super::{Header, Part, PartHeader};

/// The most instructions of a piece of a page.
pub const PART: usize = 1 << 16;

/// The steps of the time in the overview of a page.
const BUCKETS: usize = 1000;

/// Writes a profile in pieces, with columns that follow from it, for the scripts of a page: memory
/// and its holders, families, the critical path, what repeats, and an overview if there is more
/// than one part.
/// [`read_pieces`](super::read_pieces) passes over them.
pub fn write_for_page(profile: &Profile) -> Vec<Vec<u8>> {
    write_in_parts(profile, PART)
}

pub(super) fn write_in_parts(profile: &Profile, size: usize) -> Vec<Vec<u8>> {
    let count = profile.instructions.len();
    let path = critical_path(profile, &Order::of(profile));
    let parts = count.div_ceil(size).max(1);
    let part_of = |k: u32| if (k as usize) < count { k as usize / size } else { 0 };
    let mut waits_of: Vec<Vec<&Wait>> = vec![Vec::new(); parts];
    for wait in &profile.waits {
        let known = [wait.waiter, wait.user, wait.until].into_iter().find(|k| *k != NONE);
        waits_of[known.map_or(0, part_of)].push(wait);
    }
    let mut path_of: Vec<Vec<(u8, u32, [u64; 2])>> = vec![Vec::new(); parts];
    for segment in &path {
        let (kind, k) = match segment.segment {
            Segment::Runs(k) => (0, k),
            Segment::Gap { before } => (1, before),
            Segment::Submits { before } => (2, before),
            Segment::Resumes { after } => (3, after),
        };
        path_of[part_of(k)].push((kind, k, [segment.start, segment.end]));
    }
    let mut stated = Vec::new();
    let mut pieces = vec![Vec::new()];
    let mut written = 0;
    for part in 0..parts {
        let all = &profile.instructions[part * size..count.min((part + 1) * size)];
        // In the order of the instructions, so that a part has its operands together.
        let used: Vec<Operand> = all.iter().flat_map(|i| profile.operands_of(i)).copied().collect();
        let first = written;
        let own = all.iter().map(|i| {
            let from = written;
            written += profile.operands_of(i).len() as u32;
            Instruction { operands: [from, written], ..i.clone() }
        });
        let own: Vec<Instruction> = own.collect();
        let mut columns = Columns::default();
        columns.rows(own.iter());
        columns.rows(used.iter());
        let done: Vec<[u64; 2]> = all.iter().map(|i| work::of(profile, i)).collect();
        columns.f64("operations", done.iter().map(|done| number(done[0])));
        columns.f64("moved", done.iter().map(|done| number(done[1])));
        columns.waits(waits_of[part].iter().copied());
        let path = || path_of[part].iter();
        columns.u8("pathKind", path().map(|part| part.0));
        columns.u32("pathInstruction", path().map(|part| part.1));
        columns.f64("pathStart", path().map(|part| number(part.2[0])));
        columns.f64("pathEnd", path().map(|part| number(part.2[1])));
        let times = || all.iter().filter(|i| i.is_shown()).filter_map(|i| i.times);
        stated.push(Part {
            instructions: all.len(),
            operands: (written - first) as usize,
            begin: times().map(|t| t.start).min().unwrap_or(0),
            end: times().map(|t| t.end).max().unwrap_or(0),
        });
        pieces.push(piece(&PartHeader { columns: columns.places }, &columns.bytes));
    }
    let mut columns = Columns::default();
    columns.rows(profile.storages.iter());
    memory_over_time(&mut columns, profile);
    makers(&mut columns, profile);
    let families: Vec<Family> = profile.names.iter().map(|name| Family::of(name)).collect();
    columns.u8("nameFamily", families.iter().map(|family| *family as u8));
    if parts > 1 {
        let [busy, family] = overview(profile, &families);
        columns.u8("overview", busy.into_iter());
        columns.u8("overviewFamily", family.into_iter());
    }
    let repeats = Some(repeats::of(profile));
    let families = Family::ALL.map(Family::name).to_vec();
    let header = Header { parts: stated, repeats, families, ..header(profile, columns.places) };
    pieces[0] = piece(&header, &columns.bytes);
    pieces
}

/// Returns for each stream and each step of the time how busy it is, from 0 to 255, and the family
/// that takes most of the step.
fn overview(profile: &Profile, families: &[Family]) -> [Vec<u8>; 2] {
    let step = (profile.total as f64 / BUCKETS as f64).max(1.0);
    let mut busy = vec![[0.0; Family::ALL.len()]; profile.streams.len() * BUCKETS];
    for (_, instruction, times) in profile.shown() {
        if matches!(instruction.role, Role::Wait | Role::Fence) {
            continue;
        }
        let family = families.get(instruction.name as usize).map_or(0, |family| *family as usize);
        let own = &mut busy[instruction.stream as usize * BUCKETS..][..BUCKETS];
        let (start, end) = (times.start as f64, times.end as f64);
        let first = ((start / step) as usize).min(BUCKETS - 1);
        let last = ((end / step) as usize).min(BUCKETS - 1);
        for (k, bucket) in own.iter_mut().enumerate().take(last + 1).skip(first) {
            let begin = k as f64 * step;
            bucket[family] += (end.min(begin + step) - start.max(begin)).max(0.0);
        }
    }
    let share =
        |bucket: &[f64; _]| (bucket.iter().sum::<f64>() / step * 255.0).ceil().min(255.0) as u8;
    let most = |bucket: &[f64; _]| {
        (0..bucket.len()).max_by(|&a, &b| bucket[a].total_cmp(&bucket[b])).unwrap_or(0) as u8
    };
    [busy.iter().map(share).collect(), busy.iter().map(most).collect()]
}

/// Writes for each storage the name of the instruction that wrote it first, and the place that
/// allocated it. One from before the run has no maker.
fn makers(columns: &mut Columns, profile: &Profile) {
    let mut maker = vec![[NONE; 2]; profile.storages.len()];
    for instruction in &profile.instructions {
        if !matches!(instruction.role, Role::Work | Role::Launch | Role::Order) {
            continue;
        }
        for operand in profile.operands_of(instruction).iter().filter(|operand| operand.writes) {
            let storage = profile.tensors[operand.tensor as usize].storage as usize;
            let is_made = profile.storages[storage].allocated != NONE;
            if is_made && maker[storage][0] == NONE {
                maker[storage] = [instruction.name, instruction.place];
            }
        }
    }
    for (storage, maker) in profile.storages.iter().zip(&mut maker) {
        let Some(by) = profile.instructions.get(storage.allocated as usize) else { continue };
        if by.place != NONE {
            maker[1] = by.place;
        }
        // A workspace has no tensor, and is that of the call.
        if storage.tensor == NONE {
            maker[0] = by.name;
        }
    }
    columns.u32("storageMaker", maker.iter().map(|maker| maker[0]));
    columns.u32("storagePlace", maker.iter().map(|maker| maker[1]));
}

fn memory_over_time(columns: &mut Columns, profile: &Profile) {
    let mut held = vec![[-1.0; 2]; profile.storages.len()];
    let mut levels = Vec::new();
    let mut counts = Vec::new();
    for arena in 0..profile.arenas.len() as u32 {
        let own = memory::held(profile, arena);
        for one in &own {
            held[one.storage as usize] = [number(one.begin), number(one.end)];
        }
        let made = memory::curve(profile, &own);
        counts.push(made.len() as u32);
        levels.extend(made);
    }
    columns.f64("heldBegin", held.iter().map(|held| held[0]));
    columns.f64("heldEnd", held.iter().map(|held| held[1]));
    let arenas = 0..profile.arenas.len() as u32;
    let most = arenas.map(|arena| memory::most_held(profile, arena).map_or(-1.0, number));
    columns.f64("mostHeld", most);
    columns.u32("levelCount", counts.into_iter());
    columns.f64("levelAt", levels.iter().map(|level| number(level.at)));
    columns.f64("levelBytes", levels.iter().map(|level| number(level.bytes)));
    columns.f64("levelExtent", levels.iter().map(|level| number(level.extent)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Storage, Tensor};

    /// Returns the numbers of a column of 32 bits.
    fn column(columns: &Columns, name: &str) -> Vec<u32> {
        let place = &columns.places[name];
        let bytes = &columns.bytes[place.at..place.at + 4 * place.count];
        let (all, _) = bytes.as_chunks::<4>();
        all.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect()
    }

    #[test]
    fn a_storage_is_called_by_the_op_that_wrote_it_first() {
        // Storage 0 is given, 1 is made by `relu`, 2 is a workspace of `matmul`.
        let storage = |tensor, allocated| Storage { tensor, allocated, ..Storage::default() };
        let tensor = |storage| Tensor { storage, ..Tensor::default() };
        let one = |name, role, place, operands| Instruction {
            name,
            role,
            place,
            operands,
            stream: NONE,
            ..Instruction::default()
        };
        let writes = |tensor| Operand { tensor, reads: false, writes: true };
        let profile = Profile {
            names: ["AllocateTensor", "relu", "matmul"].map(str::to_owned).to_vec(),
            places: ["line 1", "line 2"].map(str::to_owned).to_vec(),
            tensors: vec![tensor(0), tensor(1)],
            storages: vec![storage(0, NONE), storage(1, 0), storage(NONE, 3)],
            instructions: vec![
                one(0, Role::Allocate, 0, [0, 1]),
                one(1, Role::Work, 1, [1, 2]),
                // Later writes, also of what was given, change no name.
                one(2, Role::Work, 1, [2, 4]),
                one(2, Role::Work, 1, [4, 4]),
            ],
            operands: vec![writes(1), writes(1), writes(0), writes(1)],
            ..Profile::default()
        };
        let mut columns = Columns::default();
        makers(&mut columns, &profile);
        assert_eq!(column(&columns, "storageMaker"), [NONE, 1, 2]);
        assert_eq!(column(&columns, "storagePlace"), [NONE, 0, 1]);
    }

    #[test]
    fn an_overview_has_the_share_and_the_family_of_each_step() {
        use crate::model::{Stream, Times};
        let one = |name, role, start, end| Instruction {
            name,
            role,
            times: Some(Times { ready: start, start, end }),
            ..Instruction::default()
        };
        let profile = Profile {
            names: ["relu", "matmul", "wait"].map(str::to_owned).to_vec(),
            streams: vec![Stream::default()],
            instructions: vec![
                one(0, Role::Work, 0, 4),
                one(1, Role::Work, 4, 10),
                // A wait is no work.
                one(2, Role::Wait, 10, 20),
            ],
            total: 10_000,
            ..Profile::default()
        };
        let families: Vec<Family> = profile.names.iter().map(|name| Family::of(name)).collect();
        let [busy, most] = overview(&profile, &families);
        assert_eq!((busy.len(), &busy[..3]), (BUCKETS, &[255, 0, 0][..]));
        assert_eq!(most[0], Family::Products as u8);
    }
}
