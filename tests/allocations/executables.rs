//! What an executable takes while it is idle, and what its compilation costs for each instruction.

use millstream::*;

use crate::{allocations, alone, bytes_in_use, thread_time};

fn machine() -> Machine {
    let config = MachineConfig::default().driver(DriverKind::Inline).threads(1);
    Machine::new(config).unwrap()
}

fn relu(m: &Machine, spec: &TensorSpec) -> Executable {
    let recorded = m.record(|r| {
        let x = r.input("x", spec.clone())?;
        let y = r.call("relu", &[x]).run()?[0];
        r.output("y", &y)
    });
    recorded.unwrap().compile().unwrap()
}

#[test]
fn an_idle_executable_of_one_op_takes_little_memory() {
    let _alone = alone();
    let m = machine();
    let x = Tensor::from_slice(&[1.0f32, -2.0], 2, &m).unwrap();
    let make = |count: usize, launches: usize| -> Vec<Executable> {
        let all: Vec<Executable> = (0..count).map(|_| relu(&m, x.spec())).collect();
        for executable in &all {
            for _ in 0..launches {
                executable.launch().input("x", &x).run().unwrap().wait().unwrap();
            }
        }
        all
    };
    // A launched one keeps the stream of its tape, and a launch to be used again.
    for (launches, most) in [(0, 2_120), (3, 3_400)] {
        let _first = make(100, launches);
        let before = bytes_in_use();
        let all = make(400, launches);
        let each = (bytes_in_use() - before) / all.len() as i64;
        assert!(each <= most, "{each} bytes for each after {launches} launches");
    }
}

/// The numbers that a launch draws are written where its calls read them: a launch allocates no
/// more than one whose seeds are fixed.
#[test]
fn the_numbers_of_a_launch_allocate_nothing() {
    let _alone = alone();
    let (m, random) = (machine(), [Generator::new(7), Generator::new(8)]);
    let [x, y] = [0.0f32, 1.0].map(|value| Tensor::full(4, value, &m).unwrap());
    let list = |draws: bool| {
        let recorded = m.record(|r| {
            let x = r.input("x", x.spec().clone())?;
            let mut last = x;
            for (op, random) in ["uniform_", "native_dropout"].iter().zip(&random) {
                let inputs = [last];
                let call = r.call(op, &inputs);
                let call = if *op == "native_dropout" { call.attr("p", 0.5) } else { call };
                last = if draws { call.draw(random) } else { call.attr("seed", 7) }.run()?[0];
            }
            r.output("y", &last)
        });
        recorded.unwrap().compile().unwrap()
    };
    let of = |executable: &Executable| {
        let round = || {
            (0..100).for_each(|_| {
                executable.launch().input("x", &x).output("y", &y).run().unwrap();
            });
            m.synchronize().unwrap();
        };
        round();
        let before = allocations();
        round();
        allocations() - before
    };
    let [fixed, drawn] = [false, true].map(|draws| of(&list(draws)));
    assert!(drawn < fixed + 50, "{drawn} allocations in 100 launches that draw, {fixed} without");
}

/// A launch that leaves a gradient writes it into a tensor of an earlier one, and allocates no more
/// than one with a tensor of the program for it.
#[test]
fn the_gradients_of_a_launch_allocate_nothing() {
    let _alone = alone();
    let m = machine();
    let x = Tensor::from_slice(&[0.5f32, -1.0], 2, &m).unwrap();
    let [w, y] = [(); 2].map(|()| Tensor::from_slice(&[1.0f32, 2.0], 2, &m).unwrap());
    let w = w.with_grad().unwrap();
    let recorded = m.record(|r| {
        let x = r.input("x", x.spec().clone())?;
        let function = |inputs: &[Tensor]| {
            let tape = inputs[0].machine().tape();
            tape.backward(&(&w * &inputs[0])?.tanh()?.sum(..)?)?;
            Ok(Vec::new())
        };
        r.function(&[x], function).map(drop)
    });
    let step = recorded.unwrap().compile().unwrap();
    let of = |is_given: bool| {
        let round = || {
            (0..100).for_each(|_| {
                w.zero_grad();
                let launch = step.launch().input("x", &x);
                let launch = if is_given { launch.output("gradient 0", &y) } else { launch };
                launch.run().unwrap();
            });
            m.synchronize().unwrap();
        };
        round();
        let before = allocations();
        round();
        allocations() - before
    };
    let [kept, given] = [false, true].map(of);
    // Tables of the machine grow now and then.
    assert!(kept < given + 50, "{kept} allocations in 100 launches, {given} with a given tensor");
}

/// Records `count` calls in a chain on a few streams, as a program of many layers does.
fn chain(m: &Machine, count: usize, releases: bool) -> Recorded {
    let recorded = m.record(|r| {
        let x = r.input("x", TensorSpec::contiguous(DType::F32, &[4]).unwrap())?;
        let w = r.input("w", TensorSpec::contiguous(DType::F32, &[4]).unwrap())?;
        let streams: Vec<_> =
            (0..3).map(|k| r.stream(&StreamKey::compute(DeviceId::cpu(0), k)).unwrap()).collect();
        let mut last = x;
        for k in 0..count {
            let op = ["add", "mul", "maximum"][k % 3];
            let next = r.call(op, &[last, w]).on(streams[k / 5 % 3])?[0];
            if releases && last != x {
                r.release(last)?;
            }
            last = next;
        }
        r.output("y", &last)
    });
    recorded.unwrap()
}

/// The cost of an instruction does not depend on how many there are. `MILLSTREAM_INSTRUCTIONS`
/// sets the most.
#[test]
fn compiling_costs_the_same_for_each_instruction() {
    let _alone = alone();
    let most = std::env::var("MILLSTREAM_INSTRUCTIONS").map_or(4_000, |most| most.parse().unwrap());
    let m = machine();
    for releases in [true, false] {
        // A call makes a tensor, and may release one.
        let calls = |instructions: usize| instructions / if releases { 3 } else { 2 };
        // The clock of a thread advances by milliseconds, so lists of a size are timed together.
        let cost = |size: usize| {
            let (count, repeats) = (calls(size), most / size);
            let begun = thread_time();
            // Recording takes little time, and is repeated.
            (0..5 * repeats).for_each(|_| drop(chain(&m, count, releases)));
            let recorded = thread_time() - begun;
            let lists: Vec<Recorded> = (0..repeats).map(|_| chain(&m, count, releases)).collect();
            let each = |list: &Recorded| list.list().instructions.len() as u64;
            let total: u64 = lists.iter().map(each).sum();
            let begun = thread_time();
            for list in lists {
                let executable = list.compile().unwrap();
                assert!(executable.tapes().iter().sum::<usize>() > count / 40);
            }
            [recorded / 5, thread_time() - begun].map(|time| time / total)
        };
        let few = cost(500);
        let many = cost(most);
        for (what, (few, many)) in ["record", "compile"].iter().zip(few.into_iter().zip(many)) {
            let of = format!("{what}, released {releases}");
            println!("{of}: {few} ns each of 500 instructions, {many} of {most}");
            // Caches and pages account for a factor, a square for the whole ratio.
            assert!(many <= 3 * few + 500, "{of}: {few} ns each of 500, {many} of {most}");
        }
    }
}
