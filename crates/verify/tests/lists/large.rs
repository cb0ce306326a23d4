//! Long lists are walked in near-linear time, and bad lists do not fill memory with violations.

use millstream_instructions::text::{OpNames, parse_list};
use millstream_instructions::{
    ArenaId, Body, External, Instruction, InstructionList, Operand, Placement, Priority,
    StreamDecl, Via,
};
use millstream_testing::cases;
use millstream_types::{
    Access, DType, DeviceId, Layout, OpId, Origin, Point, StreamId, StreamKey, StreamMode,
    TensorId, TensorSpec,
};
use millstream_verify::{MOST_VIOLATIONS, Reason, Violation, Wait, check, verify, violations};

/// Returns a list of `rounds` rounds. In each round every stream waits for its neighbour, begins a
/// tensor in memory of an earlier one, writes it from the neighbour's newest tensor, and releases
/// an older tensor of its own.
fn rounds(streams: u16, rounds: u64) -> InstructionList {
    let device = DeviceId::cpu(0);
    let decl = |k: u16| {
        let key = StreamKey::compute(device.clone(), u32::from(k));
        StreamDecl::new(key, StreamMode::InOrder)
    };
    let ops: OpNames = ["relu"].into_iter().collect();
    let mut instructions = Vec::new();
    let mut push = |body| instructions.push(Instruction { body, origin: Origin::Unknown });
    let spec = TensorSpec::contiguous(DType::F32, &[4]).unwrap();
    let tensor = |round: u64, s: u16| TensorId((round * u64::from(streams) + u64::from(s)) as u32);
    for round in 0..rounds {
        for s in 0..streams {
            let (stream, left) = (StreamId(s), (s + streams - 1) % streams);
            let at = |k: u64| Point::new(stream, 2 * round + k);
            // The neighbour's newest tensor is of this round, except for the first stream.
            let source = if s == 0 { round.checked_sub(1) } else { Some(round) };
            let until = Point::new(StreamId(left), source.map_or(0, |r| 2 * r + 2));
            push(Body::StreamWaitEvent { at: at(1), until, via: Via::Host });
            push(Body::AllocateTensor {
                on: stream,
                tensor: tensor(round, s),
                spec: Box::new(spec.clone()),
                placement: Box::new(Placement {
                    arena: ArenaId(0),
                    offset: 512 * (u64::from(s) * 4 + round % 4),
                    size: 16,
                    generation: round * u64::from(streams) + u64::from(s),
                }),
            });
            let read = source.map(|r| Operand { tensor: tensor(r, left), access: Access::Read });
            let write = Operand { tensor: tensor(round, s), access: Access::Write };
            push(Body::OpCall {
                at: at(2),
                op: OpId(0),
                operands: read.into_iter().chain([write]).collect(),
                attrs: None,
                workspace: None,
                priority: Priority::default(),
            });
            if let Some(old) = round.checked_sub(3) {
                push(Body::ReleaseTensor { tensor: tensor(old, s) });
            }
        }
    }
    InstructionList {
        streams: (0..streams).map(decl).collect(),
        arenas: vec![device],
        ops,
        instructions,
        ..InstructionList::default()
    }
}

#[test]
fn a_million_instructions() {
    let list = rounds(16, 15_700);
    assert!(list.instructions.len() > 1_000_000);
    let found = check(list).map(|checked| checked.list().instructions.len());
    assert!(found.is_ok(), "{}", found.unwrap_err()[0]);
}

