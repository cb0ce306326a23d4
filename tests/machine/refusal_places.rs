//! Every refusal of captures, recordings and launches names the place of the call that it refuses:
//! not that of the traced function, and no place within the library.
//!
//! Long because each refusal has its case here. The sources are searched for others.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use millstream::instructions::text::{parse_list, print_list};
use millstream::types::ReadId;
use millstream::*;
use millstream_testing::machine::*;
use millstream_verify::{CheckOptions, check_with};

const FILE: &str = "refusal_places.rs";

thread_local! {
    /// The line of the call that is to be refused.
    static LINE: Cell<u32> = const { Cell::new(0) };
}

/// Makes a call that is to be refused, and notes its line.
macro_rules! here {
    ($call:expr) => {{
        LINE.set(line!());
        $call
    }};
}

/// The errors so far.
#[derive(Default)]
struct Refused(String);

impl Refused {
    /// Checks that a result is an error with this text, at the line that was noted last.
    #[track_caller]
    fn is<T>(&mut self, text: &str, result: Result<T>) {
        let Err(error) = result else { panic!("{text}: accepted") };
        let error = error.to_string();
        assert!(error.contains(text), "{text}: {error}");
        let place = format!("{FILE}:{}", LINE.get());
        assert!(error.contains(&place), "expected {place}: {error}");
        self.0 += &error;
        self.0.push('\n');
    }

    /// Checks that a strict function is refused.
    #[track_caller]
    fn strict(
        &mut self,
        text: &str,
        x: &Tensor,
        function: impl Fn(&Tensor) -> Result<Vec<Tensor>> + Send + Sync + 'static,
    ) {
        let f = x.machine().traced(move |inputs, _| function(&inputs[0])).strict();
        self.is(text, f.call(&[x]).run());
    }

    /// Checks that a function of a recording is refused.
    #[track_caller]
    fn function(&mut self, text: &str, m: &Machine, function: impl Fn(&Tensor) -> Result<()>) {
        let recorded = m.record(|r| {
            let x = r.input("x", f32_spec(&[2]))?;
            r.function(&[x], |inputs| function(&inputs[0]).map(|()| Vec::new())).map(drop)
        });
        self.is(text, recorded);
    }
}

fn two(m: &Machine) -> Tensor {
    Tensor::from_slice(&[1.0f32, -2.0], 2, m).unwrap()
}

fn released(m: &Machine) -> Tensor {
    let x = two(m);
    x.release().unwrap();
    x
}

/// Compiles y = relu(x).
fn relu(m: &Machine) -> Executable {
    let recorded = m.record(|r| {
        let x = r.input("x", f32_spec(&[2]))?;
        let y = r.call("relu", &[x]).run()?;
        r.output("y", &y[0])
    });
    recorded.unwrap().compile().unwrap()
}

/// Compiles the backward pass of a parameter.
fn backward(m: &Machine, w: &Tensor) -> Executable {
    let recorded = m.record(|r| {
        let x = r.input("x", f32_spec(&[2]))?;
        let pass = |inputs: &[Tensor]| {
            let tape = m.tape();
            tape.backward(&(w * &inputs[0])?.sum(..)?).map(|()| Vec::new())
        };
        r.function(&[x], pass).map(drop)
    });
    recorded.unwrap().compile().unwrap()
}

