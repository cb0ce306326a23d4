//! Tests of what repeats.

use millstream_vm::{Generator, Machine, MachineConfig, Tensor};

use super::search::{Round, rounds};
use super::{Repeat, of};
use crate::interned::Interned;
use crate::model::{self, Instruction, NONE, Operand, Profile, Role, Source, Stream};
use crate::summary::{self, Show};
use crate::{columns, measured, page};

/// A profile under construction, on two streams of two ranks.
struct Run {
    profile: Profile,
    names: Interned<String>,
    places: Interned<String>,
    arguments: Interned<String>,
}

impl Run {
    fn new() -> Run {
        let stream = |rank| Stream { rank, ..Stream::default() };
        let profile = Profile { streams: vec![stream(0), stream(1)], ..Profile::default() };
        let (names, places) = (Interned::default(), Interned::default());
        Run { profile, names, places, arguments: Interned::default() }
    }

    fn instruction(&mut self, name: &str, place: &str, role: Role) -> &mut Instruction {
        let name = self.names.number_of(name, &mut self.profile.names);
        let place = self.places.number_of(place, &mut self.profile.places);
        let plain = Instruction { name, role, place, parent: NONE, ..Instruction::default() };
        self.profile.instructions.push(plain);
        self.profile.instructions.last_mut().unwrap()
    }

    /// Makes a call of an op with one operand of a shape.
    fn call(&mut self, name: &str, place: &str, shape: &str, arguments: &str) {
        let tensor = self.profile.tensors.len() as u32;
        self.profile.tensors.push(model::Tensor { spec: shape.to_owned(), ..Default::default() });
        let from = self.profile.operands.len() as u32;
        self.profile.operands.push(Operand { tensor, reads: true, writes: false });
        let arguments = self.arguments.number_of(arguments, &mut self.profile.arguments);
        let own = self.instruction(name, place, Role::Work);
        (own.operands, own.arguments) = ([from, from + 1], Some(arguments));
    }

    /// Makes `count` different calls, whose places begin with a text.
    fn calls(&mut self, part: &str, count: usize) {
        for k in 0..count {
            self.call("add", &format!("{part}.rs:{k}"), &format!("f32[{k}]"), "");
        }
    }

    /// Reads a tensor.
    fn read(&mut self) {
        self.instruction("SyncRead", "read.rs:1", Role::Work);
    }

    fn repeats(&self) -> Vec<Repeat> {
        of(&self.profile)
    }

    /// Returns the calls, rounds and depth of each repeat.
    fn found(&self) -> Vec<(usize, usize, usize)> {
        let repeats = self.repeats();
        repeats.iter().map(|repeat| (repeat.calls, repeat.rounds, repeat.depth)).collect()
    }
}

#[test]
fn a_loop_repeats() {
    let mut run = Run::new();
    run.calls("before", 5);
    for _ in 0..19 {
        run.calls("train", 100);
    }
    run.calls("behind", 3);
    let (first, differing) = ([5, 104], Vec::new());
    let expected = Repeat { calls: 100, rounds: 19, first, depth: 0, around: 1908, differing };
    assert_eq!(run.repeats(), [expected]);
}

#[test]
fn a_run_that_does_not_repeat_has_no_repeats() {
    assert_eq!(Run::new().repeats(), []);
    let mut run = Run::new();
    run.calls("train", 3000);
    assert!(run.found().is_empty());
    // Twice is not enough, and neither is a small part of the run.
    run.calls("train", 3000);
    (0..3).for_each(|_| run.calls("small", 20));
    assert!(run.found().is_empty());
}

#[test]
fn equal_calls_at_other_places_or_on_other_shapes_are_other_calls() {
    let mut run = Run::new();
    for round in 0..10 {
        for k in 0..20 {
            run.call("add", &format!("a.rs:{k}"), &format!("f32[{round}]"), "");
        }
    }
    assert!(run.found().is_empty());
    for round in 0..3 {
        (0..2).for_each(|_| run.calls(&format!("part{round}"), 20));
    }
    assert!(run.found().is_empty());
}

