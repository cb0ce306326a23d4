//! Launches in profiles of machines: steps, order, memory, needs to wait.

use millstream_instructions::passes::Pass;
use millstream_types::{DType, DeviceId, StreamId, StreamKey, StreamType, TensorSpec};
use millstream_vm::{Executable, Machine, MachineConfig, Tensor};

use millstream_profile::model::{Instruction, NONE, Role};
use millstream_profile::order::{Order, Reason};
use millstream_profile::{Profile, columns, measured, memory};

const CPU: DeviceId = DeviceId::cpu(0);

fn spec() -> TensorSpec {
    TensorSpec::contiguous(DType::F32, &[2]).unwrap()
}

/// y = relu(x) + x.
fn inner(machine: &Machine) -> Executable {
    let recorded = machine.record(|r| {
        let x = r.input("x", spec())?;
        let t = r.call("relu", &[x]).run()?[0];
        let y = r.call("add", &[t, x]).run()?[0];
        r.output("y", &y)
    });
    recorded.unwrap().compile_as_is().unwrap()
}

fn profile_of(machine: &Machine, executable: &Executable, launches: usize) -> Profile {
    let x = Tensor::from_slice(&[-1.0f32, 2.0], 2, machine).unwrap();
    let recording = machine.profile(&[("x", &x)]).unwrap();
    for _ in 0..launches {
        executable.launch().input("x", &x).run().unwrap();
    }
    measured("launches", &recording.finish().unwrap())
}

fn names_of(profile: &Profile, parent: u32) -> Vec<&str> {
    let own = profile.instructions.iter().filter(|i| i.parent == parent && i.role == Role::Work);
    own.map(|i| profile.name_of(i)).collect()
}

fn launches_of(profile: &Profile, parent: u32) -> Vec<u32> {
    let all = (0..).zip(&profile.instructions);
    let own = all.filter(|(_, i)| i.role == Role::Launch && i.parent == parent);
    own.map(|(k, _)| k).collect()
}

#[test]
fn a_launch_within_an_executable_has_steps_of_its_own() {
    let machine = Machine::new(MachineConfig::default()).unwrap();
    let inner = inner(&machine);
    let recorded = machine.record(|r| {
        let x = r.input("x", spec())?;
        let once = r.launch(&inner).input("x", &x).run()?[0];
        let twice = r.launch(&inner).input("x", &once).run()?[0];
        let y = r.call("mul", &[once, twice]).run()?[0];
        r.output("y", &y)
    });
    let outer = recorded.unwrap().compile_as_is().unwrap();
    let profile = profile_of(&machine, &outer, 1);
    let [launch] = launches_of(&profile, NONE)[..] else { panic!("{profile:?}") };
    let within = launches_of(&profile, launch);
    assert_eq!(within.len(), 2);
    for &of in &within {
        assert_eq!(names_of(&profile, of), ["relu", "add"]);
        assert_eq!(profile.root_of(of), launch);
        let times = profile.instructions[of as usize].times.unwrap();
        assert!(times.start < times.end);
    }
    assert!(names_of(&profile, launch).contains(&"mul"));
    let order = Order::of(&profile);
    let ends = |of: u32| -> Vec<&str> {
        let before = order.before(of as usize).iter();
        let steps = before.filter(|(_, reason)| *reason == Reason::Step);
        steps.map(|(k, _)| profile.name_of(&profile.instructions[*k as usize])).collect()
    };
    assert_eq!(ends(within[0]), ["add"]);
    assert!(ends(launch).contains(&"mul"), "{:?}", ends(launch));
    // The second launch comes after the first one.
    let is_step = |i: &Instruction| i.parent == within[1] && i.stream != NONE;
    let first = profile.instructions.iter().position(is_step).unwrap();
    let before: Vec<u32> = order.before(first).iter().map(|(k, _)| *k).collect();
    assert!(before.contains(&within[0]), "{before:?}");
    assert_eq!(columns::read(&columns::write(&profile)).unwrap(), profile);
}

