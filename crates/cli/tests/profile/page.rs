//! The page in a browser: clicks, keys, search, windows, themes.

use millstream_profile::columns::PART;
use millstream_profile::model::{Instruction, NONE, Role, Stream, Wait};
use millstream_profile::{Profile, Times};
use serde_json::Value;

use crate::browser::{Site, result};
use crate::{millstream, succeeds, transformer};

const SCRIPT: &str = include_str!("page.js");

/// Opens a page, runs the test script in it, and returns what it found.
fn open(page: &str, window: [u32; 2], flags: &[&str]) -> Option<Value> {
    let page = page.replace("</body>", &format!("<script>{SCRIPT}</script></body>"));
    let site = Site::from([("/index.html".to_owned(), page.into_bytes())]);
    let text = result(site, window, flags)?;
    let found: Value = serde_json::from_str(&text).unwrap();
    assert!(found["error"].is_null(), "{}", found["error"]);
    Some(found)
}

fn page() -> String {
    let folder = tempfile::tempdir().unwrap();
    let program = transformer();
    let all = [
        "run",
        &program,
        "--compute-streams",
        "4",
        "--assign",
        "round-robin",
        "--repeat",
        "4",
        "--html",
        "page.html",
    ];
    succeeds(folder.path(), &all);
    std::fs::read_to_string(folder.path().join("page.html")).unwrap()
}

#[test]
fn the_page_answers_clicks_keys_and_searches() {
    let page = page();
    for (window, flags) in [([1400, 900], &[][..]), ([420, 800], &["--force-dark-mode"][..])] {
        let Some(found) = open(&page, window, flags) else { return };
        assert_eq!(found["checks"], Value::from(found["passed"].as_u64()), "{found}");
        assert!(found["passed"].as_u64().unwrap() >= 64, "{found}");
    }
}

/// A run of two streams, of which the second one waits for each hundredth call of the first one.
fn long_run(count: u32) -> Profile {
    let times = |k: u32| Times { ready: k.into(), start: k.into(), end: u64::from(k) + 1 };
    let one = |k: u32| Instruction {
        role: if k % 100 == 1 { Role::Wait } else { Role::Work },
        stream: u32::from(k % 100 == 1),
        seq: u64::from(k) + 1,
        place: NONE,
        times: Some(times(k)),
        arguments: Some(0),
        parent: NONE,
        ..Instruction::default()
    };
    // The first waits are for nothing.
    let wait = |k: u32| Wait {
        waiter: k,
        until: k.checked_sub(1001).unwrap_or(NONE),
        user: NONE,
        covered_by: NONE,
        ..Wait::default()
    };
    let stream = |name: &str| Stream { name: name.to_owned(), ..Stream::default() };
    Profile {
        title: "a long run".to_owned(),
        streams: ["first", "second"].map(stream).to_vec(),
        names: vec!["op".to_owned()],
        arguments: vec![String::new()],
        instructions: (0..count).map(one).collect(),
        waits: (1..count).step_by(100).map(wait).collect(),
        total: count.into(),
        ..Profile::default()
    }
}

#[test]
fn a_long_run_decodes_the_chosen_range_alone() {
    let page = millstream_profile::page::write(&long_run(5 * PART as u32 + 10));
    let script = include_str!("chooser.js");
    let page = page.replace("</body>", &format!("<script>{script}</script></body>"));
    let site = Site::from([("/index.html".to_owned(), page.into_bytes())]);
    let Some(text) = result(site, [900, 600], &[]) else { return };
    let found: Value = serde_json::from_str(&text).unwrap();
    assert!(found["error"].is_null(), "{}", found["error"]);
    assert_eq!(found["failed"], serde_json::json!([]), "{found}");
    assert!(found["checks"].as_u64().unwrap() >= 20, "{found}");
}

#[test]
fn a_page_needs_no_network() {
    let page = page();
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "the page refers to {outside}");
    }
}

#[test]
fn a_page_gives_its_profile_back() {
    let folder = tempfile::tempdir().unwrap();
    let program = transformer();
    let all = ["run", &program, "--html", "page.html", "--profile", "run.pftrace"];
    succeeds(folder.path(), &all);
    let summary = |file: &str| succeeds(folder.path(), &["profile", file, "--summary"]);
    assert_eq!(summary("page.html"), summary("run.pftrace"));
    std::fs::write(folder.path().join("cut.html"), "<!doctype html>").unwrap();
    let output = millstream(folder.path(), &["profile", "cut.html"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("cut.html: the page holds no profile"), "{error}");
}
