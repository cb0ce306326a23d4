//! The JSON of a recording of streams: tables, and entries that name their elements by position.

use serde::Deserialize;

#[derive(Deserialize)]
pub(super) struct FileForm {
    #[serde(rename = "millstream_streams")]
    pub(super) version: u32,
    pub(super) ops: Vec<String>,
    pub(super) stacks: Vec<Vec<String>>,
    pub(super) streams: Vec<StreamForm>,
    pub(super) storages: Vec<StorageForm>,
    pub(super) tensors: Vec<TensorForm>,
    pub(super) entries: Vec<EntryForm>,
}

#[derive(Deserialize)]
pub(super) struct StreamForm {
    pub(super) device: String,
}

#[derive(Deserialize)]
pub(super) struct StorageForm {
    pub(super) device: String,
    pub(super) address: u64,
    pub(super) bytes: u64,
}

#[derive(Deserialize)]
pub(super) struct TensorForm {
    pub(super) storage: usize,
    pub(super) dtype: String,
    pub(super) shape: Vec<usize>,
    pub(super) strides: Vec<usize>,
    pub(super) offset: usize,
}

#[derive(Deserialize)]
pub(super) struct EntryForm {
    pub(super) at: usize,
    #[serde(default)]
    pub(super) thread: u32,
    #[serde(flatten)]
    pub(super) what: What,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum What {
    Op(OpForm),
    Record { stream: usize, event: u64 },
    Wait { stream: usize, event: Option<u64> },
    SyncEvent { event: Option<u64> },
    SyncStream { stream: usize },
    SyncDevice { device: String },
    Alloc { storage: usize, stream: usize },
    Free { storage: usize },
    Use { storage: usize, stream: usize },
}

#[derive(Deserialize)]
pub(super) struct OpForm {
    pub(super) op: usize,
    /// None for work of the host.
    pub(super) stream: Option<usize>,
    pub(super) node: Option<u64>,
    /// The arguments that are true.
    #[serde(default)]
    pub(super) flags: Vec<usize>,
    /// Arguments and their tensors.
    #[serde(default)]
    pub(super) inputs: Vec<(usize, usize)>,
    #[serde(default)]
    pub(super) outputs: Vec<usize>,
    /// Storages that exist while the op runs, or from then on.
    #[serde(default)]
    pub(super) scratch: Vec<usize>,
    #[serde(default)]
    pub(super) unknown: bool,
}