fn recordings(refused: &mut Refused) {
    let (m, other) = (inline(), inline());
    let (foreign, nowhere) = (two(&other), DeviceId::sim(99));
    let mut r = m.recorder();
    let elsewhere = StreamKey::compute(nowhere.clone(), 0);
    refused.is("sim:99", here!(r.stream(&elsewhere)));
    let key = StreamKey::compute(CPU, 0);
    let s = r.stream(&key).unwrap();
    refused.is("in-order", here!(r.stream_with_mode(&key, StreamMode::Pool)));
    let x = r.input("x", f32_spec(&[2])).unwrap();
    refused.is("the formal \"x\" is declared twice", here!(r.input("x", f32_spec(&[2]))));
    refused.is("sim:99", here!(r.input_on("z", f32_spec(&[2]), &nowhere)));
    refused.is("bytes", here!(r.input_in("z", f32_spec(&[2]), 4, &CPU)));
    refused.is("another machine", here!(r.bind(&foreign)));
    let gone = released(&m);
    refused.is("release", here!(r.bind(&gone)));
    let bound = two(&m);
    r.bind(&bound).unwrap();
    let may_change = "its storage is bound already as one that may change";
    refused.is(may_change, here!(r.constant(&bound)));
    r.scalar("rate", 0.5).unwrap();
    refused.is("the scalar \"rate\" is declared twice", here!(r.scalar("rate", 1.0)));
    let y = r.call("relu", &[x]).run().unwrap()[0];
    r.output("y", &y).unwrap();
    refused.is("the output \"y\" is declared twice", here!(r.output("y", &y)));
    refused.is("a list cannot release a formal", here!(r.release(x)));
    refused.is("it is the output \"y\"", here!(r.release(y)));
    refused.is("relu", here!(r.call("relu", &[]).run()));
    refused.is("unknown op", here!(r.call("rely", &[x]).run()));
    refused.is("known only by running it", here!(r.call("nonzero", &[x]).run()));
    refused.is("reaches", here!(r.view(&x, f32_spec(&[3]))));
    let z = r.call("neg", &[x]).run().unwrap()[0];
    r.release(z).unwrap();
    refused.is("release", here!(r.release(z)));
    refused.is("release", here!(r.output("z", &z)));
    refused.is("release", here!(r.touch(&[z], s)));
    refused.is("release", here!(r.read(&z, s)));
    refused.is("release", here!(r.access(&z, Access::Read, s, |_| Ok(()))));
    refused.is("release", here!(r.begin_section(&[z])));
    refused.is("release", here!(r.spec(&z)));
    refused.is("release", here!(r.device(&z)));
    refused.is("none is open", here!(r.end_section()));
    here!(r.begin_section(&[x]).unwrap());
    refused.is("never ended", r.finish());

    refused.is(
        "twice",
        m.record(|r| {
            r.input("x", f32_spec(&[2]))?;
            here!(r.input("x", f32_spec(&[2]))).map(drop)
        }),
    );
    let w = two(&m).with_grad().unwrap();
    let named = |r: &mut Recorder| {
        let x = r.input("x", f32_spec(&[2]))?;
        r.output("gradient 0", &x)?;
        r.function(&[x], |inputs| {
            m.tape().backward(&(&w * &inputs[0])?.sum(..)?).map(|()| Vec::new())
        })
    };
    let mut r = m.recorder();
    named(&mut r).unwrap();
    refused.is("the output \"gradient 0\" is declared twice", here!(r.finish()));
}

fn functions(refused: &mut Refused) {
    let (m, other) = (inline(), inline());
    refused.function("this thread records a function already", &m, |_| {
        here!(m.recorder().function(&[], |_| Ok(Vec::new()))).map(drop)
    });
    refused.function("no elements before a launch", &m, |x| here!(x.to_vec::<f32>()).map(drop));
    let foreign = two(&other);
    refused
        .function("the function that is being recorded", &m, |_| here!(foreign.relu()).map(drop));
    let random = Generator::new(7);
    refused.function("which no launch can repeat", &m, |_| {
        here!(random.set_state(GeneratorState::default()));
        Ok(())
    });
    let f = relu(&m);
    functions_of_the_host(refused, &m, &f);
    let mut leaked = None;
    let leaks = m.record(|r| {
        let x = r.input("x", f32_spec(&[2]))?;
        let leak = |inputs: &[Tensor]| {
            leaked = Some(inputs[0].relu()?);
            Ok(Vec::new())
        };
        r.function(&[x], leak).map(drop)
    });
    leaks.unwrap();
    let leaked = leaked.unwrap();
    let another = "the tensor belongs to another function that was recorded";
    refused.function(another, &m, |_| here!(leaked.relu()).map(drop));
    let w = two(&m).with_grad().unwrap();
    refused.function("it is of another recording", &m, |_| here!(w.set_grad(&leaked)));
    assert!(w.grad().is_none());
    w.set_grad(&released(&m)).unwrap();
    refused.function("release", &m, |_| here!(w.grad()).map_or(Ok(()), |_| Ok(())));
}

/// Functions that do what no launch of their list would do.
fn functions_of_the_host(refused: &mut Refused, m: &Machine, f: &Executable) {
    let (own, s, engine) = (two(m), cpu(m, 0), m.dependency_engine().unwrap());
    let mask = own.gt(0).unwrap();
    refused.function("its result's size is known only by running it", m, |_| {
        here!(own.masked_select_bounded(&mask)).map(drop)
    });
    let negate = m.prepare("neg_", &[&own], Attrs::new()).unwrap();
    refused.function("makes a prepared call", m, |_| here!(negate.on(&s)));
    refused
        .function("launches an executable", m, |x| here!(f.launch()).input("x", x).run().map(drop));
    refused.function("pushes a function", m, |_| here!(engine.push(|| ())).spawn());
    refused.function("has the host use a tensor's memory", m, |_| {
        here!(own.access(Access::Read, |_| Ok(()))).map(drop)
    });
    refused.function("releases a tensor from outside", m, |_| here!(own.release()));
    refused
        .function("begins a critical section", m, |_| here!(m.critical_section(&[&own])).map(drop));
    let event = s.record_event().unwrap();
    refused.function("waits for an event from outside", m, |_| here!(s.wait_event(&event)));
    let rate = optimisers::Rate::from(0.5);
    refused.function("a rate is set by the program", m, |_| here!(rate.set(0.25)));
}