#[test]
fn repeats_lie_within_repeats() {
    let mut run = Run::new();
    for _ in 0..10 {
        run.calls("head", 8);
        (0..12).for_each(|_| run.calls("layer", 40));
        run.calls("tail", 12);
        run.read();
    }
    let repeats = run.repeats();
    assert_eq!(run.found(), [(500, 10, 0), (40, 12, 1)]);
    assert_eq!((repeats[0].first, repeats[1].first), ([0, 499], [8, 47]));
    assert_eq!((repeats[0].around, repeats[1].around), (5000, 500));
    // Without a read between the rounds they are one loop.
    run.profile.instructions.retain(|i| i.arguments.is_some());
    assert_eq!(run.found(), [(500, 10, 0), (40, 12, 1)]);
}

#[test]
fn a_call_with_other_arguments_is_named() {
    let mut run = Run::new();
    for round in 0..5 {
        run.calls("front", 10);
        run.call("mul", "rate.rs:7", "f32[4]", &format!("other={}", round / 2));
        run.calls("back", 10);
        run.read();
    }
    let repeats = run.repeats();
    assert_eq!(run.found(), [(21, 5, 0)]);
    assert_eq!(repeats[0].differing, [[10, 10 + 2 * 22]]);
}

#[test]
fn what_no_capture_holds_divides_rounds() {
    // Ten rounds of two parts, with a read or a function of the program between them.
    let mut run = Run::new();
    for _ in 0..10 {
        run.calls("one", 20);
        run.read();
        run.calls("two", 30);
        run.instruction("load", "load.rs:1", Role::Work);
        // Follows from the calls, and divides nothing.
        run.instruction("StreamWait", "", Role::Wait);
    }
    assert_eq!(run.found(), [(30, 10, 0), (20, 10, 0)]);
}

#[test]
fn a_short_loop_is_found() {
    let mut run = Run::new();
    (0..100).for_each(|_| run.calls("x", 1));
    assert_eq!(run.found(), [(1, 100, 0)]);
    let mut run = Run::new();
    (0..100).for_each(|_| run.calls("x", 3));
    assert_eq!(run.found(), [(3, 100, 0)]);
}

#[test]
fn the_calls_of_a_trace_have_a_place_each() {
    let mut run = Run::new();
    for node in 0..300 {
        run.call("add", &format!("et.json node {node}"), &format!("f32[{}]", node % 30), "");
    }
    assert_eq!(run.found(), [(30, 10, 0)]);
}

#[test]
fn launches_and_other_programs_are_no_calls() {
    let mut run = Run::new();
    (0..10).for_each(|_| run.calls("train", 20));
    assert_eq!(run.found(), [(20, 10, 0)]);
    let mut other = run.profile.clone();
    other.source = Source::Imported;
    assert!(of(&other).is_empty());
    // Steps of a launch.
    run.profile.instructions.iter_mut().for_each(|i| i.parent = 0);
    assert!(run.found().is_empty());
}

#[test]
fn ranks_are_asked_one_by_one() {
    let mut run = Run::new();
    for rank in 0..2 {
        let begin = run.profile.instructions.len();
        (0..10).for_each(|_| run.calls("train", 20));
        run.profile.instructions[begin..].iter_mut().for_each(|i| i.stream = rank);
    }
    assert_eq!(run.found(), [(20, 10, 0), (20, 10, 0)]);
}

#[test]
fn files_keep_what_repeats_depends_on() {
    let mut run = Run::new();
    for round in 0..5 {
        run.calls("front", 20);
        run.call("mul", "rate.rs:7", "f32[4]", &format!("other={round}"));
    }
    run.profile.instructions.iter_mut().for_each(|i| i.stream = NONE);
    run.profile.tensors.iter_mut().for_each(|tensor| tensor.storage = 0);
    run.profile.storages = vec![model::Storage {
        tensor: NONE,
        allocated: NONE,
        released: NONE,
        last_use: NONE,
        ..Default::default()
    }];
    run.profile.arenas = vec!["cpu:0".to_owned()];
    let read = columns::read(&columns::write(&run.profile)).unwrap();
    assert_eq!(read, run.profile);
    assert_eq!(of(&read), run.repeats());
    assert_eq!(run.repeats()[0].differing.len(), 1);
}

