//! Every verb of the public surface in every mode: what it emits, whether the mode notes or
//! replaces it, and the whole error where it is refused.
//!
//! Long because it makes each mode.
//!
//! In errors, `VERB` is the place of the verb, and `MODE` a place of the mode.

mod table;

use std::fmt;
use std::sync::{Arc, Mutex};

use millstream::instructions::Kind;
use millstream::*;
use millstream_testing::machine::*;

use table::{NOTHING, Scene, VERBS, Verb};

/// A mode: runs a verb on a tensor of a device. None if the verb has no form there.
type Mode = fn(&'static Verb, &DeviceId) -> Option<Outcome>;

const MODES: &[(&str, Mode)] = &[
    ("plain", |verb, device| Some(act(&plain(device), verb))),
    ("tape of a leaf", |verb, device| Some(taped(verb, device, |x| x.with_grad().unwrap()))),
    ("tape of a result", |verb, device| {
        Some(taped(verb, device, |x| x.with_grad().unwrap().mul(2.0).unwrap()))
    }),
    ("recording of a function", |verb, device| Some(recorded(verb, device))),
    ("traced capture", |verb, device| Some(captured(verb, device))),
    ("traced replay", |verb, device| Some(replayed(verb, device))),
    ("resumed replay", |verb, device| Some(resumed(verb, device))),
    ("open batch", |verb, device| Some(batched(verb, device))),
    ("held by a section", |verb, device| Some(held(verb, device))),
    ("within the section", within),
    ("stream that runs no ops", ordered),
    ("callback", |verb, device| Some(called_back(verb, device, DriverKind::Threaded))),
    ("callback of the inline driver", |verb, device| {
        Some(called_back(verb, device, DriverKind::Inline))
    }),
    ("kernel", |verb, device| Some(in_a_kernel(verb, device))),
    ("closed machine", |verb, device| Some(closed(verb, device))),
];

#[test]
fn every_verb_in_every_mode() {
    let mut table = String::new();
    for (verb, outcomes) in outcomes(&CPU) {
        // Modes with one outcome share a line.
        let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
        for (mode, outcome) in outcomes {
            match lines.iter_mut().find(|(known, _)| *known == outcome) {
                Some((_, modes)) => modes.push(mode),
                None => lines.push((outcome, vec![mode])),
            }
        }
        table += &format!("{verb}\n");
        for (outcome, modes) in lines {
            table += &format!("  {}: {outcome}\n", modes.join(", "));
        }
    }
    insta::assert_snapshot!(table);
}

/// Tensors of another device take other ways through the machine.
#[test]
fn every_refusal_has_a_place() {
    for (verb, outcomes) in outcomes(&SIM) {
        for (mode, outcome) in outcomes {
            assert!(!outcome.contains(NO_PLACE), "{verb}, {mode}: {outcome}");
        }
    }
}

/// Verbs that make something of the program's beside a recording, which calls may then use; and the
/// end of what the program has begun.
const BESIDE: [&str; 4] = ["upload", "import", "variable", "end of a section"];

/// Verbs whose results depend on no tensor that a tape knows.
const INDEPENDENT: [&str; 2] = ["new tensor", "push"];

/// Verbs that a replay need not repeat: they make tensors of unspecified content.
const CONTENTLESS: [&str; 2] = ["empty tensor", "variable"];

#[test]
fn every_mode_notes_replaces_or_refuses_each_verb() {
    let mut silent = Vec::new();
    for verb in VERBS {
        let mut check = |mode: &str, is_settled: bool| {
            if !is_settled {
                silent.push(format!("{}, {mode}", verb.name));
            }
        };
        let done = recorded(verb, &CPU);
        let is_kept = done.emitted.are_observations() || BESIDE.contains(&verb.name);
        check("recording of a function", done.result.is_err() || is_kept);
        let computes = act(&plain(&CPU), verb).emitted.compute();
        for (mode, make) in [
            ("tape of a leaf", (|x| x.with_grad().unwrap()) as fn(Tensor) -> Tensor),
            ("tape of a result", |x| x.with_grad().unwrap().mul(2.0).unwrap()),
        ] {
            let done = taped(verb, &CPU, make);
            let is_noted = !done.then.is_empty() || INDEPENDENT.contains(&verb.name);
            check(mode, done.result.is_err() || !computes || is_noted);
        }
        let is_captured = captured(verb, &CPU).then == ", captured";
        let again = replayed(verb, &CPU);
        let is_repeated = !again.emitted.are_observations() || CONTENTLESS.contains(&verb.name);
        let has_effect = !act(&plain(&CPU), verb).emitted.are_observations();
        check("traced function", !is_captured || !has_effect || is_repeated);
    }
    assert!(silent.is_empty(), "run and neither noted, replaced nor refused: {silent:#?}");
}

/// Returns what becomes of each verb in each mode, without what the mode itself emits.
fn outcomes(device: &DeviceId) -> Vec<(&'static str, Vec<(&'static str, String)>)> {
    let alone: Vec<Option<Outcome>> = MODES.iter().map(|(_, run)| run(&NOTHING, device)).collect();
    let of = |verb| {
        let modes = MODES.iter().zip(&alone).filter_map(|((name, run), alone)| {
            let mut outcome = run(verb, device)?;
            if outcome.includes_mode {
                let own = alone.iter().flat_map(|alone| &alone.emitted.0);
                outcome.emitted.0.iter_mut().zip(own).for_each(|(n, own)| *n -= own);
            }
            Some((*name, outcome.to_string()))
        });
        modes.collect()
    };
    VERBS.iter().map(|verb| (verb.name, of(verb))).collect()
}