/// Functions that do what no replay would repeat.
fn captures_of_the_host(refused: &mut Refused, m: &Machine, x: &Tensor) {
    let s = cpu(m, 0);
    let none = || Ok(Vec::new());
    refused.strict("the size of a result depends on data", x, |x| {
        here!(x.masked_select_bounded(&x.gt(0)?))?;
        Ok(Vec::new())
    });
    refused.strict("the size of a result of nonzero depends on data", x, |x| {
        here!(x.nonzero())?;
        Ok(Vec::new())
    });
    let negate = m.prepare("neg_", &[&two(m)], Attrs::new()).unwrap();
    let on = s.clone();
    refused.strict("it makes a prepared call", x, move |_| {
        here!(negate.on(&on)).and_then(|()| none())
    });
    let inner = m.clone();
    refused.strict("it makes prepared calls", x, move |_| {
        drop(here!(inner.batch()));
        none()
    });
    let engine = m.dependency_engine().unwrap();
    refused.strict("it pushes a function of the program", x, move |_| {
        here!(engine.push(|| ())).spawn()?;
        none()
    });
    let inner = m.clone();
    refused.strict("it takes memory of another library", x, move |_| {
        let lent = two(&inline()).to_dlpack()?;
        // SAFETY: the structure is another machine's, and is used nowhere else.
        unsafe { here!(Tensor::from_dlpack(lent.into_raw(), &inner)) }?;
        none()
    });
    refused.strict("a host function uses a tensor's memory", x, |x| {
        here!(x.access(Access::Read, |_| Ok(())))?;
        Ok(Vec::new())
    });
    refused.strict("it releases a tensor by hand", x, |x| {
        let y = x.relu()?;
        here!(y.release())?;
        Ok(Vec::new())
    });
    let rate = optimisers::Rate::from(0.5);
    let w = two(m).with_grad().unwrap();
    w.set_grad(&w.ones_like().unwrap()).unwrap();
    let settings = optimisers::Sgd { lr: rate.clone(), ..optimisers::Sgd::default() };
    optimisers::sgd(&[&w], &mut optimisers::State::default(), &settings).unwrap();
    refused.strict("it sets a learning rate", x, move |_| {
        here!(rate.set(0.25))?;
        none()
    });
    sections_in_captures(refused, m, x);
}

fn sections_in_captures(refused: &mut Refused, m: &Machine, x: &Tensor) {
    let (inner, y) = (m.clone(), two(m));
    refused.strict("it begins a critical section", x, move |_| {
        here!(inner.critical_section(&[&y]))?;
        Ok(Vec::new())
    });
    let held = two(m);
    let section = Arc::new(Mutex::new(m.critical_section(&[&held]).ok()));
    let (inner, y, own) = (m.clone(), held.clone(), section.clone());
    refused.strict("it makes a call within a critical section", x, move |_| {
        let own = own.lock().unwrap();
        let call = here!(inner.call("neg_", &[&y]));
        if let Some(own) = own.as_ref() {
            call.within(own).run()?;
        }
        Ok(Vec::new())
    });
    let (y, own) = (held.clone(), section.clone());
    refused.strict("it reads a tensor within a critical section", x, move |_| {
        let own = own.lock().unwrap();
        here!(y.read_within(own.as_ref()))?;
        Ok(Vec::new())
    });
    let (s, y, own) = (cpu(m, 0), held.clone(), section.clone());
    refused.strict("it touches tensors within a critical section", x, move |_| {
        let own = own.lock().unwrap();
        here!(s.touch_within(&[&y], own.as_ref()))?;
        Ok(Vec::new())
    });
    refused.strict("it ends a critical section", x, move |_| {
        let own = section.lock().unwrap().take();
        if let Some(own) = own {
            here!(own.end())?;
        }
        Ok(Vec::new())
    });
}

