//! An event of a Kineto file, in the spellings of 2020 to now.

use crate::json::{Value, fields};
use crate::recording::HostKind;

/// The kinds of events that are read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Category {
    Host(HostKind),
    Device,
    Range,
    Sync,
    Record,
    /// From a forward op to its backward op.
    Arrow,
    /// What other events state as well.
    Repeated,
    Other,
}

impl Category {
    /// Returns the kind of an event, by its category. The names with capitals are those of 2020 to
    /// 2022.
    pub(super) fn of(name: &str) -> Category {
        match name {
            "cpu_op" | "Operator" => Category::Host(HostKind::Op),
            "python_function" => Category::Host(HostKind::Function),
            "kernel" | "gpu_memcpy" | "gpu_memset" | "Kernel" | "Memcpy" | "Memset" => {
                Category::Device
            }
            "user_annotation" | "cpu_instant_event" => Category::Range,
            "cuda_sync" => Category::Sync,
            "cuda_event" => Category::Record,
            "fwdbwd" | "forward_backward" => Category::Arrow,
            ""
            | "ac2g"
            | "async_cpu_to_gpu"
            | "async_gpu"
            | "gpu_user_annotation"
            | "overhead"
            | "Trace" => Category::Repeated,
            // `cuda_runtime`, `cuda_driver`, `hip_runtime`, `xpu_driver`, `mtia_runtime`
            "Runtime" => Category::Host(HostKind::Call),
            name if name.ends_with("_runtime") || name.ends_with("_driver") => {
                Category::Host(HostKind::Call)
            }
            _ => Category::Other,
        }
    }
}

/// An event. Fields that no reader needs are passed over.
#[derive(Debug, Default)]
pub(super) struct EventForm<'a> {
    pub(super) ph: Value<'a>,
    pub(super) cat: Value<'a>,
    pub(super) name: Value<'a>,
    pub(super) id: Value<'a>,
    /// Microseconds.
    pub(super) ts: Value<'a>,
    pub(super) dur: Value<'a>,
    pub(super) pid: Value<'a>,
    pub(super) tid: Value<'a>,
    pub(super) args: ArgsForm<'a>,
}

/// The arguments of an event that readers need.
#[derive(Debug, Default)]
pub(super) struct ArgsForm<'a> {
    pub(super) name: Value<'a>,
    pub(super) correlation: Value<'a>,
    pub(super) device: Value<'a>,
    pub(super) context: Value<'a>,
    pub(super) stream: Value<'a>,
    /// The stream of an XPU.
    pub(super) queue: Value<'a>,
    pub(super) record_function: Value<'a>,
    pub(super) index: Value<'a>,
    pub(super) wait_stream: Value<'a>,
    pub(super) wait_record: Value<'a>,
    pub(super) wait_event: Value<'a>,
    pub(super) event: Value<'a>,
}

impl<'a> EventForm<'a> {
    /// Returns the event of a JSON object.
    ///
    /// # Errors
    /// The text is none after this key.
    pub(super) fn of(text: &'a str) -> Result<EventForm<'a>, &'a str> {
        let mut form = EventForm::default();
        let mut args = Value::Absent;
        fields(text, &mut |key, value| match key {
            "ph" => form.ph = value,
            "cat" => form.cat = value,
            "name" => form.name = value,
            "id" => form.id = value,
            "ts" => form.ts = value,
            "dur" => form.dur = value,
            "pid" => form.pid = value,
            "tid" => form.tid = value,
            "args" => args = value,
            _ => {}
        })?;
        let Value::Object(args) = args else { return Ok(form) };
        let form_args = &mut form.args;
        fields(args, &mut |key, value| match key {
            "name" => form_args.name = value,
            "correlation" => form_args.correlation = value,
            "device" => form_args.device = value,
            "context" => form_args.context = value,
            "stream" => form_args.stream = value,
            "sycl queue" => form_args.queue = value,
            "Record function id" => form_args.record_function = value,
            "Ev Idx" | "Profiler Event Index" => form_args.index = value,
            "wait_on_stream" => form_args.wait_stream = value,
            "wait_on_cuda_event_record_corr_id" => form_args.wait_record = value,
            "wait_on_cuda_event_id" => form_args.wait_event = value,
            "event_id" | "event id" | "cuda_event_id" => form_args.event = value,
            _ => {}
        })?;
        Ok(form)
    }
}

/// Returns a whole number; -1 and its unsigned form mean that it is not known.
pub(super) fn known(value: Value<'_>) -> Option<i64> {
    value.scaled(0).filter(|whole| *whole >= 0 && *whole != i64::from(u32::MAX))
}

/// Returns a number of an event, call or op; they begin at 1, and 0 means that it is not known.
pub(super) fn id(value: Value<'_>) -> Option<u64> {
    known(value).filter(|id| *id > 0).map(|id| id as u64)
}

/// Returns a whole number, or the one that a text ends with: `sycl queue 64`.
pub(super) fn last_number(value: Value<'_>) -> Option<i64> {
    let last = |text: &str| text.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
    known(value).or_else(|| match value {
        Value::Text(text) => last(text),
        _ => None,
    })
}
