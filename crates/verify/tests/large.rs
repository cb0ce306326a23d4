//! Long lists are read in near-linear time, and bad ones do not fill memory with complaints.

use millstream_instructions::text::{OpNames, parse_list};
use millstream_instructions::{
    ArenaId, Body, Instruction, InstructionList, Operand, Placement, StreamDecl, Via,
};
use millstream_types::{
    Access, DType, DeviceId, OpId, Origin, Point, StreamId, StreamKey, StreamMode, TensorId,
    TensorSpec,
};
use millstream_verify::{MOST_VIOLATIONS, Violation, check, violations};

/// A list of `rounds` rounds: each stream waits for its neighbour, makes a tensor where an earlier
/// one lay, writes it from the neighbour's newest, and releases an older one of its own.
fn rounds(streams: u16, rounds: u64) -> InstructionList {
    let device = DeviceId::cpu(0);
    let decl = |k: u16| StreamDecl {
        key: StreamKey::compute(device.clone(), u32::from(k)),
        mode: StreamMode::InOrder,
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
            // The neighbour's newest: of this round, but for the first stream.
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
            });
            if let Some(old) = round.checked_sub(3) {
                push(Body::ReleaseTensor { tensor: tensor(old, s) });
            }
        }
    }
    InstructionList {
        streams: (0..streams).map(decl).collect(),
        arenas: vec![device],
        externals: Vec::new(),
        ops,
        instructions,
    }
}

#[test]
fn a_million_instructions() {
    let list = rounds(16, 15_700);
    assert!(list.instructions.len() > 1_000_000);
    let found = check(list).map(|checked| checked.list().instructions.len());
    assert!(found.is_ok(), "{}", found.unwrap_err()[0]);
}

#[test]
fn many_streams() {
    let list = rounds(5_000, 6);
    assert!(violations(&list).is_empty());
    let mut broken = list;
    let at = broken.instructions.len() / 2;
    let wait =
        (at..).find(|&k| matches!(broken.instructions[k].body, Body::StreamWaitEvent { .. }));
    broken.instructions.remove(wait.unwrap());
    assert!(matches!(violations(&broken)[..], [Violation::Race { .. }, ..]));
}

/// Every line of this list races with every other, and one line names a million tensors.
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