fn launches(refused: &mut Refused) {
    let (m, other) = (inline(), inline());
    let (x, f) = (two(&m), relu(&m));
    let foreign = two(&other);
    refused.is("input \"x\" is not given", here!(f.launch().run()));
    refused.is("did you mean 'x'", here!(f.launch().input("X", &x).run()));
    refused.is("input \"x\" is given twice", here!(f.launch().input("x", &x).input("x", &x).run()));
    refused.is("another machine", here!(f.launch().input("x", &foreign).run()));
    let short = Tensor::zeros(1, DType::F32, &m).unwrap();
    refused.is("was recorded as f32[2]", here!(f.launch().input("x", &short).run()));
    refused
        .is("share memory, and the list", here!(f.launch().input("x", &x).output("y", &x).run()));
    let views = m.record(|r| {
        let x = r.input_in("x", f32_spec(&[2]), 32, &CPU)?;
        let all = r.view(&x, f32_spec(&[8]))?;
        r.call("neg_", &[all]).run().map(drop)
    });
    let views = views.unwrap().compile().unwrap();
    refused.is("the list uses views of it within", here!(views.launch().input("x", &x).run()));
    let key = StreamKey::compute(CPU, 0);
    let computes = m.stream(&key).unwrap();
    refused.is("compute", here!(f.launch().input("x", &x).on(&computes).run()));
    let launched = f.launch().input("x", &x).run().unwrap();
    refused.is("did you mean 'y'", here!(launched.output("Y").map(drop)));
    refused.is("unknown read", here!(launched.take_read(ReadId(7))));
    refused.is("nothing looked for infinities", here!(launched.overflowed().map(drop)));

    let w = two(&m).with_grad().unwrap();
    let step = backward(&m, &w);
    w.set_grad(&x).unwrap();
    let found = "with no gradient where there is one at the launch; drop it with `zero_grad`, or";
    refused.is(found, here!(step.launch().input("x", &x).run()));
    let adds = backward(&m, &w);
    w.zero_grad();
    let missing = "a gradient where there is none at the launch; record another list for that";
    refused.is(missing, here!(adds.launch().input("x", &x).run()));
    let tape = m.tape();
    let y = w.relu().unwrap();
    refused.is("a launch", here!(f.launch().input("x", &y).run()));
    drop(tape);

    let mut r = m.recorder();
    let input = r.input("x", f32_spec(&[2])).unwrap();
    refused.is("input \"x\" is not given", here!(r.launch(&f).run()));
    refused.is("did you mean 'x'", here!(r.launch(&f).input("X", &input).run()));
    let finds = "it finds or leaves gradients, which is for launches by the program";
    refused.is(finds, here!(r.launch(&step).input("x", &input).run()));
    let outer = m.record(|r| {
        let x = r.input("x", f32_spec(&[2]))?;
        r.launch(&f).input("x", &x).run().map(drop)
    });
    let outer = outer.unwrap().compile().unwrap();
    let nested = "it launches other executables itself, which no list can hold";
    refused.is(nested, here!(r.launch(&outer).input("x", &input).run()));
    let there = relu(&other);
    refused.is("another machine", here!(r.launch(&there).input("x", &input).run()));

    let bytes = TensorSpec::contiguous(DType::U8, &[2048]).unwrap();
    let flips = m.record(|r| {
        let sim = r.stream(&StreamKey::compute(SIM, 0))?;
        let (x, far) = (r.input("x", bytes.clone())?, r.input_on("far", bytes.clone(), &SIM)?);
        let host = r.stream(&key)?;
        for (name, x, stream) in [("y", x, host), ("z", far, sim)] {
            let flip = |r: &mut Recorder, x| {
                r.call("flip", &[x]).attr("dims", vec![0i64]).on(stream).map(|made| made[0])
            };
            let once = flip(r, x)?;
            let twice = flip(r, once)?;
            r.output(name, &twice)?;
        }
        Ok(())
    });
    let flips = flips.unwrap().compile().unwrap();
    let memory = Tensor::zeros(8192, DType::U8, &m).unwrap();
    let host = memory.narrow(0, 0, 2048).unwrap();
    let far = Tensor::zeros(2048, DType::U8, (&m, &SIM)).unwrap();
    #[track_caller]
    fn lent<'a>(
        of: &'a Executable,
        [x, far]: [&'a Tensor; 2],
        memory: &[&'a Tensor],
    ) -> LaunchBuilder<'a> {
        let launch = of.launch().input("x", x).input("far", far);
        memory.iter().fold(launch, |launch, tensor| launch.workspace(tensor))
    }
    let inputs = [&host, &far];
    refused.is("got none on sim:0", here!(lent(&flips, inputs, &[&memory]).run()));
    let two = "expected one tensor for each device with private memory, ";
    refused.is(two, here!(lent(&flips, inputs, &[&memory, &memory]).run()));
    refused.is(
        "expected a contiguous tensor of u8 at a",
        here!(lent(&flips, inputs, &[&short]).run()),
    );
    let small = memory.narrow(0, 0, 512).unwrap();
    refused
        .is("expected at least 2048 bytes on", here!(lent(&flips, inputs, &[&small, &far]).run()));
    let other = Tensor::zeros(2048, DType::U8, (&m, &SIM)).unwrap();
    refused.is(
        "give memory that no formal uses",
        here!(lent(&flips, inputs, &[&memory, &other]).run()),
    );

    let random = Generator::new(7);
    let scaled = m.record(|r| {
        let x = r.input("x", f32_spec(&[2]))?;
        let factor = r.scalar("factor", 1.0)?;
        r.call("mul_", &[x]).attr("other", factor).run()?;
        r.call("uniform_", &[x]).draw(&random).run().map(drop)
    });
    let scaled = scaled.unwrap().compile().unwrap();
    refused.is("did you mean 'factor'", here!(scaled.launch().scalar("Factor", 1.0).run()));
    let kind = "the scalar \"factor\" is a floating-point number, and 1 is given";
    refused.is(kind, here!(scaled.launch().scalar("factor", 1).run()));
    let twice = "the scalar \"factor\" is given twice";
    refused.is(twice, here!(scaled.launch().scalar("factor", 1.0).scalar("factor", 1.0).run()));
    let state = "the scalar \"seed0\" is the state of a generator, which has it";
    refused.is(state, here!(scaled.launch().scalar("seed0", 1).run()));
    let wrong = "factor: expected a number or a scalar of this list, got true";
    refused.is(wrong, here!(r.launch(&scaled).input("x", &input).scalar("factor", true).run()));
    let filled = m.record(|r| {
        let x = r.input("x", f32_spec(&[2]))?;
        let value = r.scalar("value", 1.0)?;
        r.call("fill", &[x]).attr("value", value).run().map(drop)
    });
    let filled = filled.unwrap().compile().unwrap();
    let large = "a call refuses a scalar: ";
    refused.is(large, here!(filled.launch().input("x", &x).scalar("value", 1e39).run()));
}

