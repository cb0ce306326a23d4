//! The result of a verification as JSON.

use millstream_instructions::text::print_instruction;
use millstream_trace::TraceError;
use millstream_types::Point;
use millstream_verify::{Violation, repair};
use serde_json::{Value, json};

use crate::verify::ranks::Verdict as Ranks;
use crate::verify::{Found, Subject};

/// Returns the result for the ranks of a folder on one line.
pub(super) fn ranks_line(verdict: &Ranks) -> String {
    let messages = |errors: &[TraceError]| -> Vec<String> {
        errors.iter().map(|error| error.message().to_owned()).collect()
    };
    json!({
        "ranks": verdict.folder,
        "proven": verdict.proven(),
        "compared": verdict.compared,
        "violations": messages(&verdict.errors),
        "pending": messages(&verdict.pending),
    })
    .to_string()
}

/// Returns the result for a list on one line.
pub(super) fn line(found: &Found) -> String {
    let Found { subject, verdict } = found;
    let list = &subject.list;
    let waits = verdict.waits.iter().map(|wait| {
        json!({
            "line": subject.line(wait.index),
            "needed": wait.needed,
            "reason": wait.reason.say(|index| format!("line {}", subject.line(index))),
        })
    });
    let violations = verdict.violations.iter().map(|v| violation(subject, v));
    json!({
        "list": subject.name,
        "proven": verdict.proven(),
        "instructions": list.instructions.len(),
        "streams": list.streams.len(),
        "pairs": verdict.pairs,
        "violations": violations.collect::<Vec<_>>(),
        "waits": waits.collect::<Vec<_>>(),
    })
    .to_string()
}

fn violation(subject: &Subject, violation: &Violation) -> Value {
    let sites = violation.sites().into_iter().map(|(site, what)| {
        json!({
            "index": site.index,
            "line": subject.line(site.index),
            "text": site.line,
            "origin": subject.origin(site.index),
            "what": what,
        })
    });
    let missing = violation.missing().map(|m| {
        json!({
            "from": m.point.to_string(),
            "to": m.waiter.to_string(),
            "known": Point::new(m.point.stream, m.known).to_string(),
        })
    });
    let repair = repair(&subject.list, violation).map(|r| {
        json!({
            "before_line": subject.line(r.before),
            "text": print_instruction(&r.wait, &subject.list.ops),
        })
    });
    json!({
        "kind": violation.kind(),
        "message": violation.to_string(),
        "instructions": sites.collect::<Vec<_>>(),
        "bytes": violation.bytes().map(|b| [b.start, b.end]),
        "missing": missing,
        "repair": repair,
    })
}
