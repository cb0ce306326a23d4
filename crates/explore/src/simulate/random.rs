//! Small random programs, each from a seed, as native traces.
//!
//! They use every feature that makes order matter: one to four compute streams of a device, some of
//! them pools on the host, in-place changes, views, releases, events, barriers, critical sections,
//! host reads, and copies to and from a simulated device. Elements are whole numbers, so results
//! are exact.

use std::fmt::Write;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde_json::{Value, json};

/// The ops that random programs call.
pub const OPS: &[&str] = &["add", "add_", "copy", "fill", "mul", "relu", "slice"];

/// A tensor that a statement may use.
struct Live {
    name: String,
    len: usize,
    on_host: bool,
}

struct Generator {
    rng: ChaCha8Rng,
    /// Whether the program uses a device besides the host.
    device: bool,
    /// The number of compute streams.
    streams: usize,
    live: Vec<Live>,
    events: usize,
    named: usize,
    text: String,
}

/// Returns the text of a seed's program.
pub fn program(seed: u64) -> String {
    // Differs from the generator stream of the schedule with the same seed.
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(1);
    let mut generator = Generator {
        device: false,
        streams: 1,
        live: Vec::new(),
        events: 0,
        named: 0,
        text: String::with_capacity(4096),
        rng,
    };
    generator.program(seed);
    generator.text
}

impl Generator {
    fn below(&mut self, bound: usize) -> usize {
        ((u64::from(self.rng.next_u32()) * bound as u64) >> 32) as usize
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = self.text.write_fmt(text);
    }

    fn program(&mut self, seed: u64) {
        self.device = self.below(3) > 0;
        self.streams = 1 + self.below(4);
        let device = if self.device { "sim:0" } else { "cpu:0" };
        self.write(format_args!("{{\n  \"millstream\": 1,\n  \"name\": \"random {seed}\",\n"));
        self.write(format_args!(
            "  \"streams\": {{\n    \"host\": {{ \"device\": \"cpu:0\", \"index\": 9 }}"
        ));
        for k in 0..self.streams {
            // Off the host a pool runs in the order of emission.
            let is_pool = !self.device && self.below(3) == 0;
            let mode = if is_pool { ", \"mode\": \"pool\"" } else { "" };
            self.write(format_args!(",\n    \"s{k}\": {{ \"device\": \"{device}\"{mode} }}"));
        }
        if self.device {
            for (name, ty) in [("in", "host2device"), ("out", "device2host")] {
                let fields = format_args!("\"device\": \"{device}\", \"type\": \"{ty}\"");
                self.text.push_str(&format!(",\n    \"{name}\": {{ {fields} }}"));
            }
        }
        self.write(format_args!("\n  }},\n  \"tensors\": {{"));
        for k in 0..2 + self.below(3) {
            let on_host = !self.device || k == 1;
            let device = if on_host { "cpu:0" } else { "sim:0" };
            let name = format!("x{k}");
            let comma = if k == 0 { "" } else { "," };
            self.write(format_args!(
                "{comma}\n    \"{name}\": {{ \"dtype\": \"i64\", \"device\": \"{device}\", \
                 \"values\": [{k}, {}, -3, 7] }}",
                k + 1
            ));
            self.live.push(Live { name, len: 4, on_host });
        }
        self.write(format_args!("\n  }},\n  \"program\": ["));
        for k in 0..4 + self.below(20) {
            let barrier = || json!({ "barrier": true });
            // The next one would begin with a comma.
            let Some(step) = self.step().or_else(|| (k == 0).then(barrier)) else { continue };
            let comma = if k == 0 { "" } else { "," };
            self.write(format_args!("{comma}\n    {step}"));
        }
        self.write(format_args!("\n  ],\n  \"outputs\": {{"));
        for (k, live) in std::mem::take(&mut self.live).iter().enumerate() {
            let comma = if k == 0 { "" } else { "," };
            self.write(format_args!("{comma} \"{}\": {{}}", live.name));
        }
        self.write(format_args!(" }}\n}}\n"));
    }

