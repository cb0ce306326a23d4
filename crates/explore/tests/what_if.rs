//! Predictions from profiles: on lists whose times are known exactly, and on small profiles made by
//! hand.
//!
//! Long because each profile made by hand stands before its cases.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use millstream_explore::predict::{Model, predict};
use millstream_explore::what_if::{
    Changes, Kernels, OpChange, Scaling, streams_as_assignment, what_if,
};
use millstream_instructions::InstructionList;
use millstream_instructions::passes::Pass;
use millstream_profile::model::{
    Instruction, NONE, Operand, Pause, Resolution, Role, Stream, Tensor, Times, Wait,
};
use millstream_profile::{Profile, Source};
use millstream_runner::{Assigner, RunOptions, lists};
use millstream_trace::{Assignment, LoadOptions, load};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn model(name: &str) -> Model {
    let text = std::fs::read_to_string(root().join("examples/models").join(name)).unwrap();
    Model::parse(&text).unwrap()
}

/// Returns the list of a program on so many streams.
fn list(path: &Path, streams: u32) -> InstructionList {
    let program = Arc::new(load(path, &LoadOptions::default()).unwrap());
    let options = RunOptions::default().in_turn(streams);
    let made = lists(&program, &options).unwrap();
    made.into_iter().find(|listing| listing.executable.is_none()).unwrap().list
}

/// Returns the profile that the cost model predicts.
fn by_model(list: &InstructionList) -> Profile {
    predict("a list", list, &model("desktop-cpu.json")).unwrap()
}

fn spread() -> Vec<PathBuf> {
    let pytorch = root().join("tests/traces/pytorch");
    let cases = [
        "gpt_train_adamw",
        "lstm_gru_infer",
        "mlp_train_sgd",
        "resnet_block_train",
        "shufflenet_infer",
        "transformer_encoder_infer",
    ];
    let mut paths: Vec<PathBuf> = cases.map(|case| pytorch.join(case).join("et.json.gz")).to_vec();
    paths.push(root().join("examples/pytorch/transformer_encoder_train/et.json.gz"));
    paths
}

fn calls(profile: &Profile) -> Vec<(String, String)> {
    let work = profile.instructions.iter().filter(|i| i.role == Role::Work);
    let one =
        |i: &Instruction| (profile.name_of(i).to_owned(), profile.stream_name(i.stream).to_owned());
    work.map(one).collect()
}

#[test]
fn without_a_change_a_prediction_stays_as_it_is() {
    for path in spread() {
        for streams in [1, 4] {
            let made = by_model(&list(&path, streams));
            let again = what_if(&made, &Changes::default()).unwrap();
            assert_eq!(again.total, made.total, "{}", path.display());
            let times = |profile: &Profile| -> Vec<Option<Times>> {
                profile.instructions.iter().map(|i| i.times).collect()
            };
            assert_eq!(times(&again), times(&made), "{}", path.display());
        }
    }
}

/// The recording of one stream, moved to more, is what the machine emits for more: each call on the
/// same stream, and nearly the same time. The machine's list has further waits where memory is used
/// again, which a prediction does not know of.
#[test]
fn more_streams_are_predicted_as_the_machine_emits_them() {
    for path in spread() {
        let one = by_model(&list(&path, 1));
        for streams in [2, 4] {
            let machine = by_model(&list(&path, streams));
            let changes = Changes {
                compute_streams: Some(streams),
                assigner: Assigner::RoundRobin,
                ..Changes::default()
            };
            let made = what_if(&one, &changes).unwrap();
            let at = path.display();
            assert_eq!(calls(&made), calls(&machine), "{at}");
            let off = made.total as f64 / machine.total as f64 - 1.0;
            assert!(off.abs() < 0.005, "{at} on {streams}: {} and {}", made.total, machine.total);
            assert!(made.total <= one.total, "{at}: several streams are not slower");
            let waits =
                |p: &Profile| p.instructions.iter().filter(|i| i.role == Role::Wait).count();
            let (own, emitted) = (waits(&made), waits(&machine));
            assert!(own <= emitted && own * 10 >= emitted * 9, "{at}: {own} of {emitted} waits");
            // And back.
            let changes = Changes { compute_streams: Some(1), ..Changes::default() };
            let back = what_if(&machine, &changes).unwrap();
            // Times of profiles are whole nanoseconds, those of the cost model are not.
            let off = back.total.abs_diff(one.total);
            assert!(off < 10, "{at}: {} and {}", back.total, one.total);
            assert!(!back.instructions.iter().any(|i| i.role == Role::Wait), "{at}");
        }
    }
}

