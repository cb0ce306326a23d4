//! Graphs: captures, launches, and the devices that have none.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, bail, ensure};
use millstream_ep::device::{Work, WorkResult};
use millstream_ep::graph::{Captured, Graph, GraphStream};

use crate::{Check, Fixture, Outcome};

pub(super) const CHECKS: &[Check] = &[
    Check { name: "graphs are as the capability says", run: graphs_are_as_the_capability_says },
    Check { name: "a graph is captured, launched and updated", run: captured_and_launched },
    Check { name: "failed work fails its capture", run: failed_work_fails_its_capture },
];

const LACKS: Outcome = Outcome::LacksCapability("graphs");

/// The words of launches.
const WORDS: [i64; 3] = [1, 2, 3];

/// Work that launches nothing, and counts how often it ran.
struct Counted(Arc<AtomicU64>, bool);

impl Work for Counted {
    fn run(&mut self, _native: &dyn Any) -> WorkResult {
        // Relaxed: the check reads it on this thread.
        self.0.fetch_add(1, Ordering::Relaxed);
        ensure!(!self.1, "the work fails");
        Ok(())
    }

    fn detach(&mut self) -> Box<dyn Work> {
        Box::new(Counted(self.0.clone(), self.1))
    }
}

fn graphs_are_as_the_capability_says(fixture: &Fixture<'_>) -> anyhow::Result<Outcome> {
    let can = fixture.device.capabilities().graphs;
    let mut stream = fixture.stream()?;
    ensure!(stream.stream.graphs().is_some() == can, "of a stream");
    ensure!(fixture.device.create_graph(0, 0).is_ok() == can, "of the device");
    Ok(Outcome::Passed)
}

/// Captures work on two streams: the second forks from the first, which joins it.
fn capture(
    [first, second]: [&mut dyn GraphStream; 2],
    graph: &mut dyn Graph,
    runs: &Arc<AtomicU64>,
) -> anyhow::Result<Captured> {
    first.prepare_capture(1)?;
    second.prepare_capture(1)?;
    first.begin_capture(graph)?;
    first.capture_record(graph, 0)?;
    second.capture_wait(graph, 0)?;
    first.capture(graph, &mut Counted(runs.clone(), false))?;
    second.capture(graph, &mut Counted(runs.clone(), false))?;
    second.capture_record(graph, 1)?;
    first.capture_wait(graph, 1)?;
    Ok(first.end_capture(graph)?)
}

fn captured_and_launched(fixture: &Fixture<'_>) -> anyhow::Result<Outcome> {
    if !fixture.device.capabilities().graphs {
        return Ok(LACKS);
    }
    let (mut first, mut second) = (fixture.stream()?, fixture.stream()?);
    let mut graph = fixture.device.create_graph(2, 3)?;
    let runs = Arc::new(AtomicU64::new(0));
    let words = graph.words();
    ensure!(words.is_some(), "a graph without its words");
    {
        let graphs = first.stream.graphs().context("no graphs")?;
        ensure!(graphs.launch(&mut *graph, &WORDS).is_err(), "launched before a capture");
    }
    for expected in [Captured::Instantiated, Captured::Updated] {
        let streams = [
            first.stream.graphs().context("no graphs")?,
            second.stream.graphs().context("no graphs")?,
        ];
        let captured = capture(streams, &mut *graph, &runs)?;
        ensure!(captured == expected, "{captured:?}");
        for _ in 0..2 {
            first.launch(&mut *graph, &WORDS)?;
            let mut other = |what| -> anyhow::Result<()> {
                let graphs = second.stream.graphs().context("no graphs")?;
                ensure!(graphs.launch(&mut *graph, &WORDS).is_err(), "launched {what}");
                ensure!(graphs.begin_capture(&mut *graph).is_err(), "captured {what}");
                Ok(())
            };
            other("while a launch has not been reported")?;
            first.finish_ok()?;
        }
    }
    ensure!(graph.words() == words, "the words have moved");
    {
        let graphs = first.stream.graphs().context("no graphs")?;
        ensure!(graphs.launch(&mut *graph, &[]).is_err(), "launched without its words");
    }
    // Relaxed: as in the work.
    ensure!(runs.load(Ordering::Relaxed) == 4, "captured work runs once in each capture");
    // Both streams run work as before.
    for stream in [&mut first, &mut second] {
        stream.submit(&mut Counted(runs.clone(), false))?;
        stream.finish_ok()?;
    }
    Ok(Outcome::Passed)
}

fn failed_work_fails_its_capture(fixture: &Fixture<'_>) -> anyhow::Result<Outcome> {
    if !fixture.device.capabilities().graphs {
        return Ok(LACKS);
    }
    let mut stream = fixture.stream()?;
    let mut graph = fixture.device.create_graph(0, 0)?;
    let runs = Arc::new(AtomicU64::new(0));
    {
        let graphs = stream.stream.graphs().context("no graphs")?;
        graphs.begin_capture(&mut *graph)?;
        match graphs.capture(&mut *graph, &mut Counted(runs.clone(), true)) {
            Err(error) => ensure!(error.to_string().contains("the work fails"), "{error:#}"),
            Ok(()) => bail!("the error is lost"),
        }
        graphs.abort_capture(&mut *graph);
        ensure!(graph.words().is_none(), "words of a graph that has none");
        ensure!(graphs.launch(&mut *graph, &[]).is_err(), "launched after a failed capture");
    }
    stream.submit(&mut Counted(runs, false))?;
    stream.finish_ok()?;
    Ok(Outcome::Passed)
}
