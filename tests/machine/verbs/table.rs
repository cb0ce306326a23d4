//! The verbs of the public surface, each as a function of a scene.

use std::any::Any;
use std::sync::{Arc, Mutex};

use millstream::*;
use millstream_testing::machine::*;

/// This file, which verbs have their places in.
pub(super) const FILE: &str = file!();

/// What verbs act on.
#[derive(Clone)]
pub(super) struct Scene {
    pub(super) m: Machine,
    /// The tensor that a verb is about.
    pub(super) x: Tensor,
    /// A tensor that calls and copies write to.
    y: Tensor,
    /// The stream that verbs name.
    pub(super) s: Stream,
    /// Whether verbs that have a default stream name one, too.
    is_named: bool,
    other: Stream,
    event: Event,
    /// `neg_` of `x`.
    prepared: Prepared,
    /// `relu`.
    executable: Executable,
    engine: Arc<DependencyEngine>,
    /// The variable of `x`.
    var: Arc<Var>,
    completion: Completion,
    /// A section that holds another tensor.
    section: Arc<Mutex<Option<Section>>>,
    /// A tensor of another machine.
    lent: Arc<Mutex<Option<DlPack>>>,
}

impl Scene {
    /// Returns a scene on a device, whose tensor is what `make` returns for one there.
    pub(super) fn new(
        m: &Machine,
        device: &DeviceId,
        make: impl FnOnce(Tensor) -> Tensor,
    ) -> Scene {
        let stream = |index| m.compute(device, index).unwrap();
        let (s, other, lender) = (stream(0), stream(1), inline());
        let executable = m.record(|r| {
            let x = r.input_on("x", f32_spec(&[2]), device)?;
            let y = r.call("relu", &[x]).run()?;
            r.output("y", &y[0])
        });
        let x = make(upload(&s, m, &[1.0, -2.0]));
        let (event, engine) = (other.record_event().unwrap(), m.dependency_engine().unwrap());
        let held = m.critical_section(&[&upload(&s, m, &[0.0])]).unwrap();
        let lent = upload(&cpu(&lender, 0), &lender, &[5.0, 6.0]).to_dlpack().unwrap();
        Scene {
            m: m.clone(),
            y: upload(&s, m, &[3.0, 4.0]),
            is_named: false,
            other,
            prepared: m.prepare("neg_", &[&x], Attrs::new()).unwrap(),
            executable: executable.unwrap().compile().unwrap(),
            var: Arc::new(engine.var_of(&x).unwrap()),
            engine: Arc::new(engine),
            completion: event.completion(),
            event,
            section: Arc::new(Mutex::new(Some(held))),
            lent: Arc::new(Mutex::new(Some(lent))),
            s,
            x,
        }
    }

    /// Returns the scene with another tensor.
    pub(super) fn about(self, x: &Tensor) -> Scene {
        Scene { x: x.clone(), ..self }
    }

    /// Returns the scene with another stream, which all verbs name that can.
    pub(super) fn on(self, s: Stream) -> Scene {
        Scene { s, is_named: true, ..self }
    }
}

/// What a verb returns, so that it lives until it has been looked at.
pub(super) type Made = Result<Box<dyn Any + Send>>;

pub(super) struct Verb {
    pub(super) name: &'static str,
    /// Whether it names a stream.
    pub(super) names_stream: bool,
    pub(super) run: fn(&Scene) -> Made,
    /// The same within a section, if there is such a form.
    pub(super) within: Option<fn(&Scene, &Section) -> Made>,
}

fn kept<T: Any + Send>(made: Result<T>) -> Made {
    made.map(|made| Box::new(made) as Box<dyn Any + Send>)
}

/// A verb without a form for sections.
const fn verb(name: &'static str, run: fn(&Scene) -> Made) -> Verb {
    Verb { name, names_stream: false, run, within: None }
}

/// A verb that names a stream.
const fn on(name: &'static str, run: fn(&Scene) -> Made) -> Verb {
    Verb { names_stream: true, ..verb(name, run) }
}

impl Verb {
    const fn within(self, within: fn(&Scene, &Section) -> Made) -> Verb {
        Verb { within: Some(within), ..self }
    }
}