/// Returns the list of a replayed program on so many streams: its launch, and its executable.
fn replayed(path: &Path, streams: u32) -> InstructionList {
    let program = Arc::new(load(path, &LoadOptions::default()).unwrap());
    let options = RunOptions::default().in_turn(streams).replay(true).emit(true);
    // Elementwise calls of one stream would become one call.
    let options = options.passes(&[Pass::Dead, Pass::Waits, Pass::Memory]);
    let report = millstream_runner::prepare(program, &options).unwrap().run().unwrap();
    let list = report.list.unwrap();
    assert_eq!(list.executables.len(), 1);
    list
}

/// As [`more_streams_are_predicted_as_the_machine_emits_them`], of a replay: its executable for
/// other streams is the one that is compiled for them.
#[test]
fn other_streams_of_an_executable_are_predicted_as_it_is_compiled() {
    let folder = tempfile::tempdir().unwrap();
    let all = spread();
    for path in [&all[2], &all[5], &all[6]] {
        let at = path.display();
        let one = by_model(&replayed(path, 1));
        let again = what_if(&one, &Changes::default()).unwrap();
        assert_eq!(again.total, one.total, "{at}");
        let machine = by_model(&replayed(path, 4));
        // Views take turns, too, and an executable has not all of them, so streams are assigned.
        let program = load(path, &LoadOptions::default()).unwrap();
        let options = RunOptions::default().in_turn(4);
        let file = folder.path().join("streams.json");
        std::fs::write(&file, millstream_runner::assignment(&program, &options).unwrap()).unwrap();
        let assignment = Some(Assignment::read(&file, &LoadOptions::default()).unwrap());
        let made = what_if(&one, &Changes { assignment, ..Changes::default() }).unwrap();
        let of_launch = |profile: &Profile| -> Vec<(String, String)> {
            let all = calls(profile).into_iter();
            all.filter(|(_, stream)| stream.ends_with(" in list0")).collect()
        };
        assert!(of_launch(&made).len() > 10, "{at}");
        assert_eq!(of_launch(&made), of_launch(&machine), "{at}");
        let off = made.total as f64 / machine.total as f64 - 1.0;
        assert!(off.abs() < 0.005, "{at}: {} and {}", made.total, machine.total);
        let changes = Changes { compute_streams: Some(1), ..Changes::default() };
        let back = what_if(&machine, &changes).unwrap();
        let off = back.total.abs_diff(one.total);
        assert!(off < 10, "{at}: {} and {}", back.total, one.total);
        let waits = back.instructions.iter().filter(|i| i.role == Role::Wait && i.parent != NONE);
        assert_eq!(waits.count(), 0, "{at}");
    }
}

