//! The summary of a profile as JSON.

use serde_json::{Value, json};

use super::{loads, ops, waits};
use crate::memory;
use crate::model::Profile;

/// Returns the summary as JSON: all rows of the tables that the text has, times in nanoseconds and
/// memory in bytes.
pub fn report(profile: &Profile) -> Value {
    let stream = |k: u32| profile.streams.get(k as usize).map(|stream| &stream.name);
    let streams = profile.streams.iter().zip(loads(profile));
    let streams = streams.map(|(stream, load)| json!({ "stream": stream.name, "load": load }));
    let waits = waits(profile).into_iter().map(|wait| {
        json!({
            "until": wait.until, "source": stream(wait.source),
            "user": wait.user, "stream": stream(wait.stream),
            "at": wait.place, "count": wait.count, "blocked": wait.blocked,
        })
    });
    let memory = memory::peaks(profile).into_iter().map(|peak| {
        json!({
            "arena": peak.arena, "peak": peak.level.bytes, "at": peak.level.at,
            "extent": peak.level.extent, "most_held": peak.most_held, "holders": peak.holders,
        })
    });
    json!({
        "source": profile.source.name(),
        "total": profile.total,
        "program": profile.spread(),
        "remarks": profile.remarks,
        "streams": streams.collect::<Vec<_>>(),
        "ops": ops(profile),
        "waits": waits.collect::<Vec<_>>(),
        "memory": memory.collect::<Vec<_>>(),
    })
}