fn foreign_lists(refused: &mut Refused) {
    let m = inline();
    let x = two(&m);
    m.start_recording(&[("x", &x)]).unwrap();
    // The instructions of a list keep their places.
    let y = here!(x.relu()).unwrap();
    let of_relu = LINE.get();
    here!(y.access(Access::Read, |_| Ok(()))).unwrap();
    let text = print_list(&m.finish_recording().unwrap());
    let list = |text: &str| {
        let options = CheckOptions { callbacks: true };
        check_with(parse_list(text).unwrap(), options).unwrap()
    };
    let calls = list(&text);
    refused.is("cannot stand in a list from elsewhere", m.compile(&calls));
    LINE.set(of_relu);
    let kept = text.lines().filter(|line| !line.starts_with("AccessBlob")).collect::<Vec<_>>();
    let text = kept.join("\n");
    let schema = "its operands, accesses or workspace are not what its schema says";
    let in_place = list(&text.replace(" relu ", " add_ "));
    refused.is(schema, m.compile(&in_place));
    let product = list(&text.replace(" relu ", " matmul "));
    refused.is("2 operands are not what its schema says", m.compile(&product));
    let unknown = list(&text.replace(" relu ", " rely "));
    refused.is("rely", m.compile(&unknown));
    let stream = text.replace("cpu:0 compute 0", "sim:99 compute 0");
    let stream = list(&stream.replace("a0 cpu:0", "a0 sim:99"));
    refused.is("sim:99", here!(m.compile(&stream)));
    // `cumsum` may read an element after it has written there.
    let (x, y) = (two(&m), two(&m));
    m.start_recording(&[("x", &x), ("y", &y)]).unwrap();
    here!(x.cumsum(0)).unwrap();
    let over = print_list(&m.finish_recording().unwrap());
    let over = list(&over.replace("%2 write", "%0 write"));
    refused.is("give the result memory of its own", m.compile(&over));
}