/// Two streams: `a` of 10 and `b` of 20 side by side, then `c` of 5 behind both. `c` is on the
/// stream of `a`, and waits for `b`.
fn small() -> Profile {
    let stream = |k: u32| Stream {
        name: format!("cpu:0 compute {k}"),
        device: "cpu:0".to_owned(),
        ..Stream::default()
    };
    let tensor = |name: &str, storage| Tensor {
        name: name.to_owned(),
        spec: "f32[250]".to_owned(),
        storage,
    };
    let instruction = |name: u32, role, stream, [start, end]: [u64; 2], operands| Instruction {
        name,
        role,
        stream,
        seq: 1,
        place: NONE,
        times: Some(Times { ready: start, start, end }),
        operands,
        parent: NONE,
        ..Instruction::default()
    };
    let writes = |tensor| Operand { tensor, reads: false, writes: true };
    let reads = |tensor| Operand { tensor, reads: true, writes: false };
    Profile {
        title: "small".to_owned(),
        source: Source::Measured,
        streams: vec![stream(0), stream(1)],
        names: ["a", "b", "c", "StreamWaitEvent"].map(String::from).to_vec(),
        tensors: vec![tensor("x", 0), tensor("y", 1), tensor("z", 2)],
        storages: vec![Default::default(); 3],
        operands: vec![writes(0), writes(1), reads(0), reads(1), writes(2)],
        instructions: vec![
            instruction(0, Role::Work, 0, [0, 10], [0, 1]),
            instruction(1, Role::Work, 1, [0, 20], [1, 2]),
            instruction(3, Role::Wait, 0, [10, 20], [0, 0]),
            instruction(2, Role::Work, 0, [20, 25], [2, 5]),
        ],
        waits: vec![Wait {
            waiter: 2,
            until: 1,
            user: 3,
            resolution: Resolution::Host,
            covered_by: NONE,
            tensors: vec![1],
        }],
        total: 25,
        ..Profile::default()
    }
}

#[track_caller]
fn total(changes: Changes) -> u64 {
    what_if(&small(), &changes).unwrap().total
}

#[test]
fn waits_times_and_launches_change() {
    assert_eq!(total(Changes::default()), 25);
    let without = Changes { without_waits: vec![1], ..Changes::default() };
    assert_eq!(total(without), 20, "c runs from 10 to 15");
    let op = |text: &str| Changes { ops: vec![text.parse().unwrap()], ..Changes::default() };
    assert_eq!(total(op("b=x0.5")), 15);
    assert_eq!(total(op("b=2ns")), 15);
    assert_eq!(total(op("c=1us")), 1020);
    assert_eq!(total(op("a=x3")), 35);
    let launch = Changes { launch: Some(Scaling::Time(3)), ..Changes::default() };
    assert_eq!(total(launch), 31, "b and c begin 3 later, which are in a row");
}

#[test]
fn calls_move_to_other_streams() {
    let streams = |n| Changes {
        compute_streams: Some(n),
        assigner: Assigner::RoundRobin,
        ..Changes::default()
    };
    let one = what_if(&small(), &streams(1)).unwrap();
    assert_eq!(one.total, 35);
    assert!(!one.instructions.iter().any(|i| i.role == Role::Wait), "one stream needs no wait");
    let three = what_if(&small(), &streams(3)).unwrap();
    assert_eq!(three.total, 25);
    let waits = three.waits.iter().filter(|wait| !wait.resolution.is_elided()).count();
    assert_eq!(waits, 2, "c is alone, and waits for a and b");
    // Two streams of one worker take turns.
    let mut shared = small();
    shared.host_workers = 2;
    let threads = |n| Changes { threads: Some(n), ..Changes::default() };
    assert_eq!(what_if(&shared, &threads(2)).unwrap().total, 25);
    assert_eq!(what_if(&shared, &threads(1)).unwrap().total, 35);
}

/// On one worker the calls follow one another. On two, `c` waits for the other worker's `b`.
#[test]
fn a_wait_between_workers_takes_the_handoff_of_the_computer() {
    let mut one = small();
    one.host_workers = 1;
    one.handoff = Some(7);
    one.streams.iter_mut().for_each(|stream| stream.worker = Some(0));
    for (instruction, [start, end]) in
        one.instructions.iter_mut().zip([[0, 10], [10, 30], [10, 30], [30, 35]])
    {
        instruction.times = Some(Times { ready: start, start, end });
    }
    one.total = 35;
    let threads = |n| Changes { threads: Some(n), ..Changes::default() };
    assert_eq!(what_if(&one, &Changes::default()).unwrap().total, 35);
    assert_eq!(what_if(&one, &threads(1)).unwrap().total, 35, "no wait between workers");
    assert_eq!(what_if(&one, &threads(2)).unwrap().total, 20 + 7 + 5);
}