/// Numbers of instructions, by kind.
struct Counts(Vec<u64>);

impl Counts {
    fn of(&self, kind: Kind) -> u64 {
        self.0[kind as usize]
    }

    /// Whether nothing was emitted but what the host has seen.
    fn are_observations(&self) -> bool {
        self.0.iter().sum::<u64>() == self.of(Kind::HostObserved)
    }

    /// Whether elements were computed.
    fn compute(&self) -> bool {
        self.of(Kind::OpCall) + self.of(Kind::LazyJobLauncher) > 0
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Kind::ALL.iter().zip(&self.0).filter(|(_, n)| **n > 0);
        let all: Vec<String> = named
            .map(
                |(kind, n)| {
                    if *n == 1 { kind.name().into() } else { format!("{n} {}", kind.name()) }
                },
            )
            .collect();
        f.write_str(if all.is_empty() { "nothing" } else { "" })?;
        f.write_str(&all.join(" + "))
    }
}

/// What has become of a verb.
struct Outcome {
    /// How it ran, with a comma behind it.
    how: &'static str,
    result: Result<()>,
    emitted: Counts,
    /// Whether `emitted` includes what the mode emits by itself.
    includes_mode: bool,
    /// What the mode adds.
    then: String,
}

impl Outcome {
    fn new(result: Result<()>, emitted: Counts) -> Outcome {
        Outcome { how: "", result, emitted, includes_mode: false, then: String::new() }
    }

    /// Returns the outcome of a verb, with what the mode itself has emitted.
    fn with_mode(made: table::Made, emitted: Counts) -> Outcome {
        Outcome { includes_mode: true, ..Outcome::new(made.map(drop), emitted) }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { how, result, emitted, then, .. } = self;
        match result {
            Ok(()) => write!(f, "{how}emits {emitted}{then}"),
            Err(error) if emitted.0.iter().all(|n| *n == 0) => {
                write!(f, "{how}refused{then}: {}", text(error))
            }
            Err(error) => write!(f, "{how}emits {emitted}{then}, then refused: {}", text(error)),
        }
    }
}

const NO_PLACE: &str = "(no place)";

/// Returns an error with its places by name.
fn text(error: &Error) -> String {
    let mut text = error.to_string();
    for (file, name) in [(table::FILE, "VERB"), (file!(), "MODE")] {
        while let Some(at) = text.find(file) {
            let after = &text[at + file.len() + 1..];
            let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
            text.replace_range(at..at + file.len() + 1 + digits, name);
        }
    }
    let has_place = text.starts_with("VERB: ") || text.starts_with("MODE: ");
    if has_place { text } else { format!("{NO_PLACE} {text}") }
}