/// Launches of one executable share its streams and its private memory.
#[test]
fn launches_follow_one_another() {
    let machine = Machine::new(MachineConfig::default()).unwrap();
    let profile = profile_of(&machine, &inner(&machine), 3);
    let launches = launches_of(&profile, NONE);
    assert_eq!(launches.len(), 3);
    for &launch in &launches {
        assert_eq!(names_of(&profile, launch), ["relu", "add"]);
    }
    let streams = profile.streams.iter().filter(|stream| stream.tape.is_some());
    assert_eq!(streams.count(), 1);
    let order = Order::of(&profile);
    for pair in launches.windows(2) {
        let first =
            profile.instructions.iter().position(|i| i.parent == pair[1] && i.role == Role::Work);
        let before: Vec<u32> = order.before(first.unwrap()).iter().map(|(k, _)| *k).collect();
        assert!(before.contains(&pair[0]), "{before:?} and {pair:?}");
    }
    let private = profile.arenas.iter().position(|arena| arena.contains(" in list")).unwrap();
    let held = memory::held(&profile, private as u32);
    assert_eq!(held.len(), 3);
    assert!(held.windows(2).all(|pair| pair[0].end <= pair[1].begin), "{held:?}");
}

/// Launches that may run side by side have private memory each, and streams of their own.
#[test]
fn instances_have_streams_of_their_own() {
    let machine = Machine::new(MachineConfig::default().host_workers(2)).unwrap();
    let inner = inner(&machine);
    let lazy =
        |k: u32| machine.stream(&StreamKey::new(CPU, StreamType::LAZY_JOB_LAUNCHER, k)).unwrap();
    let (first, second) = (lazy(0), lazy(1));
    inner.set_instances(2);
    let x = Tensor::from_slice(&[-1.0f32, 2.0], 2, &machine).unwrap();
    let recording = machine.profile(&[("x", &x)]).unwrap();
    for _ in 0..4 {
        for stream in [&first, &second] {
            inner.launch().input("x", &x).on(stream).run().unwrap();
        }
    }
    let profile = measured("instances", &recording.finish().unwrap());
    let names: Vec<&str> = profile
        .streams
        .iter()
        .filter(|stream| stream.tape.is_some())
        .map(|stream| stream.name.as_str())
        .collect();
    assert_eq!(names, ["cpu:0 compute 0 in list0", "cpu:0 compute 0 in list0, instance 2"],);
    // What one stream runs does not overlap.
    for stream in 0..profile.streams.len() as u32 {
        let own = profile.shown().filter(|(_, i, _)| i.stream == stream && i.parent != NONE);
        let mut times: Vec<_> = own.map(|(_, _, times)| (times.start, times.end)).collect();
        times.sort_unstable();
        assert!(times.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{times:?}");
    }
}

/// Without notes, the needs follow from the uses of the tensors.
#[test]
fn waits_have_their_tensors_after_passes() {
    let machine = Machine::new(MachineConfig::default()).unwrap();
    let list = |passes: &[Pass]| {
        let recorded = machine.record(|r| {
            let streams: Vec<StreamId> =
                (0..3).map(|k| r.stream(&StreamKey::compute(CPU, k))).collect::<Result<_, _>>()?;
            let x = r.input("x", spec())?;
            let a = r.call("relu", &[x]).on(streams[0])?[0];
            let b = r.call("neg", &[a]).on(streams[1])?[0];
            let c = r.call("add", &[a, b]).on(streams[2])?[0];
            let d = r.call("mul", &[a, c]).on(streams[1])?[0];
            r.output("d", &d)
        });
        recorded.unwrap().optimize(passes, |_, _| {}).unwrap().compile_as_is().unwrap()
    };
    let needs = |executable: &Executable| {
        let profile = profile_of(&machine, executable, 1);
        let name = |k: u32| {
            let found = profile.instructions.get(k as usize);
            found.map_or("?", |i| profile.name_of(i)).to_owned()
        };
        let mut all: Vec<_> = profile
            .waits
            .iter()
            .filter(|wait| {
                let user = profile.instructions.get(wait.user as usize);
                user.is_some_and(|user| user.parent != NONE)
            })
            .map(|wait| {
                let made = !wait.resolution.is_elided();
                (name(wait.user), name(wait.until), made, wait.tensors.len())
            })
            .collect();
        all.sort();
        all
    };
    let noted = needs(&list(&[]));
    assert_eq!(needs(&list(&[Pass::Dead])), noted);
    let made: Vec<_> = noted.iter().filter(|need| need.2).collect();
    assert_eq!(made.len(), 3, "{noted:?}");
    assert!(noted.iter().any(|need| !need.2), "{noted:?}");
}