/// Calls of 10 on a pool of two workers, all submitted at the start.
fn on_a_pool(count: u64) -> Profile {
    let mut made = small();
    made.streams.truncate(1);
    (made.streams[0].pool, made.host_workers) = (true, 2);
    let call = &made.instructions[0];
    let calls = (0..count).map(|k| {
        let start = k / 2 * 10;
        let times = Some(Times { ready: start, start, end: start + 10 });
        Instruction { seq: k + 1, issued: Some(0), operands: [2, 3], times, ..call.clone() }
    });
    made.instructions = calls.collect();
    made.waits.clear();
    made.total = count.div_ceil(2) * 10;
    made
}

#[test]
fn calls_of_a_pool_wait_for_a_free_worker() {
    let recorded = on_a_pool(8);
    assert_eq!(what_if(&recorded, &Changes::default()).unwrap().total, 40);
    let threads = |n| Changes { threads: Some(n), ..Changes::default() };
    assert_eq!(what_if(&recorded, &threads(1)).unwrap().total, 80);
    assert_eq!(what_if(&recorded, &threads(4)).unwrap().total, 20);
}

/// Two streams, of which the second one waits for each call of the first one.
fn with_waits(count: u64) -> Profile {
    let mut made = small();
    let all = std::mem::take(&mut made.instructions);
    made.waits.clear();
    for k in 0..count {
        let at = 2 * k as u32 + k as u32;
        let times = |from: u64, to: u64| {
            let [start, end] = [from, to].map(|at| 20 * k + at);
            Some(Times { ready: start, start, end })
        };
        let seq = k + 1;
        made.instructions.extend([
            Instruction { seq, times: times(0, 10), ..all[0].clone() },
            Instruction { seq: 2 * k + 1, stream: 1, times: times(0, 10), ..all[2].clone() },
            Instruction { seq: 2 * k + 2, stream: 1, times: times(10, 20), ..all[1].clone() },
        ]);
        made.waits.push(Wait {
            waiter: at + 1,
            until: at,
            user: at + 2,
            ..small().waits[0].clone()
        });
    }
    made.total = 20 * count;
    made
}

/// Takes minutes if the time grows with the square of the calls.
#[test]
fn large_profiles_take_time_by_their_size() {
    let pool = on_a_pool(50_000);
    assert_eq!(what_if(&pool, &Changes::default()).unwrap().total, pool.total);
    let waits = with_waits(50_000);
    let without = Changes { without_waits: vec![1], ..Changes::default() };
    assert!(what_if(&waits, &without).unwrap().total < waits.total);
    let one = Changes { compute_streams: Some(1), ..Changes::default() };
    what_if(&waits, &one).unwrap();
}