/// Returns the result of `work`, and what the machine has emitted meanwhile.
fn emitted_by<T>(m: &Machine, work: impl FnOnce() -> T) -> (T, Counts) {
    let before = m.stats().unwrap();
    let result = work();
    let after = m.stats().unwrap();
    (result, Counts(Kind::ALL.iter().map(|&kind| after.of(kind) - before.of(kind)).collect()))
}

/// Runs a verb.
fn act(scene: &Scene, verb: &Verb) -> Outcome {
    // What it returns lives until the counts are taken.
    let (made, emitted) = emitted_by(&scene.m, || (verb.run)(scene));
    Outcome::new(made.map(drop), emitted)
}

fn plain(device: &DeviceId) -> Scene {
    Scene::new(&inline(), device, |x| x)
}

fn taped(verb: &Verb, device: &DeviceId, make: impl FnOnce(Tensor) -> Tensor) -> Outcome {
    let m = inline();
    let tape = m.tape();
    let scene = Scene::new(&m, device, make);
    let before = format!("{tape:?}");
    let done = act(&scene, verb);
    let then = if before == format!("{tape:?}") { "" } else { ", noted" };
    Outcome { then: then.to_owned(), ..done }
}

fn recorded(verb: &Verb, device: &DeviceId) -> Outcome {
    let scene = plain(device);
    let mut done = None;
    let recorded = scene.m.record(|r| {
        let x = r.input_on("x", f32_spec(&[2]), device)?;
        let function = r.function(&[x], |inputs| {
            done = Some(act(&scene.clone().about(&inputs[0]), verb));
            Ok(Vec::new())
        });
        function.map(drop)
    });
    let then = match recorded.and_then(Recorded::compile_as_is) {
        Ok(executable) => {
            let mut counts = Counts(vec![0; Kind::ALL.len()]);
            for instruction in &executable.list().instructions {
                counts.0[instruction.body.kind() as usize] += 1;
            }
            format!(", records {counts}")
        }
        Err(error) => format!(", the recording fails: {}", text(&error)),
    };
    Outcome { then, ..done.unwrap() }
}

/// A traced function that runs a verb, and then goes on by what it reads from its second input.
struct Function {
    f: Traced,
    /// What has become of the verb, each time that the function ran.
    runs: Arc<Mutex<Vec<Outcome>>>,
    scene: Scene,
    /// Second inputs: zero and one.
    controls: [Tensor; 2],
}

impl Function {
    fn new(verb: &'static Verb, device: &DeviceId) -> Function {
        let (scene, runs) = (plain(device), Arc::<Mutex<Vec<Outcome>>>::default());
        let (inner, seen) = (scene.clone(), runs.clone());
        let f = scene.m.traced(move |inputs, _| {
            let done = act(&inner.clone().about(&inputs[0]), verb);
            seen.lock().unwrap().push(done);
            inputs[1].read()?;
            Ok(Vec::new())
        });
        let controls = [0.0, 1.0].map(|value| upload(&cpu(&scene.m, 0), &scene.m, &[value]));
        Function { f, runs, scene, controls }
    }

    fn call(&self, control: usize) -> Result<Vec<Tensor>> {
        self.f.call(&[&self.scene.x, &self.controls[control]]).run()
    }
}

fn captured(verb: &'static Verb, device: &DeviceId) -> Outcome {
    let function = Function::new(verb, device);
    let function = Function { f: function.f.strict(), ..function };
    let then = match function.call(0) {
        Ok(_) => ", captured".to_owned(),
        Err(error) => format!(", not captured: {}", text(&error)),
    };
    let done = function.runs.lock().unwrap().remove(0);
    Outcome { then, ..done }
}

fn replayed(verb: &'static Verb, device: &DeviceId) -> Outcome {
    let function = Function::new(verb, device);
    function.call(0).unwrap();
    function.runs.lock().unwrap().clear();
    let (called, emitted) = emitted_by(&function.scene.m, || function.call(0));
    let is_replayed = function.f.report().replays > 0;
    match function.runs.lock().unwrap().pop() {
        Some(again) => Outcome { how: "runs again, ", ..again },
        None if is_replayed => {
            let done = Outcome::new(called.map(drop), emitted);
            Outcome { how: "replayed, ", includes_mode: true, ..done }
        }
        None => Outcome { how: "does not run, ", ..Outcome::new(called.map(drop), emitted) },
    }
}

