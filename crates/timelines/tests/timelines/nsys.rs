//! Databases as `nsys export --type sqlite` writes them, with the columns that its docs list.

use std::path::Path;

use millstream_timelines::{Options, read};
use rusqlite::Connection;

use crate::{check, open, waits};

const SCHEMA: &str = "
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL,
  eventClass INTEGER NOT NULL, globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL,
  returnValue INTEGER NOT NULL, callchainId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL,
  deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL,
  correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL,
  shortName INTEGER NOT NULL, graphNodeId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL,
  deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL,
  correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT (deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
  streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, eventId INTEGER NOT NULL,
  eventSyncId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER NOT NULL, end INTEGER NOT NULL,
  deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL,
  correlationId INTEGER, globalPid INTEGER, syncType INTEGER NOT NULL, eventId INTEGER NOT NULL,
  eventSyncId INTEGER NOT NULL);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL,
  text TEXT, globalTid INTEGER, textId INTEGER);
INSERT INTO StringIds VALUES (1,'cudaLaunchKernel_v7000'), (2,'cudaEventRecord_v3020'),
  (3,'cudaStreamWaitEvent_v3020'), (4,'cudaStreamSynchronize_v3020'),
  (5,'void a::gemm<float>(int)'), (6,'gemm'), (7,'relu'), (8,'step');
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES
  (1000,2000,0,16777233,1,1,0,NULL), (3000,3500,0,16777233,2,2,0,NULL),
  (4000,4500,0,16777233,3,3,0,NULL), (5000,6000,0,16777233,4,1,0,NULL),
  (7000,16000,0,16777233,5,4,0,NULL);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
  (2500,9500,0,1,7,1,16777216,5,6,NULL), (9800,12000,0,1,13,4,16777216,7,7,NULL);
INSERT INTO CUPTI_ACTIVITY_KIND_CUDA_EVENT VALUES (0,1,7,2,16777216,3,11);
INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES
  (4000,4500,0,1,13,3,16777216,2,3,11), (7000,16000,0,1,13,5,16777216,3,4294967295,0);
INSERT INTO NVTX_EVENTS VALUES (500,16500,59,NULL,16777233,8), (900,2100,59,'aten::mm, seq = 4',
  16777233,NULL);
";

fn database(path: &Path, change: &str) {
    let database = Connection::open(path).unwrap();
    database.execute_batch(SCHEMA).unwrap();
    database.execute_batch(change).unwrap();
}

const EXPECTED: [&str; 2] = [
    "cudaStreamWaitEvent on cuda:0 stream 13 < cudaEventRecord on cuda:0 stream 7",
    "cudaStreamSynchronize on thread 17 < relu on cuda:0 stream 13",
];

#[test]
fn an_export_becomes_a_profile() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.sqlite");
    database(&path, "");
    let profile = open(&path).profile;
    check(&profile);
    assert_eq!(waits(&profile), EXPECTED);
    assert_eq!(profile.remarks, Vec::<String>::new());
    assert_eq!(profile.ranges[0].name, "step");
    let gemm = profile.instructions.iter().find(|i| profile.name_of(i) == "gemm<float>").unwrap();
    assert_eq!(profile.place_of(gemm), "aten::mm");
    assert_eq!(gemm.times.unwrap().start, 1600);
}

#[test]
fn older_exports_lack_columns_and_tables() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.sqlite");
    // Without the number that a wait shares with its record, the event's newest record is it.
    let change = "ALTER TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION DROP COLUMN eventSyncId;
        ALTER TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT DROP COLUMN eventSyncId;
        DROP TABLE NVTX_EVENTS;";
    database(&path, change);
    assert_eq!(waits(&open(&path).profile), EXPECTED);
    let path = folder.path().join("none.sqlite");
    database(&path, "DROP TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION");
    let profile = open(&path).profile;
    check(&profile);
    assert_eq!(waits(&profile), EXPECTED);
    assert!(profile.remarks[0].starts_with("2 waits name no event"), "{:?}", profile.remarks);
}

#[test]
fn what_is_left_out_of_an_export_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("odd.sqlite");
    let change = "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER, end INTEGER,
          deviceId INTEGER, streamId INTEGER);
        INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (NULL, 7, 0, 7);
        CREATE TABLE CUDNN_EVENTS (start INTEGER, end INTEGER);
        INSERT INTO CUDNN_EVENTS VALUES (1, 2), (3, 4);
        CREATE TABLE OSRT_API (start INTEGER, end INTEGER);";
    database(&path, change);
    let expected = [
        "1 row is left out, without a 'start' or 'end', of the table CUPTI_ACTIVITY_KIND_MEMSET",
        "rows of tables that are not read: 2 of 'CUDNN_EVENTS'",
    ];
    assert_eq!(open(&path).profile.remarks, expected);
}

#[test]
fn what_is_wrong_with_a_database_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |name: &str, change: &str| {
        let path = folder.path().join(name);
        database(&path, change);
        let error = read(&path, &Options::default()).unwrap_err().to_string();
        error.split_once(&format!("{name}: ")).unwrap().1.to_owned()
    };
    let expected = "the table CUPTI_ACTIVITY_KIND_KERNEL: it lacks the column streamId; expected \
                    an export of Nsight Systems 2021.1 or later";
    let change = "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN streamId";
    assert_eq!(refused("column", change), expected);
    let tables = ["RUNTIME", "KERNEL", "MEMCPY"];
    let change: Vec<String> =
        tables.iter().map(|t| format!("DROP TABLE CUPTI_ACTIVITY_KIND_{t};")).collect();
    let change = change.concat() + "DROP TABLE NVTX_EVENTS;";
    let found = refused("empty", &change);
    assert!(found.starts_with("no table of it has a call of CUDA or a kernel; record"), "{found}");
    let path = folder.path().join("cut");
    database(&path, "");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let error = read(&path, &Options::default()).unwrap_err().to_string();
    assert!(error.contains("it cannot be read as an SQLite database"), "{error}");
}
