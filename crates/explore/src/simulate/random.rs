//! Small random programs, each from a seed, as native traces.
//!
//! They use what makes order matter: one to four compute streams of a device, on the host some of
//! them pools, in place changes, views, releases, events, barriers, critical sections, host reads, and
//! on a simulated device the copies to it and back. Elements are whole numbers, so results are exact.

use std::fmt::Write;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// The ops that random programs call.
pub const OPS: &[&str] = &["add", "add_", "copy", "fill", "mul", "relu", "slice"];

/// A tensor that a statement may use.
struct Live {
    name: String,
    len: usize,
    on_host: bool,
}

struct Making {
    rng: ChaCha8Rng,
    /// Whether there is a device beside the host.
    device: bool,
    /// How many compute streams.
    streams: usize,
    live: Vec<Live>,
    events: usize,
    named: usize,
    text: String,
}

/// The text of the program of this seed.
pub fn program(seed: u64) -> String {
    // Another stream of the same generator than the schedule's of this seed.
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(1);
    let mut making = Making {
        device: false,
        streams: 1,
        live: Vec::new(),
        events: 0,
        named: 0,
        text: String::with_capacity(4096),
        rng,
    };
    making.all(seed);
    making.text
}

impl Making {
    fn below(&mut self, bound: usize) -> usize {
        ((u64::from(self.rng.next_u32()) * bound as u64) >> 32) as usize
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = self.text.write_fmt(text);
    }

    fn all(&mut self, seed: u64) {
        self.device = self.below(3) > 0;
        self.streams = 1 + self.below(4);
        let device = if self.device { "sim:0" } else { "cpu:0" };
        self.put(format_args!("{{\n  \"millstream\": 1,\n  \"name\": \"random {seed}\",\n"));
        self.put(format_args!(
            "  \"streams\": {{\n    \"host\": {{ \"device\": \"cpu:0\", \"index\": 9 }}"
        ));
        for k in 0..self.streams {
            // Elsewhere a pool runs in the order of emission.
            let is_pool = !self.device && self.below(3) == 0;
            let mode = if is_pool { ", \"mode\": \"pool\"" } else { "" };
            self.put(format_args!(",\n    \"s{k}\": {{ \"device\": \"{device}\"{mode} }}"));
        }
        if self.device {
            for (name, ty) in [("in", "host2device"), ("out", "device2host")] {
                let fields = format_args!("\"device\": \"{device}\", \"type\": \"{ty}\"");
                self.text.push_str(&format!(",\n    \"{name}\": {{ {fields} }}"));
            }
        }
        self.put(format_args!("\n  }},\n  \"tensors\": {{"));
        for k in 0..2 + self.below(3) {
            let on_host = !self.device || k == 1;
            let device = if on_host { "cpu:0" } else { "sim:0" };
            let name = format!("x{k}");
            let comma = if k == 0 { "" } else { "," };
            self.put(format_args!(
                "{comma}\n    \"{name}\": {{ \"dtype\": \"i64\", \"device\": \"{device}\", \
                 \"values\": [{k}, {}, -3, 7] }}",
                k + 1
            ));
            self.live.push(Live { name, len: 4, on_host });
        }
        self.put(format_args!("\n  }},\n  \"program\": ["));
        let steps = 4 + self.below(20);
        for k in 0..steps {
            let before = self.text.len();
            let comma = if k == 0 { "" } else { "," };
            self.put(format_args!("{comma}\n    "));
            let from = self.text.len();
            self.step();
            if self.text.len() == from {
                self.text.truncate(before);
                // The next one would begin with a comma.
                if k == 0 {
                    self.put(format_args!("\n    {{ \"barrier\": true }}"));
                }
            }
        }
        self.put(format_args!("\n  ],\n  \"outputs\": {{"));
        for (k, live) in std::mem::take(&mut self.live).iter().enumerate() {
            let comma = if k == 0 { "" } else { "," };
            self.put(format_args!("{comma} \"{}\": {{}}", live.name));
        }
        self.put(format_args!(" }}\n}}\n"));
    }

    /// One of the tensors that lie beside the first, of its length.
    fn beside(&mut self, x: usize) -> usize {
        let (len, on_host) = (self.live[x].len, self.live[x].on_host);
        let alike = |l: &Live| l.len == len && l.on_host == on_host;
        let alike: Vec<usize> = (0..self.live.len()).filter(|k| alike(&self.live[*k])).collect();
        alike[self.below(alike.len())]
    }