fn captures(refused: &mut Refused) {
    let mut config = MachineConfig::default().driver(DriverKind::Inline);
    add_failing_ops(&mut config);
    let m = Machine::new(config).unwrap();
    let (x, s) = (two(&m), cpu(&m, 0));
    let on = s.clone();
    refused.strict("a tensor in a larger storage cannot be captured", &x, move |x| {
        Ok(vec![here!(x.machine().empty_in(&on, f32_spec(&[2]), 64))?])
    });
    refused.strict("it uses a tensor that another thread made meanwhile", &x, |x| {
        let make = || Tensor::ones(2, DType::F32, x.machine());
        let made = std::thread::scope(|scope| scope.spawn(make).join().unwrap())?;
        Ok(vec![here!(x.add(&made))?])
    });
    let part = x.narrow(0, 0, 1).unwrap();
    refused.strict("it takes from elsewhere a tensor in the memory of an input", &x, move |x| {
        Ok(vec![here!(x.add(&part))?])
    });
    let (on, event) = (s.clone(), s.record_event().unwrap());
    refused.strict("it waits for an event from outside", &x, move |_| {
        here!(on.wait_event(&event))?;
        Ok(Vec::new())
    });
    refused.strict("it returns a tensor that it made one with a gradient", &x, |x| {
        let y = x.relu()?;
        Ok(vec![here!(y.with_grad())?])
    });
    let held = Mutex::new(Vec::new());
    refused.strict("outlives the call without being returned", &x, move |x| {
        held.lock().unwrap().push(here!(x.relu())?);
        Ok(Vec::new())
    });
    let bad = m.call("fail", &[&x]).run().unwrap().remove(0);
    refused.strict("a read fails", &x, move |x| {
        let _ = here!(bad.read());
        Ok(vec![x.relu()?])
    });
    m.clear_failures();
    let (w, gradient) = (two(&m).with_grad().unwrap(), two(&m));
    w.set_grad(&gradient).unwrap();
    refused.strict("it takes the gradient of a tensor also from elsewhere", &x, move |x| {
        let y = x.add(&gradient)?;
        let _ = here!(w.grad());
        Ok(vec![y])
    });
    let w = two(&m).with_grad().unwrap();
    w.set_grad(&released(&m)).unwrap();
    refused.strict("release", &x, move |x| {
        let _ = here!(w.grad());
        Ok(vec![x.relu()?])
    });
    captures_of_the_host(refused, &m, &x);
    let f = relu(&m);
    refused.strict("it launches an executable", &x, move |x| {
        here!(f.launch()).input("x", x).run()?;
        Ok(Vec::new())
    });
    let f = m.traced(|inputs, _| Ok(vec![inputs[0].relu()?])).strict();
    let tape = m.tape();
    refused.is("a tape outside of the function notes its calls", here!(f.call(&[&x])).run());
    drop(tape);
    let gone = released(&m);
    refused.is("release", here!(f.call(&[&gone])).run());
}

/// Functions that do something else when they run again.
fn changes_of_mind(refused: &mut Refused) {
    let m = inline();
    let x = two(&m);
    let f = m.traced(|inputs, _| Ok(inputs.to_vec()));
    refused.is("dimension 3 of input 0", here!(f.call(&[&x])).dim(0, 3).run());
    refused.is("a dimension of input 1 of 1", here!(f.call(&[&x])).dim(1, 0).run());
    // Runs for one value, and again from the read on for another.
    let resumed = |function: fn(&Tensor, bool) -> Result<Vec<Tensor>>| {
        let has_run = AtomicBool::new(false);
        let f = m.traced(move |inputs, _| {
            // Relaxed: one thread.
            function(&inputs[0], has_run.swap(true, Ordering::Relaxed))
        });
        f.call(&[&x]).run().unwrap();
        let other = x.neg().unwrap();
        here!(f.call(&[&other])).run()
    };
    refused.is(
        "with equal inputs and reads it made relu",
        resumed(|x, again| {
            let y = if again { here!(x.neg())? } else { x.relu()? };
            y.read()?;
            Ok(vec![y])
        }),
    );
    refused.is(
        "with equal inputs and reads it made a read of input 0, and now nothing more",
        resumed(|x, again| {
            if again {
                return Ok(Vec::new());
            }
            x.read()?;
            Ok(vec![x.relu()?])
        }),
    );
    refused.is(
        "the function keeps a tensor that it dropped when it was captured",
        resumed(|x, again| {
            let mut y = Some(x.relu()?);
            y = y.filter(|_| again);
            x.read()?;
            Ok(vec![match y {
                Some(y) => here!(y.neg())?,
                None => x.neg()?,
            }])
        }),
    );
    // The function beside a replay.
    let verified = |function: fn(&Tensor, bool) -> Result<Vec<Tensor>>| {
        let has_run = AtomicBool::new(false);
        let f = m.traced(move |inputs, _| {
            // Relaxed: one thread.
            function(&inputs[0], has_run.swap(true, Ordering::Relaxed))
        });
        let f = f.verify_replays(1);
        f.call(&[&x]).run().unwrap();
        here!(f.call(&[&x])).run()
    };
    refused.is(
        "with equal inputs and reads it made mul",
        verified(|x, again| Ok(vec![if again { here!(x.mul(3.0))? } else { x.mul(2.0)? }])),
    );
    refused.is(
        "with equal inputs and reads it returned other tensors",
        verified(|x, again| x.mul(2.0).map(|y| vec![if again { x.clone() } else { y }])),
    );
    let kept = Arc::new(Mutex::new(Vec::new()));
    let inner = kept.clone();
    let f = m.traced(move |inputs, _| {
        inner.lock().unwrap().push(inputs[0].clone());
        Ok(Vec::new())
    });
    let f = f.strict();
    refused.is("it keeps input 0 for later", here!(f.call(&[&x])).run());
    refused.strict("it keeps its result neg(input 0)", &x, move |x| {
        let y = here!(x.neg())?;
        kept.lock().unwrap().push(y.clone());
        Ok(vec![y])
    });
}