    /// Picks a tensor on the device of `x` with the length of `x`.
    fn same_place_and_length(&mut self, x: usize) -> usize {
        let (len, on_host) = (self.live[x].len, self.live[x].on_host);
        let alike = |l: &Live| l.len == len && l.on_host == on_host;
        let alike: Vec<usize> = (0..self.live.len()).filter(|k| alike(&self.live[*k])).collect();
        alike[self.below(alike.len())]
    }

    /// Picks a stream that computes on the device of `x`.
    fn stream_for(&mut self, x: usize) -> String {
        if self.device && self.live[x].on_host {
            return "host".to_owned();
        }
        self.any_stream()
    }

    fn any_stream(&mut self) -> String {
        format!("s{}", self.below(self.streams))
    }

    fn new_tensor(&mut self, len: usize, on_host: bool) -> String {
        let name = format!("t{}", self.named);
        self.named += 1;
        self.live.push(Live { name: name.clone(), len, on_host });
        name
    }

    /// Returns a statement; none if the one that was chosen needs what there is not.
    fn step(&mut self) -> Option<Value> {
        let x = self.below(self.live.len());
        let y = self.same_place_and_length(x);
        let (a, b) = (self.live[x].name.clone(), self.live[y].name.clone());
        let (len, on_host) = (self.live[x].len, self.live[x].on_host);
        let on = self.stream_for(x);
        Some(match self.below(20) {
            0..=2 => {
                let out = self.new_tensor(len, on_host);
                let attrs = json!({ "alpha": 3 });
                json!({ "op": "add", "in": [a, b], "out": out, "stream": on, "attrs": attrs })
            }
            3 => {
                let out = self.new_tensor(len, on_host);
                json!({ "op": "mul", "in": [a, b], "out": out, "stream": on })
            }
            4 => {
                let out = self.new_tensor(len, on_host);
                json!({ "op": "relu", "in": a, "out": out, "stream": on })
            }
            5..=7 => json!({ "op": "add_", "in": [a, b], "stream": on }),
            8 if len == 4 => {
                let out = self.new_tensor(2, on_host);
                let attrs = json!({ "start": 1, "end": 3 });
                json!({ "op": "slice", "in": a, "out": out, "stream": on, "attrs": attrs })
            }
            9 | 10 => self.copy(&a, len, on_host, &on),
            11 => {
                let attrs = json!({ "value": self.below(9) });
                json!({ "op": "fill", "in": a, "stream": on, "attrs": attrs })
            }
            12 | 13 if self.live.len() > 2 => {
                self.live.swap_remove(x);
                json!({ "release": a })
            }
            14 => {
                let event = self.events.min(2);
                self.events = event + 1;
                json!({ "record": format!("e{event}"), "stream": on })
            }
            15 if self.events > 0 => {
                let event = self.below(self.events);
                json!({ "wait": format!("e{event}"), "stream": on })
            }
            16 => {
                let from = self.any_stream();
                let wait = || json!({ "stream_wait": { "from": from, "to": on } });
                return (from != on).then(wait);
            }
            17 => json!({ "touch": [a, b], "stream": on }),
            18 => match self.below(4) {
                0 => json!({ "barrier": true }),
                1 => json!({ "synchronize": on }),
                _ => json!({ "read": a }),
            },
            19 => {
                let add = json!({ "op": "add_", "in": [a, a], "stream": on });
                json!({ "critical_section": a, "body": [add] })
            }
            _ => return None,
        })
    }

    /// Returns a copy: on the tensor's own device, or between the host and the device.
    fn copy(&mut self, a: &str, len: usize, on_host: bool, stream: &str) -> Value {
        let across = self.device && self.below(2) == 0;
        let stream = match (across, on_host) {
            (false, _) => stream,
            (true, true) => "in",
            (true, false) => "out",
        };
        let out = self.new_tensor(len, on_host != across);
        json!({ "op": "copy", "in": a, "out": out, "stream": stream })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_trace::{LoadOptions, load_bytes};

    #[test]
    fn every_program_is_a_trace() {
        for seed in 0..500 {
            let text = program(seed);
            let loaded = load_bytes("random", text.as_bytes(), None, &LoadOptions::default());
            assert!(loaded.is_ok(), "seed {seed}: {}\n{text}", loaded.unwrap_err());
        }
    }
}
