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

/// Defines an event: its fields, then those in its arguments, each with its keys. Others are passed
/// over.
macro_rules! event {
    (
        event { $($field:ident: $($key:literal)|+,)* }
        args { $($arg:ident: $($arg_key:literal)|+,)* }
    ) => {
        /// An event. Its times are microseconds.
        #[derive(Debug, Default)]
        pub(super) struct EventForm<'a> {
            $(pub(super) $field: Value<'a>,)*
            $(pub(super) $arg: Value<'a>,)*
        }

        impl<'a> EventForm<'a> {
            /// Returns the event of a JSON object.
            ///
            /// # Errors
            /// The text is none after this key.
            pub(super) fn of(text: &'a str) -> Result<EventForm<'a>, &'a str> {
                let (mut form, mut args) = (EventForm::default(), Value::Absent);
                fields(text, &mut |key, value| match key {
                    "args" => args = value,
                    $($($key)|+ => form.$field = value,)*
                    _ => {}
                })?;
                let Value::Object(args) = args else { return Ok(form) };
                fields(args, &mut |key, value| match key {
                    $($($arg_key)|+ => form.$arg = value,)*
                    _ => {}
                })?;
                Ok(form)
            }
        }
    };
}

event! {
    event {
        ph: "ph",
        cat: "cat",
        name: "name",
        id: "id",
        ts: "ts",
        dur: "dur",
        pid: "pid",
        tid: "tid",
    }
    args {
        label: "name",
        correlation: "correlation",
        device: "device",
        context: "context",
        stream: "stream",
        // The stream of an XPU.
        queue: "sycl queue",
        record_function: "Record function id",
        index: "Ev Idx" | "Profiler Event Index",
        wait_stream: "wait_on_stream",
        wait_record: "wait_on_cuda_event_record_corr_id",
        wait_event: "wait_on_cuda_event_id",
        event: "event_id" | "event id" | "cuda_event_id",
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
