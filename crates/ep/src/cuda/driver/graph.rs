//! The driver's captures and graphs.

use std::sync::Arc;

use cudarc::driver::sys::{
    self, CUgraph, CUgraphExec, CUresult, CUstreamCaptureMode, CUstreamCaptureStatus,
};

use super::{Context, DriverResult, RawStream, check};

/// Of all threads only the capturing one may not allocate, free or wait meanwhile: other workers
/// go on.
const MODE: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;

/// A captured graph, from which executable ones are made.
pub(in crate::cuda) struct RawGraph {
    raw: CUgraph,
    context: Arc<Context>,
}

/// An executable graph.
pub(in crate::cuda) struct RawGraphExec {
    raw: CUgraphExec,
    context: Arc<Context>,
}

// SAFETY: one thread at a time uses a graph, since every use borrows it mutably or owns it. The
// driver has no other requirement.
unsafe impl Send for RawGraph {}
// SAFETY: as above.
unsafe impl Send for RawGraphExec {}

impl RawStream {
    /// Begins a capture. It ends on the same stream, by the same thread.
    pub(in crate::cuda) fn begin_capture(&self) -> DriverResult<()> {
        self.context().enter()?;
        // SAFETY: the stream is alive.
        let code = unsafe { sys::cuStreamBeginCapture_v2(self.raw(), MODE) };
        check("cuStreamBeginCapture_v2", code)
    }

    /// Ends the capture that began on this stream.
    pub(in crate::cuda) fn end_capture(&self) -> DriverResult<RawGraph> {
        self.context().enter()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: as above; the driver writes a handle.
        let code = unsafe { sys::cuStreamEndCapture(self.raw(), &raw mut raw) };
        check("cuStreamEndCapture", code)?;
        Ok(RawGraph { raw, context: self.context().clone() })
    }

    /// Ends the capture that began on this stream, if there is one, after an error.
    pub(in crate::cuda) fn abort_capture(&self) -> DriverResult<()> {
        self.context().enter()?;
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: as above; the driver writes one of the type's values.
        let code = unsafe { sys::cuStreamIsCapturing(self.raw(), &raw mut status) };
        check("cuStreamIsCapturing", code)?;
        if status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE {
            drop(self.end_capture());
        }
        Ok(())
    }

    /// Launches an executable graph.
    ///
    /// # Safety
    /// The memory and the kernels that its nodes name are valid until the launch has completed, and
    /// the launch is ordered against all other uses of the memory.
    pub(in crate::cuda) unsafe fn launch_graph(&self, exec: &mut RawGraphExec) -> DriverResult<()> {
        self.context().enter()?;
        // SAFETY: graph and stream are alive; the rest is the caller's promise.
        check("cuGraphLaunch", unsafe { sys::cuGraphLaunch(exec.raw, self.raw()) })
    }
}

impl RawGraph {
    /// Returns the number of nodes.
    pub(in crate::cuda) fn nodes(&self) -> DriverResult<usize> {
        self.context.enter()?;
        let (mut count, none) = (0, std::ptr::null_mut());
        // SAFETY: the graph is alive; without a list the driver writes only the number.
        check("cuGraphGetNodes", unsafe { sys::cuGraphGetNodes(self.raw, none, &raw mut count) })?;
        Ok(count)
    }

    /// Makes an executable graph.
    pub(in crate::cuda) fn instantiate(&self) -> DriverResult<RawGraphExec> {
        self.context.enter()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: as above; the driver writes a handle.
        let code = unsafe { sys::cuGraphInstantiateWithFlags(&raw mut raw, self.raw, 0) };
        check("cuGraphInstantiateWithFlags", code)?;
        Ok(RawGraphExec { raw, context: self.context.clone() })
    }
}

impl RawGraphExec {
    /// Gives the nodes the parameters of those of `graph`. Returns false if the graphs differ in
    /// more. No launch may be outstanding.
    pub(in crate::cuda) fn update(&mut self, graph: &RawGraph) -> DriverResult<bool> {
        self.context.enter()?;
        let mut info = std::mem::MaybeUninit::uninit();
        // SAFETY: both graphs are alive; the driver writes the result, which nothing reads.
        let code = unsafe { sys::cuGraphExecUpdate_v2(self.raw, graph.raw, info.as_mut_ptr()) };
        if code == CUresult::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE {
            return Ok(false);
        }
        check("cuGraphExecUpdate_v2", code).map(|()| true)
    }
}

impl Drop for RawGraph {
    fn drop(&mut self) {
        // SAFETY: created by this value and destroyed once.
        let destroy = || check("cuGraphDestroy", unsafe { sys::cuGraphDestroy(self.raw) });
        self.context.destroy(destroy);
    }
}

impl Drop for RawGraphExec {
    fn drop(&mut self) {
        // SAFETY: as above; no launch is outstanding.
        let destroy = || check("cuGraphExecDestroy", unsafe { sys::cuGraphExecDestroy(self.raw) });
        self.context.destroy(destroy);
    }
}