#[test]
fn an_assignment_moves_calls() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("streams.json");
    let read = |text: &str| {
        std::fs::write(&path, text).unwrap();
        let assignment = Assignment::read(&path, &LoadOptions::default()).unwrap();
        what_if(&small(), &Changes { assignment: Some(assignment), ..Changes::default() })
    };
    let made = read(r#"{ "assign": [ { "op": "c", "stream": 1 } ] }"#).unwrap();
    assert_eq!(made.total, 25);
    let wait = made.waits.iter().find(|wait| !wait.resolution.is_elided()).unwrap();
    assert_eq!(made.instructions[wait.until as usize].name, 0, "c follows b, and waits for a");
    let made = read(r#"{ "assign": [ { "op": "a", "stream": 1 }, { "op": "c", "stream": 1 } ] }"#);
    assert_eq!(made.unwrap().total, 35);
    let wrong = read(r#"{ "assign": [ { "op": "d", "stream": 1 } ] }"#).unwrap_err();
    assert!(wrong.contains("no rule holds for a call of the profile"), "{wrong}");
    let wrong = read(r#"{ "assign": [ { "op": "c", "stream": "side" } ] }"#).unwrap_err();
    assert!(wrong.contains("unknown stream 'side'"), "{wrong}");
}

/// The program takes 4 between submissions; it waits for `b`, goes on 2 later, and submits `c`.
#[test]
fn the_program_waits_again() {
    let mut profile = small();
    profile.waits.clear();
    profile.instructions.remove(2);
    for (instruction, [issued, start, end]) in
        profile.instructions.iter_mut().zip([[4, 5, 15], [8, 10, 30], [36, 37, 42]])
    {
        instruction.issued = Some(issued);
        instruction.times = Some(Times { ready: start, start, end });
    }
    let pause = Pause { reason: "waits".to_owned(), until: 1, rank: 0, begin: 9, end: 32 };
    profile.pauses = vec![pause];
    profile.total = 50;
    let again = what_if(&profile, &Changes::default()).unwrap();
    assert_eq!((again.total, &again.pauses), (50, &profile.pauses));
    let faster = Changes { ops: vec!["b=5ns".parse().unwrap()], ..Changes::default() };
    let faster = what_if(&profile, &faster).unwrap();
    assert_eq!(faster.total, 35);
    assert_eq!((faster.pauses[0].end, faster.instructions[2].issued), (17, Some(21)));
}

#[test]
fn kernels_take_the_times_of_a_model() {
    let text = |gb: u32| {
        format!(
            r#"{{ "name": "m", "sources": [], "devices": {{ "cpu": {{ "launch_ns": 0,
                "memory_gb_s": {gb}, "from_host_gb_s": 1, "to_host_gb_s": 1,
                "gflop_s": {{ "other": 1000000 }} }} }} }}"#
        )
    };
    let model = |gb| Model::parse(&text(gb)).unwrap();
    let on = |kernels| Changes { model: Some(kernels), ..Changes::default() };
    // A tensor has 1000 bytes.
    let of = |model, measured_on| Kernels { model, measured_on, device: None };
    assert_eq!(total(on(of(model(10), None))), 100 + 300);
    assert_eq!(total(on(of(model(20), Some(model(10))))), 10 + 3);
}

#[test]
fn wrong_changes_are_refused() {
    let refused = |changes: Changes| what_if(&small(), &changes).unwrap_err();
    let wait = refused(Changes { without_waits: vec![2], ..Changes::default() });
    assert_eq!(wait, "there is no wait 2: the profile has one wait that takes time");
    let op = refused(Changes { ops: vec!["bb=x2".parse().unwrap()], ..Changes::default() });
    assert_eq!(op, "the profile has no op 'bb'; did you mean 'b'?");
    for wrong in ["matmul", "=x2", "matmul=", "matmul=2", "matmul=x", "matmul=-1us", "matmul=xNaN"]
    {
        assert!(wrong.parse::<OpChange>().is_err(), "{wrong}");
    }
    assert_eq!("1.5ms".parse(), Ok(Scaling::Time(1_500_000)));
    assert_eq!("12 us".parse(), Ok(Scaling::Time(12_000)));
    assert_eq!("0.5x".parse(), Ok(Scaling::Factor(0.5)));
    let empty = Profile::default();
    assert!(what_if(&empty, &Changes::default()).unwrap_err().contains("no times"));
}

/// The rules of an assignment are for lines and nodes of a trace.
#[test]
fn only_places_of_a_trace_become_rules() {
    let at = |place: &str| {
        let mut profile = small();
        profile.places = vec![place.to_owned()];
        profile.instructions.iter_mut().for_each(|i| i.place = 0);
        streams_as_assignment(&profile)
    };
    for place in ["step.json:12", "et.json.gz node 12"] {
        assert!(at(place).unwrap().contains("\"at\": 12"), "{place}");
    }
    for place in ["src/main.rs:12:5", ""] {
        let error = at(place).unwrap_err();
        assert!(error.contains("no call of the profile has a line or node"), "{error}");
    }
}