/// Functions for a mesh.
fn functions_for_a_mesh(refused: &mut Refused) {
    let m = inline();
    let mesh = Mesh::new([0]).unwrap();
    let whole = Sharding::broadcast(&mesh);
    let shard = |outputs: &[&[Sbp]]| {
        let f = here!(m.shard(&mesh, |inputs| Ok(inputs.to_vec())));
        let f = f.input(f32_spec(&[2]), [sbp::OPEN]);
        outputs.iter().fold(f, |f, sbp| f.output(sbp.iter().copied())).compile()
    };
    refused.is("2 outputs are declared, and it returns 1", shard(&[&[sbp::B], &[sbp::B]]));
    refused.is("has 1 axes, and output 0 names 2", shard(&[&[sbp::B, sbp::B]]));
    let differs = |first: &'static [&'static str], again: &'static [&'static str]| {
        let is_first = Cell::new(true);
        let f = m.shard(&mesh, |inputs| {
            for op in if is_first.replace(false) { first } else { again } {
                here!(m.call(op, &[&inputs[0]]).one(&m.current_stream()?))?;
            }
            Ok(inputs.to_vec())
        });
        f.input(f32_spec(&[2]), [sbp::OPEN]).compile()
    };
    refused.is("its call 0 was relu of f32[2] at", differs(&["relu"], &["neg"]));
    refused.is("it made 1 call(s), and also neg", differs(&["relu"], &["relu", "neg"]));
    refused.is("it made 1 call(s), and 0 when it ran again", differs(&["relu"], &[]));
    let f = shard(&[]).unwrap();
    refused.is("expected 1 inputs, got 0", here!(f.call(&[])));
    let other = Tensor::zeros(3, DType::F32, (&m, &whole)).unwrap();
    refused.is("input 0 is f32[2], got f32[3]", here!(f.call(&[&other])));
    let held = here!(Tensor::zeros(2, DType::F32, (&m, &whole))).unwrap();
    refused.strict("it gives back a global tensor from elsewhere", &two(&m), move |_| {
        Ok(vec![held.clone()])
    });
}

/// The texts of refusals that no program can meet, each with the reason.
const UNREACHABLE: &[(&str, &str)] = &[
    ("it captures another function", "a function within another one is part of it"),
    ("is used before it begins", "the checker refuses the list first"),
    ("is not declared", "the checker refuses the list first"),
    ("a placement ends past all memory", "the checker refuses the list first"),
    ("runs no work", "the checker refuses the list first"),
    ("an operand never began", "the checker refuses the list first"),
    ("at most 2^32 - 1 executables", "a machine lives shorter"),
    ("an executable has at most 65,535", "lists of that size take a minute"),
    ("begins before its storage", "the extents of the formals are checked first"),
    ("a host function cannot use the memory of", "all devices here have memory of the host"),
];

/// Texts in these files that are no refusals: parts of the errors above, and reports.
const NO_REFUSALS: &[&str] = &[
    // The name of an output.
    "overflow on ",
    "sequence of passes",
    "nothing is called before",
    "nothing is compiled before",
    "nothing is launched before",
    "a launch is recorded by",
    "a call is recorded by",
    "not captured: ",
    "captured again: ",
    "switches it on again",
    "of the last calls far more were captured",
    "replays cost more than the few calls",
    "it cannot be captured",
    "; mostly ",
    "tapes of {:?} steps",
    "Sharded({} inputs",
    "the error: {}",
    "the input {k} {} held as",
    "the results {results",
];

/// The files of refusals.
const FILES: &[&str] = &[
    "vm/src/capture/draws.rs",
    "vm/src/capture/gradients.rs",
    "vm/src/capture/layer.rs",
    "vm/src/capture/replay.rs",
    "vm/src/capture/segment.rs",
    "vm/src/capture/session.rs",
    "vm/src/capture/traced.rs",
    "vm/src/executable/foreign.rs",
    "runtime/src/tapes/formal.rs",
    "vm/src/executable/function.rs",
    "vm/src/executable/gradients.rs",
    "vm/src/executable/kept.rs",
    "vm/src/executable/launch.rs",
    "vm/src/executable/launched.rs",
    "vm/src/executable/layer.rs",
    "vm/src/executable/mod.rs",
    "vm/src/executable/overflow.rs",
    "vm/src/executable/recorded.rs",
    "vm/src/executable/recorded_call.rs",
    "vm/src/executable/recorder.rs",
    "vm/src/executable/scalars.rs",
    "vm/src/executable/sharded.rs",
    "vm/src/executable/within.rs",
    "vm/src/executable/workspace.rs",
    "runtime/src/replay/compile/bases.rs",
    "runtime/src/replay/compile/draft.rs",
    "runtime/src/replay/compile/mod.rs",
    "runtime/src/replay/compile/numbers.rs",
    "runtime/src/replay/compile/scope.rs",
    "runtime/src/replay/compile/streams.rs",
    "runtime/src/replay/instance.rs",
    "runtime/src/replay/overlap.rs",
    "runtime/src/tapes/run.rs",
    "runtime/src/tapes/tape.rs",
];