/// Numbers that few programs would have in common.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    *state >> 33
}

#[test]
fn rounds_are_equal_and_do_not_overlap() {
    // Few tokens and many copies, so that phrases of all lengths begin and end.
    let mut state = 1;
    for _ in 0..50 {
        let mut tokens: Vec<u32> = Vec::new();
        while tokens.len() < 2000 {
            match random(&mut state) % 16 {
                0 if !tokens.is_empty() => {
                    let from = random(&mut state) as usize % tokens.len();
                    let to = tokens.len().min(from + 60);
                    tokens.extend_from_within(from..to);
                }
                choice => tokens.push(choice as u32 % 3),
            }
        }
        for Round { length, starts } in rounds(&tokens) {
            let round = |start: usize| &tokens[start..start + length];
            assert!(starts.len() > 1 && starts.iter().all(|s| round(*s) == round(starts[0])));
            assert!(starts.windows(2).all(|two| two[0] + length <= two[1]), "{starts:?}");
        }
    }
}

#[test]
fn long_runs_take_time_in_proportion_to_their_length() {
    // In the square of it, either would take minutes.
    let mut state = 1;
    let mut tokens: Vec<u32> = (0..300_000).map(|_| random(&mut state) as u32 % 50).collect();
    rounds(&tokens);
    tokens.fill(7);
    assert_eq!(rounds(&tokens)[0].starts.len(), 300_000);
}

/// Runs steps on a machine, of which each draws numbers, multiplies by another number than the one
/// before, and reads its result.
fn steps(count: usize) -> millstream_types::Result<Profile> {
    let machine = Machine::new(MachineConfig::default())?;
    let random = Generator::new(1);
    let profiling = machine.profile(&[])?;
    for step in 0..count {
        let mut x = Tensor::uniform(-1.0..1.0, (4, 4), &random, &machine)?;
        for _ in 0..4 {
            x = x.matmul(&x)?.tanh()?.i((0..4, ..))?.transpose(0, 1)?;
        }
        x.mul(0.5f64.powi(step as i32))?.sum(..)?.item::<f32>()?;
    }
    Ok(measured("steps", &profiling.finish()?))
}

#[test]
fn the_steps_of_a_recorded_run_repeat() {
    let profile = steps(12).unwrap();
    let repeats = of(&profile);
    let whole = &repeats[0];
    assert_eq!((whole.rounds, whole.depth, whole.around), (12, 0, 12 * whole.calls), "{repeats:?}");
    let place = |k: u32| profile.place_of(&profile.instructions[k as usize]);
    assert!(whole.first.iter().all(|k| place(*k).contains("tests.rs:")), "{repeats:?}");
    let [[one, then]] = whole.differing[..] else { panic!("{repeats:?}") };
    let arguments = |k: u32| profile.arguments_of(&profile.instructions[k as usize]);
    assert_eq!(profile.name_of(&profile.instructions[one as usize]), "mul");
    assert_eq!([one, then].map(arguments), [Some("other=1.0"), Some("other=0.5")]);
    // The loop within a step.
    assert!(repeats[1].rounds == 4 && repeats[1].depth == 1, "{repeats:?}");

    let mut text = Vec::new();
    let show = Show { rows: 12, terminal: false };
    summary::write(&profile, show, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    for part in ["use `Machine::traced`", "other=1.0", "other=0.5", "100.0 %", "· "] {
        assert!(text.contains(part), "no {part}:\n{text}");
    }
    let page = page::write(&profile);
    assert_eq!(page::read(page.as_bytes()).unwrap(), profile);
}
