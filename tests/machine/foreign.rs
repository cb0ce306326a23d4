//! Rule 8: a list that the builder did not make is checked before anything of it runs, or refused.

use millstream::instructions::text::parse_list;
use millstream::*;
use millstream_testing::machine::*;
use millstream_verify::check;

/// y = relu(x) on one stream, z = y + x on another.
fn recorded(m: &Machine, x: &Tensor) -> String {
    m.start_recording(&[("x", x)]).unwrap();
    let y = call(m, "relu", &[x], &cpu(m, 0));
    m.call("add_", &[x, &y]).on(&cpu(m, 1)).unwrap();
    let list = m.finish_recording().unwrap();
    instructions::text::print_list(&list)
}

#[test]
fn a_list_read_from_text_runs_where_it_was_not_made() {
    let m = threaded();
    let x = upload(&cpu(&m, 0), &m, &[1.0, -2.0]);
    let text = recorded(&m, &x);
    let other = threaded();
    let there = upload(&cpu(&other, 0), &other, &[1.0, -2.0]);
    let list = check(parse_list(&text).unwrap()).unwrap();
    let job = other.store_checked(&list, vec![there.clone()]).unwrap();
    job.launch().unwrap();
    assert_eq!(read(&there), [2.0, -2.0]);
    job.launch().unwrap();
    assert_eq!(read(&there), [4.0, -2.0]);
}

#[test]
fn without_its_wait_it_races_and_is_refused() {
    let m = threaded();
    let x = upload(&cpu(&m, 0), &m, &[1.0, -2.0]);
    let text = recorded(&m, &x);
    let cut: Vec<&str> = text.lines().filter(|l| !l.starts_with("StreamWaitEvent")).collect();
    assert!(cut.len() < text.lines().count());
    let found = check(parse_list(&cut.join("\n")).unwrap()).unwrap_err();
    assert!(!found.is_empty());
    let words = found.iter().map(ToString::to_string).collect::<String>();
    assert!(words.contains("add_") && words.contains("relu"), "{words}");
}

#[test]
fn what_the_list_does_not_say_is_compared_when_it_is_stored() {
    let m = threaded();
    let x = upload(&cpu(&m, 0), &m, &[1.0, -2.0]);
    let text = recorded(&m, &x);
    let other = threaded();
    let s = cpu(&other, 0);
    let good = upload(&s, &other, &[1.0, -2.0]);
    let store = |text: &str, bound: Vec<Tensor>| -> String {
        let list = check(parse_list(text).unwrap()).unwrap();
        other.store_checked(&list, bound).unwrap_err().to_string()
    };
    let short = upload(&s, &other, &[1.0]);
    let view = slice(&other, &good, 0, 1, &s);
    for (what, error) in [
        ("no tensor", store(&text, vec![])),
        ("another shape", store(&text, vec![short])),
        ("a view", store(&text, vec![view])),
        ("another machine's", store(&text, vec![x.clone()])),
        ("an op that is not there", store(&text.replace(" relu ", " rely "), vec![good.clone()])),
        (
            "an op that reads what it is said to write",
            store(&text.replace(" relu ", " add_ "), vec![good.clone()]),
        ),
    ] {
        assert!(!error.contains("internal"), "{what}: {error}");
    }
    assert_eq!(read(&good), [1.0, -2.0], "nothing has run");
}

/// Every list that the machine makes is one that the checker takes, also when read back.
#[test]
fn its_own_lists_survive_the_text() {
    let m = threaded();
    let x = upload(&cpu(&m, 0), &m, &[1.0, -2.0]);
    let text = recorded(&m, &x);
    let list = parse_list(&text).unwrap();
    checked(&list);
    assert_eq!(instructions::text::print_list(&list), text);
}