    /// A stream that computes where a tensor lies.
    fn stream_for(&mut self, x: usize) -> String {
        if self.device && self.live[x].on_host {
            return "host".to_owned();
        }
        self.any_stream()
    }

    fn any_stream(&mut self) -> String {
        format!("s{}", self.below(self.streams))
    }

    fn made(&mut self, len: usize, on_host: bool) -> String {
        let name = format!("t{}", self.named);
        self.named += 1;
        self.live.push(Live { name: name.clone(), len, on_host });
        name
    }

    fn step(&mut self) {
        let x = self.below(self.live.len());
        let y = self.beside(x);
        let (a, b) = (self.live[x].name.clone(), self.live[y].name.clone());
        let (len, on_host) = (self.live[x].len, self.live[x].on_host);
        let stream = self.stream_for(x);
        let on = format!("\"stream\": \"{stream}\"");
        match self.below(20) {
            0..=2 => {
                let out = self.made(len, on_host);
                self.put(format_args!(
                    "{{ \"op\": \"add\", \"in\": [\"{a}\", \"{b}\"], \"out\": \"{out}\", {on}, \
                     \"attrs\": {{ \"alpha\": 3 }} }}"
                ));
            }
            3 => {
                let out = self.made(len, on_host);
                self.put(format_args!(
                    "{{ \"op\": \"mul\", \"in\": [\"{a}\", \"{b}\"], \"out\": \"{out}\", {on} }}"
                ));
            }
            4 => {
                let out = self.made(len, on_host);
                self.put(format_args!(
                    "{{ \"op\": \"relu\", \"in\": \"{a}\", \"out\": \"{out}\", {on} }}"
                ));
            }
            5..=7 => {
                self.put(format_args!("{{ \"op\": \"add_\", \"in\": [\"{a}\", \"{b}\"], {on} }}"))
            }
            8 if len == 4 => {
                let out = self.made(2, on_host);
                self.put(format_args!(
                    "{{ \"op\": \"slice\", \"in\": \"{a}\", \"out\": \"{out}\", {on}, \
                     \"attrs\": {{ \"start\": 1, \"end\": 3 }} }}"
                ));
            }
            9 | 10 => self.copy(&a, len, on_host, &stream),
            11 => {
                let value = self.below(9);
                self.put(format_args!(
                    "{{ \"op\": \"fill\", \"in\": \"{a}\", {on}, \"attrs\": {{ \"value\": {value} }} }}"
                ));
            }
            12 | 13 if self.live.len() > 2 => {
                self.live.swap_remove(x);
                self.put(format_args!("{{ \"release\": \"{a}\" }}"));
            }
            14 => {
                let event = self.events.min(2);
                self.events = event + 1;
                self.put(format_args!("{{ \"record\": \"e{event}\", {on} }}"));
            }
            15 if self.events > 0 => {
                let event = self.below(self.events);
                self.put(format_args!("{{ \"wait\": \"e{event}\", {on} }}"));
            }
            16 => {
                let from = self.any_stream();
                if from != stream {
                    self.put(format_args!(
                        "{{ \"stream_wait\": {{ \"from\": \"{from}\", \"to\": \"{stream}\" }} }}"
                    ));
                }
            }
            17 => self.put(format_args!("{{ \"touch\": [\"{a}\", \"{b}\"], {on} }}")),
            18 => match self.below(4) {
                0 => self.put(format_args!("{{ \"barrier\": true }}")),
                1 => self.put(format_args!("{{ \"synchronize\": \"{stream}\" }}")),
                _ => self.put(format_args!("{{ \"read\": \"{a}\" }}")),
            },
            19 => self.put(format_args!(
                "{{ \"critical_section\": \"{a}\", \"body\": \
                 [{{ \"op\": \"add_\", \"in\": [\"{a}\", \"{a}\"], {on} }}] }}"
            )),
            _ => {}
        }
    }

    /// A copy: where the tensor lies, or between the host and the device.
    fn copy(&mut self, a: &str, len: usize, on_host: bool, stream: &str) {
        let across = self.device && self.below(2) == 0;
        let stream = match (across, on_host) {
            (false, _) => stream,
            (true, true) => "in",
            (true, false) => "out",
        };
        let out = self.made(len, on_host != across);
        self.put(format_args!(
            "{{ \"op\": \"copy\", \"in\": \"{a}\", \"out\": \"{out}\", \"stream\": \"{stream}\" }}"
        ));
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