/// The other files there, which make texts for reports.
const REPORTS: &[&str] = &[
    "vm/src/capture/comparison.rs",
    "vm/src/capture/numbers.rs",
    "vm/src/capture/run.rs",
    "vm/src/capture/symbolic.rs",
    "vm/src/executable/resized.rs",
    "vm/src/capture/key.rs",
    "vm/src/capture/limits.rs",
    "vm/src/capture/mod.rs",
    "vm/src/capture/note.rs",
    "vm/src/capture/report.rs",
    "vm/src/capture/arguments.rs",
    "vm/src/executable/cached.rs",
    "vm/src/executable/folded.rs",
    "vm/src/executable/host_outputs.rs",
    "vm/src/executable/show.rs",
    "runtime/src/replay/compile/graphs.rs",
    "runtime/src/replay/compile/graphs_tests.rs",
    "runtime/src/replay/mod.rs",
    "runtime/src/tapes/cache.rs",
    "runtime/src/tapes/graph.rs",
    "runtime/src/tapes/mod.rs",
    "runtime/src/tapes/place.rs",
    "runtime/src/tapes/recycled.rs",
];

/// Returns the texts of more than two words of a source, outside of its comments and tests.
fn texts(source: &str) -> Vec<String> {
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    let code: Vec<&str> = code.lines().filter(is_code).collect();
    let (code, mut texts) = (code.join("\n"), Vec::new());
    let mut rest = code.as_str();
    while let Some((_, after)) = rest.split_once('"') {
        let escaped = |at: usize| after[..at].ends_with('\\') && !after[..at].ends_with("\\\\");
        let Some(end) = after.match_indices('"').map(|(at, _)| at).find(|at| !escaped(*at)) else {
            break;
        };
        let lines = after[..end].split("\\\n").enumerate();
        let lines = lines.map(|(k, line)| if k == 0 { line } else { line.trim_start() });
        let text = lines.collect::<String>().replace("\\\"", "\"");
        // Errors of kind `Internal` are defects of the library.
        let before = &code[..code.len() - after.len()];
        let is_internal = before[before.rfind(';').unwrap_or(0)..].contains("Error::Internal")
            || after[end..].split(';').take(2).any(|part| part.contains("Error::Internal"));
        if text.matches(' ').count() > 1 && !is_internal {
            texts.push(text);
        }
        rest = &after[end + 1..];
    }
    texts
}

/// Returns the longest part of a text between the values that it shows.
fn longest_part(text: &str) -> &str {
    let parts = text.split('{').enumerate();
    let parts = parts.map(|(k, part)| match part.split_once('}') {
        Some((_, part)) if k > 0 => part,
        _ => part,
    });
    parts.max_by_key(|part| part.len()).unwrap_or_default()
}

#[test]
fn every_refusal_names_the_place_of_its_call() {
    let mut refused = Refused::default();
    recordings(&mut refused);
    functions(&mut refused);
    launches(&mut refused);
    foreign_lists(&mut refused);
    captures(&mut refused);
    changes_of_mind(&mut refused);
    functions_for_a_mesh(&mut refused);

    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates");
    let (mut without, mut found): (BTreeMap<&str, Vec<String>>, _) = (BTreeMap::new(), 0);
    for file in FILES {
        let source = std::fs::read_to_string(folder.join(file)).unwrap();
        for text in texts(&source) {
            found += 1;
            let listed = UNREACHABLE.iter().map(|(part, _)| part).chain(NO_REFUSALS);
            let is_listed = listed.into_iter().any(|part| text.contains(part));
            if !is_listed && !refused.0.contains(longest_part(&text)) {
                without.entry(file).or_default().push(text);
            }
        }
    }
    assert!(found > 40, "the search has found {found} texts");
    assert!(without.is_empty(), "refusals without a case in {FILE}: {without:#?}");
    let replay = ["runtime/src/replay", "runtime/src/replay/compile", "runtime/src/tapes"];
    for part in ["vm/src/capture", "vm/src/executable"].into_iter().chain(replay) {
        for entry in std::fs::read_dir(folder.join(part)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let path = format!("{part}/{name}");
            let is_known = FILES.iter().chain(REPORTS).any(|known| *known == path);
            assert!(is_known || !name.ends_with(".rs"), "{path} is in no list of {FILE}");
        }
    }
}
