//! Which stream each statement runs on.

use millstream_trace::{Program, StreamRef};
use millstream_types::{StreamKey, StreamMode};

use crate::error::RunError;
use crate::options::RunOptions;

/// The streams of a program, and the turns of those statements that name none.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    named: Vec<(StreamKey, StreamMode)>,
    unnamed: Vec<StreamKey>,
    turn: usize,
}

impl Streams {
    pub(crate) fn new(program: &Program, options: &RunOptions) -> Result<Streams, RunError> {
        let keys = program.stream_keys(&options.device)?;
        let named = keys.into_iter().zip(&program.streams).map(|(key, s)| (key, s.mode)).collect();
        let spread = if program.spread { options.compute_streams.max(1) } else { 1 };
        let unnamed = (0..spread).map(|k| StreamKey::compute(options.device.clone(), k)).collect();
        Ok(Streams { named, unnamed, turn: 0 })
    }

    /// The streams that the program declares, in its order.
    pub(crate) fn declared(&self) -> &[(StreamKey, StreamMode)] {
        &self.named
    }

    pub(crate) fn named(&self, stream: StreamRef) -> (StreamKey, StreamMode) {
        self.named[stream.index()].clone()
    }

    /// The stream of a statement that may name one.
    pub(crate) fn choose(&mut self, stream: Option<StreamRef>) -> (StreamKey, StreamMode) {
        if let Some(stream) = stream {
            return self.named(stream);
        }
        let key = self.unnamed[self.turn % self.unnamed.len()].clone();
        self.turn += 1;
        let mode = self.mode_of(&key);
        (key, mode)
    }

    /// A stream that the program declares as well is what it is declared as.
    fn mode_of(&self, key: &StreamKey) -> StreamMode {
        let declared = self.named.iter().find(|(k, _)| k == key);
        declared.map_or(StreamMode::InOrder, |(_, mode)| *mode)
    }
}
