//! Recording of a machine's emissions: each owner of a reused slot gets an id of its own.

use millstream_instructions::text::{OpNames, parse_instruction, print_list};
use millstream_instructions::{ArenaId, External, ListRecorder, StreamDecl};
use millstream_types::{DType, DeviceId, StreamKey, StreamMode, TensorId, TensorSpec};

/// Returns a recorder of these lines, which name ids of a machine.
fn record(lines: &str) -> ListRecorder {
    let mut recorder = ListRecorder::new();
    let mut names: OpNames = ["add", "mul"].into_iter().collect();
    recorder.ops(["add", "mul"].into_iter().collect());
    for (k, line) in lines.lines().map(str::trim).filter(|l| !l.is_empty()).enumerate() {
        recorder.push(&parse_instruction(line, k + 1, &mut names).unwrap());
    }
    recorder
}

#[test]
fn slots_used_again_get_new_names() {
    let recorder = record(
        "
        AllocateTensor s0 %7 f32[1] as 4 bytes at a0+0 generation 1
        OpCall s0:1 mul (%7 write)
        ViewTensor %2 of %7 f32[1]
        ReleaseTensor %7
        AllocateTensor s0 %7 f32[1] as 4 bytes at a0+512 generation 2
        OpCall s0:2 add (%2 read, %7 write)
        TouchTensors s0:3 (%7 read)
        SoftSyncStream s1 needs s0:2 for (%7, %2) by-device
        SyncRead s0:4 %7 read into read0
        AccessBlobByCallback s0:5 %2 readwrite cb0
        CriticalSectionBegin s2:1 (%7 readwrite)
        CriticalSectionEnd s2:2 (%7 readwrite)
        LazyJobLauncher s3:1 list0 (%2 read)
        ReleaseTensor %2
        ",
    );
    insta::assert_snapshot!(print_list(recorder.list()), @r#"
    millstream-list 1
    AllocateTensor s0 %0 f32[1] as 4 bytes at a0+0 generation 1
    OpCall s0:1 mul (%0 write)
    ViewTensor %1 of %0 f32[1]
    ReleaseTensor %0
    AllocateTensor s0 %2 f32[1] as 4 bytes at a0+512 generation 2
    OpCall s0:2 add (%1 read, %2 write)
    TouchTensors s0:3 (%2 read)
    SoftSyncStream s1 needs s0:2 for (%2, %1) by-device
    SyncRead s0:4 %2 read into read0
    AccessBlobByCallback s0:5 %1 readwrite cb0
    CriticalSectionBegin s2:1 (%2 readwrite)
    CriticalSectionEnd s2:2 (%2 readwrite)
    LazyJobLauncher s3:1 list0 (%1 read)
    ReleaseTensor %1
    "#);
}

#[test]
fn each_record_gets_a_name_and_waits_keep_to_it() {
    let recorder = record(
        "
        RecordEvent s0:1 e5
        StreamWaitEvent s1:1 until s0:1 by-device e5
        RecordEvent s0:2 e5
        StreamWaitEvent s1:2 until s0:2 by-device e5
        StreamWait s1:3 until s0:3 by-device e5
        StreamWaitEvent s2:1 until s0:3 by-device e5
        StreamWaitEvent s2:2 until s0:3 by-host
        StreamWaitEvent s2:3 until s0:3 by-device e9
        Barrier s3:1
        HostObserved (s0:3)
        ",
    );
    insta::assert_snapshot!(print_list(recorder.list()), @r#"
    millstream-list 1
    RecordEvent s0:1 e0
    StreamWaitEvent s1:1 until s0:1 by-device e0
    RecordEvent s0:2 e1
    StreamWaitEvent s1:2 until s0:2 by-device e1
    StreamWait s1:3 until s0:3 by-device e2
    StreamWaitEvent s2:1 until s0:3 by-device e2
    StreamWaitEvent s2:2 until s0:3 by-host
    StreamWaitEvent s2:3 until s0:3 by-device e3
    Barrier s3:1
    HostObserved (s0:3)
    "#);
}

#[test]
fn the_header_is_declared_by_id() {
    let mut recorder = record("OpCall s0:1 add (%4 readwrite)");
    assert_eq!((recorder.streams(), recorder.arenas()), (0, 0));
    recorder.stream(StreamDecl::new(StreamKey::compute(DeviceId::cpu(0), 0), StreamMode::Pool));
    recorder.arena(DeviceId::cpu(0));
    recorder.external(External {
        tensor: TensorId(9),
        name: "x".to_owned(),
        spec: TensorSpec::contiguous(DType::F32, &[2]).unwrap(),
        bytes: 8,
        arena: ArenaId(0),
    });
    assert_eq!((recorder.streams(), recorder.arenas()), (1, 1));
    insta::assert_snapshot!(print_list(&recorder.finish()), @r#"
    millstream-list 1
    stream s0 cpu:0 compute 0 pool
    arena a0 cpu:0
    external %1 "x" f32[2] in 8 bytes of a0
    OpCall s0:1 add (%0 readwrite)
    "#);
}