fn resumed(verb: &'static Verb, device: &DeviceId) -> Outcome {
    let function = Function::new(verb, device);
    function.call(0).unwrap();
    function.runs.lock().unwrap().clear();
    let (called, emitted) = emitted_by(&function.scene.m, || function.call(1));
    let how = if function.f.report().resumptions > 0 { "compared, " } else { "runs again, " };
    match function.runs.lock().unwrap().pop() {
        Some(again) => Outcome { how, result: again.result.and(called.map(drop)), ..again },
        None => Outcome { how: "does not run, ", ..Outcome::new(called.map(drop), emitted) },
    }
}

fn batched(verb: &Verb, device: &DeviceId) -> Outcome {
    let scene = plain(device);
    let z = upload(&cpu(&scene.m, 0), &scene.m, &[1.0]);
    let (s, prepared) = (cpu(&scene.m, 0), scene.m.prepare("neg_", &[&z], Attrs::new()).unwrap());
    let (made, emitted) = emitted_by(&scene.m, || {
        let mut batch = scene.m.batch();
        batch.call(&prepared, &s).unwrap();
        (verb.run)(&scene)
    });
    Outcome::with_mode(made, emitted)
}

fn held(verb: &Verb, device: &DeviceId) -> Outcome {
    let scene = plain(device);
    let _section = scene.m.critical_section(&[&scene.x]).unwrap();
    act(&scene, verb)
}

fn within(verb: &Verb, device: &DeviceId) -> Option<Outcome> {
    let scene = plain(device);
    let section = scene.m.critical_section(&[&scene.x]).unwrap();
    let within = verb.within?;
    let (made, emitted) = emitted_by(&scene.m, || within(&scene, &section));
    Some(Outcome::new(made.map(drop), emitted))
}

fn ordered(verb: &Verb, device: &DeviceId) -> Option<Outcome> {
    let scene = plain(device);
    let s = scene.m.stream(&StreamKey::new(CPU, StreamType::BARRIER, 1)).unwrap();
    verb.names_stream.then(|| act(&scene.on(s), verb))
}

fn called_back(verb: &'static Verb, device: &DeviceId, driver: DriverKind) -> Outcome {
    let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
    let scene = Scene::new(&m, device, |x| x);
    let z = upload(&cpu(&m, 2), &m, &[1.0]);
    let (inner, seen) = (scene.clone(), Arc::new(Mutex::new(None)));
    let out = seen.clone();
    let ((), emitted) = emitted_by(&m, || {
        let work = move |_: &mut Blob<'_>| {
            *out.lock().unwrap() = Some((verb.run)(&inner));
            Ok(())
        };
        z.access(Access::Read, work).unwrap().wait_for(LONG).unwrap();
    });
    let made = seen.lock().unwrap().take().unwrap();
    Outcome::with_mode(made, emitted)
}

fn in_a_kernel(verb: &'static Verb, device: &DeviceId) -> Outcome {
    let (here, seen) = (Arc::new(Mutex::new(None::<Scene>)), Arc::new(Mutex::new(None)));
    let mut config = config(DriverKind::Threaded, SyncPolicy::Frontier);
    let (given, out) = (here.clone(), seen.clone());
    add_op(&mut config, "verb", move |_| {
        let scene = given.lock().unwrap().take().unwrap();
        *out.lock().unwrap() = Some((verb.run)(&scene));
        Ok(())
    });
    let m = Machine::new(config).unwrap();
    let (scene, z) = (Scene::new(&m, device, |x| x), upload(&cpu(&m, 2), &m, &[1.0]));
    *here.lock().unwrap() = Some(scene.clone());
    let (_result, emitted) = emitted_by(&m, || {
        let result = call(&m, "verb", &[&z], &cpu(&m, 2));
        result.synchronize_for(LONG).unwrap();
        result
    });
    let made = seen.lock().unwrap().take().unwrap();
    Outcome::with_mode(made, emitted)
}

fn closed(verb: &Verb, device: &DeviceId) -> Outcome {
    let scene = plain(device);
    scene.m.clone().shutdown(LONG);
    act(&scene, verb)
}
