//! Timelines of other programs, as the commands show them.

use crate::pages::{folder_with_examples, quotes};
use crate::{examples, millstream, succeeds};

fn example(name: &str) -> String {
    examples().join("timelines").join(name).to_str().unwrap().to_owned()
}

#[test]
fn the_page_on_timelines_quotes_what_the_commands_print() {
    assert_eq!(quotes("timelines.md", folder_with_examples().path()), 2);
}

#[test]
fn a_timeline_has_every_output() {
    let folder = tempfile::tempdir().unwrap();
    let file = example("two-streams.json");
    let all =
        ["--html", "t.html", "--dot", "t.dot", "--chrome", "t.json", "--profile", "t.pftrace"];
    succeeds(folder.path(), &[&["profile", &file][..], &all].concat());
    let summary = |file: &str| succeeds(folder.path(), &["profile", file, "--summary"]);
    for made in ["t.html", "t.pftrace"] {
        assert_eq!(summary(made), summary(&file));
    }
    let dot = std::fs::read_to_string(folder.path().join("t.dot")).unwrap();
    assert!(dot.contains("cluster") && dot.contains("gemm"), "{dot}");
    let compared = succeeds(folder.path(), &["compare", &file, "t.pftrace"]);
    assert!(compared.contains("the same instructions on the same streams"), "{compared}");
}

#[test]
fn options_of_timelines_need_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = example("two-streams.json");
    succeeds(folder.path(), &["profile", &file, "--profile", "t.pftrace"]);
    let output = millstream(folder.path(), &["profile", "t.pftrace", "--within", "step"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    let expected =
        "error: t.pftrace: it is no timeline of another program's, which --within is for\n";
    assert_eq!(error, expected);
    let output = millstream(folder.path(), &["profile", &file, "--within", "none"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("it has no range 'none' of that number; it has step"), "{error}");
}
