//! Captures and launches of graphs on a faulty device. A launch is a command like any other;
//! captures have no faults of their own.

use millstream_types::Result;

use crate::device::{Progress, Work, WorkResult};
use crate::graph::{Captured, Graph, GraphStream};

use super::plan::{Fault, Site};
use super::stream::FaultyStream;

impl FaultyStream {
    fn graphs_of_inner(&mut self) -> Result<&mut dyn GraphStream> {
        let none = self.device.error("has no graphs");
        self.inner.graphs().ok_or(none)
    }
}

impl GraphStream for FaultyStream {
    fn prepare_capture(&mut self, works: usize) -> Result<()> {
        self.device.check()?;
        self.graphs_of_inner()?.prepare_capture(works)
    }

    fn begin_capture(&mut self, graph: &mut dyn Graph) -> Result<()> {
        self.device.check()?;
        self.graphs_of_inner()?.begin_capture(graph)
    }

    fn capture(&mut self, graph: &mut dyn Graph, work: &mut dyn Work) -> WorkResult {
        self.graphs_of_inner()?.capture(graph, work)
    }

    fn capture_record(&mut self, graph: &mut dyn Graph, position: usize) -> Result<()> {
        self.graphs_of_inner()?.capture_record(graph, position)
    }

    fn capture_wait(&mut self, graph: &mut dyn Graph, position: usize) -> Result<()> {
        self.graphs_of_inner()?.capture_wait(graph, position)
    }

    fn end_capture(&mut self, graph: &mut dyn Graph) -> Result<Captured> {
        self.graphs_of_inner()?.end_capture(graph)
    }

    fn abort_capture(&mut self, graph: &mut dyn Graph) {
        if let Some(inner) = self.inner.graphs() {
            inner.abort_capture(graph);
        }
    }

    fn launch(&mut self, graph: &mut dyn Graph, words: &[i64]) -> Result<Progress> {
        let fault = self.count_command(Site::Launch)?;
        if self.stuck {
            return self.accept_stuck();
        }
        if fault == Some(Fault::LaunchRefused) {
            return Err(self.device.error("refuses the launch"));
        }
        let progress = self.graphs_of_inner()?.launch(graph, words)?;
        let progress = self.keep_ticket(progress);
        Ok(match fault {
            Some(Fault::WorkError | Fault::WorkPanic | Fault::WorkErrorAfterRun) => {
                self.report_as_failed(progress, "graph")
            }
            _ => progress,
        })
    }
}
