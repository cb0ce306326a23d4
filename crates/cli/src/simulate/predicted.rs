//! Shows the predictions of a cost model: the time of a program, its critical path, a timeline.

use std::io::{self, Write};
use std::path::Path;

use millstream_explore::predict::{Model, Prediction, predict};
use millstream_instructions::InstructionList;
use serde_json::{Value, json};

use millstream_terminal::table::{align_right, new_table};

/// The most spans of the critical path that are shown.
const SHOWN: usize = 20;

/// Reads a cost model from a file.
pub(super) fn read(path: &Path) -> Result<Model, String> {
    let at = path.display();
    let text = std::fs::read_to_string(path).map_err(|e| format!("{at}: {e}"))?;
    Model::parse(&text).map_err(|e| format!("{at}: {e}"))
}

/// Predicts the time of a list.
pub(super) fn of(list: &InstructionList, model: &Model) -> Result<Prediction, String> {
    predict(list, model)
}

fn time(picoseconds: u64) -> String {
    let ns = picoseconds as f64 / 1e3;
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.2} us", ns / 1e3),
        ns if ns < 1e9 => format!("{:.2} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}

fn share(part: u64, whole: u64) -> String {
    format!("{:.1} %", part as f64 * 100.0 / whole.max(1) as f64)
}

/// Prints the time of the program, the load of each stream, and the critical path.
pub(super) fn print(
    list: &InstructionList,
    model: &Model,
    prediction: &Prediction,
    out: &mut dyn Write,
    terminal: bool,
) -> io::Result<()> {
    writeln!(out, "predicted for {}: {}", model.name, time(prediction.total))?;
    if prediction.unknown > 0 {
        let what = "host functions and executables, whose time is unknown, count as 0";
        writeln!(out, "{} {what}", prediction.unknown)?;
    }
    let mut streams = new_table(terminal, &["stream", "busy", "share"]);
    for (k, decl) in list.streams.iter().enumerate() {
        let own = prediction.timeline.iter().filter(|s| s.stream == k);
        let busy: u64 = own.map(|s| s.end - s.start).sum();
        if busy > 0 {
            streams.add_row([decl.key.to_string(), time(busy), share(busy, prediction.total)]);
        }
    }
    [1, 2].into_iter().for_each(|column| align_right(&mut streams, column));
    writeln!(out, "{streams}")?;
    let mut path = new_table(terminal, &["critical path", "stream", "takes", "share"]);
    for &k in prediction.critical.iter().take(SHOWN) {
        let span = &prediction.timeline[k];
        let takes = span.end - span.start;
        let stream = list.streams[span.stream].key.to_string();
        path.add_row([span.name.clone(), stream, time(takes), share(takes, prediction.total)]);
    }
    [2, 3].into_iter().for_each(|column| align_right(&mut path, column));
    writeln!(out, "{path}")?;
    match prediction.critical.len().saturating_sub(SHOWN) {
        0 => Ok(()),
        more => writeln!(out, "and {more} more"),
    }
}

/// Returns the timeline in the Trace Event Format of chrome://tracing and Perfetto.
pub(super) fn timeline(list: &InstructionList, prediction: &Prediction) -> String {
    let us = |picoseconds: u64| picoseconds as f64 / 1e6;
    let names = list.streams.iter().enumerate().map(|(k, decl)| {
        let name = decl.key.to_string();
        json!({ "name": "thread_name", "ph": "M", "pid": 0, "tid": k, "args": { "name": name } })
    });
    let spans = prediction.timeline.iter().filter(|s| s.end > s.start).map(|s| {
        json!({
            "name": s.name, "ph": "X", "pid": 0, "tid": s.stream,
            "ts": us(s.start), "dur": us(s.end - s.start), "args": { "instruction": s.index },
        })
    });
    let events: Vec<Value> = names.chain(spans).collect();
    format!("{}\n", json!({ "displayTimeUnit": "ns", "traceEvents": events }))
}