/// Returns a list like a builder's, of random ops on 16 streams. Each op reads two blocks of
/// columns and changes a third, of 64 storages with eight blocks each. Streams do not wait for
/// points that they know.
fn random(instructions: usize) -> InstructionList {
    const STREAMS: usize = 16;
    const BLOCKS: usize = 512;
    let mut list = rounds(STREAMS as u16, 0);
    let spec = TensorSpec::contiguous(DType::F32, &[64, 64]).unwrap();
    for k in 0..64u32 {
        list.externals.push(External {
            tensor: TensorId(k * 9),
            name: format!("x{k}"),
            spec: spec.clone(),
            bytes: 4 * 64 * 64,
            arena: ArenaId(0),
        });
        for block in 0..8 {
            let layout = Layout::strided(&[64, 8], &[64, 1], 8 * block as usize).unwrap();
            let spec = Box::new(TensorSpec::new(DType::F32, layout).unwrap());
            let (tensor, of) = (TensorId(k * 9 + 1 + block), TensorId(k * 9));
            let body = Body::ViewTensor { tensor, of, spec };
            list.instructions.push(Instruction { body, origin: Origin::Unknown });
        }
    }
    // For each block: the last write, and each stream's newest read since then.
    let mut blocks = vec![((0usize, 0u64), [0u64; STREAMS]); BLOCKS];
    let (mut last, mut knows) = ([0u64; STREAMS], [[0u64; STREAMS]; STREAMS]);
    let mut seen: Vec<Vec<[u64; STREAMS]>> = vec![vec![[0; STREAMS]]; STREAMS];
    let mut random = 1u64;
    let mut next = |below: usize| {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 33) as usize % below
    };
    while list.instructions.len() < instructions {
        let s = next(STREAMS);
        let (a, b, c) = (next(BLOCKS), next(BLOCKS), next(BLOCKS));
        let mut needs: Vec<(usize, u64)> = [a, b, c].iter().map(|&k| blocks[k].0).collect();
        needs.extend(blocks[c].1.iter().copied().enumerate());
        for (q, n) in needs {
            if q == s || knows[s][q] >= n {
                continue;
            }
            last[s] += 1;
            let (at, until) =
                (Point::new(StreamId(s as u16), last[s]), Point::new(StreamId(q as u16), n));
            let body = Body::StreamWaitEvent { at, until, via: Via::Host };
            list.instructions.push(Instruction { body, origin: Origin::Unknown });
            let brought = seen[q][n as usize];
            for (known, new) in knows[s].iter_mut().zip(brought) {
                *known = new.max(*known);
            }
            knows[s][q] = knows[s][q].max(n);
            seen[s].push(knows[s]);
        }
        last[s] += 1;
        let name = |k: usize| TensorId((k / 8 * 9 + 1 + k % 8) as u32);
        let read = |k: usize| Operand { tensor: name(k), access: Access::Read };
        let change = Operand { tensor: name(c), access: Access::ReadWrite };
        let at = Point::new(StreamId(s as u16), last[s]);
        let operands = [read(a), read(b), change].into_iter().collect();
        let (attrs, workspace, priority) = (None, None, Priority::default());
        let body = Body::OpCall { at, op: OpId(0), operands, attrs, workspace, priority };
        list.instructions.push(Instruction { body, origin: Origin::Unknown });
        seen[s].push(knows[s]);
        blocks[a].1[s] = last[s];
        blocks[b].1[s] = last[s];
        blocks[c] = ((s, last[s]), [0; STREAMS]);
    }
    list
}

#[test]
fn random_blocks_are_proven() {
    let verdict = verify(&random(20_000));
    assert!(verdict.proven(), "{}", verdict.violations[0]);
    assert!(verdict.not_needed() > 0, "the generator does not order its waits");
}

#[test]
fn many_streams() {
    let list = rounds(cases(2_000, 5_000), 6);
    assert!(violations(&list).is_empty());
    // With so many streams, only some waits are decided.
    let verdict = verify(&list);
    let undecided = |w: &&Wait| w.reason == Reason::Undecided;
    assert!(verdict.proven() && verdict.waits.iter().filter(undecided).count() > 1000);
    let mut broken = list;
    let at = broken.instructions.len() / 2;
    let wait =
        (at..).find(|&k| matches!(broken.instructions[k].body, Body::StreamWaitEvent { .. }));
    broken.instructions.remove(wait.unwrap());
    assert!(matches!(violations(&broken)[..], [Violation::Race { .. }, ..]));
}

/// On a ring of 300 streams knowledge takes long paths, and each wait is needed.
#[test]
fn long_ways() {
    let verdict = verify(&rounds(300, 5));
    assert!(verdict.proven(), "{}", verdict.violations[0]);
    let needless: Vec<_> = verdict.waits.iter().filter(|w| !w.needed).collect();
    assert_eq!(needless.len(), 1, "the first has nothing to wait for: {needless:?}");
}

/// Every instruction of this list races with every other, and one names a million tensors.
#[test]
fn complaints_are_bounded() {
    let mut text = String::from("millstream-list 1\narena a0 cpu:0\n");
    for s in 0..2000 {
        text.push_str(&format!("stream s{s} cpu:0 compute {s} in-order\n"));
    }
    text.push_str("external %0 \"x\" f32[4] in 16 bytes of a0\n");
    for s in 0..2000 {
        text.push_str(&format!("TouchTensors s{s}:1 (%0 read)\n"));
    }
    text.push_str(&format!("OpCall s0:2 op (%0 write{})\n", ", %7 read".repeat(1_000_000)));
    let found = violations(&parse_list(&text).unwrap());
    assert_eq!(found.len(), MOST_VIOLATIONS);
    let longest = found.iter().map(|v| v.to_string().len()).max();
    assert!(longest < Some(2_000), "{longest:?}");
}