pub(super) const VERBS: &[Verb] = &[
    on("call", |c| kept(c.m.call("relu", &[&c.x]).on(&c.s)))
        .within(|c, held| kept(c.m.call("relu", &[&c.x]).within(held).on(&c.s))),
    verb("method", |c| kept(c.x.relu())),
    on("call in place", |c| kept(c.m.call("neg_", &[&c.x]).on(&c.s)))
        .within(|c, held| kept(c.m.call("neg_", &[&c.x]).within(held).on(&c.s))),
    on("call into a tensor", |c| kept(c.m.call("relu", &[&c.x]).out(&[&c.y]).on(&c.s)))
        .within(|c, held| kept(c.m.call("relu", &[&c.x]).out(&[&c.y]).within(held).on(&c.s))),
    verb("preparation", |c| kept(c.m.prepare("neg_", &[&c.x], Attrs::new()))),
    on("prepared call", |c| kept(c.prepared.on(&c.s))),
    on("batch", |c| kept(c.m.batch().call(&c.prepared, &c.s))),
    on("empty tensor", |c| kept(c.m.empty(&c.s, f32_spec(&[2])))),
    on("new tensor", |c| kept(Tensor::zeros(2, DType::F32, &c.s))),
    verb("view", |c| kept(c.x.view_storage(f32_spec(&[1])))),
    on("upload", |c| kept(c.m.upload(&c.s, f32_spec(&[2]), bytes(&[7.0, 8.0])))),
    on("copy", |c| kept(c.x.copy_to(&c.s))),
    verb("copy into a tensor", |c| kept(c.x.copy_into(&c.y))),
    verb("read", |c| kept(c.x.read())).within(|c, held| kept(c.x.read_within(Some(held)))),
    verb("release", |c| kept(c.x.release())).within(|c, held| kept(c.x.release_within(Some(held)))),
    verb("access", |c| kept(c.x.access(Access::ReadWrite, |_| Ok(())))),
    on("touch", |c| kept(c.s.touch(&[&c.x])))
        .within(|c, held| kept(c.s.touch_within(&[&c.x], Some(held)))),
    on("record of an event", |c| kept(c.s.record_event())),
    on("wait for an event", |c| kept(c.s.wait_event(&c.event))),
    on("wait for a stream", |c| kept(c.s.wait_stream(&c.other))),
    verb("barrier", |c| kept(c.m.barrier())),
    verb("barrier of ranks", |c| kept(c.m.global_sync())),
    verb("host's wait for all", |c| kept(c.m.synchronize())),
    on("host's wait for a stream", |c| kept(c.s.synchronize())),
    verb("host's wait for a tensor", |c| kept(c.x.synchronize())),
    verb("host's wait for an event", |c| kept(c.event.synchronize())),
    verb("host's wait for a completion", |c| kept(c.completion.wait())),
    verb("completion of all", |c| kept(c.m.completion())),
    on("completion of a stream", |c| kept(c.s.completion())),
    verb("completion of a tensor", |c| kept(c.x.completion())),
    on("query of a stream", |c| kept(c.s.query())),
    on("launch", |c| {
        let launch = c.executable.launch().input("x", &c.x);
        let launch = if c.is_named { launch.on(&c.s) } else { launch };
        kept(launch.run())
    })
    .within(|c, held| {
        let launch = c.executable.launch().input("x", &c.x).within(held);
        kept(launch.run())
    }),
    on("push", |c| {
        let push = c.engine.push(|| ()).writes(&[&c.var]);
        kept(if c.is_named { push.on(&c.s) } else { push }.spawn())
    }),
    verb("variable", |c| kept(c.engine.var())),
    verb("variable of a tensor", |c| kept(c.engine.var_of(&c.x))),
    verb("host's wait for a variable", |c| kept(c.engine.wait_for(&c.var))),
    on("import", |c| {
        // A function that runs again has nothing more to import.
        let Some(lent) = c.lent.lock().unwrap().take() else { return kept(Ok(())) };
        // SAFETY: the structure is another machine's, and is used nowhere else.
        kept(unsafe { Tensor::from_dlpack(lent.into_raw(), &c.s) })
    }),
    verb("export", |c| kept(c.x.to_dlpack())),
    verb("begin of a section", |c| kept(c.m.critical_section(&[&c.x])))
        .within(|c, held| kept(c.m.critical_section_within(&[&c.y], Some(held)))),
    verb("end of a section", |c| {
        let held = c.section.lock().unwrap().take();
        kept(held.map(|held| held.end()).transpose())
    }),
    verb("record on the current stream", |c| kept(c.m.event().record())),
    verb("wait on the current stream", |c| kept(c.event.wait())),
];

/// What a mode does without a verb.
pub(super) static NOTHING: Verb = on("nothing", |_| kept(Ok(()))).within(|_, _| kept(Ok(())));
