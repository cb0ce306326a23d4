//! Runs a million instructions over four streams. Events and memory at the end equal those after
//! the first tenth, and the sums are right.

use anyhow::Result;

use millstream::ep::cuda::{CompletionMode, ResourceCounts};
use millstream::instructions::Kind;
use millstream::{Attrs, Stream, Tensor};

use super::Setting;
use super::fixture::Fixture;
use super::section::Section;

/// The number of instructions, on a GPU and on the stand-in.
const INSTRUCTIONS: [u64; 2] = [1_000_000, 20_000];

/// The number of tensors that are incremented, and of streams.
const TENSORS: usize = 8;
const STREAMS: usize = 4;

/// The numbers that are compared.
#[derive(Debug, PartialEq)]
struct State {
    counts: ResourceCounts,
    slots: u64,
    /// For each device, the bytes taken from it and the bytes held.
    memory: Vec<(String, u64, u64)>,
}

struct Soak {
    fixture: Fixture,
    streams: Vec<Stream>,
    tensors: Vec<Tensor>,
    one: Tensor,
    /// The number of increments of each tensor.
    sums: [u32; TENSORS],
}

pub(super) fn check(setting: &Setting, section: &mut Section) -> Result<()> {
    let all = INSTRUCTIONS[usize::from(!setting.real || setting.quick)];
    let fixture = Fixture::new(setting.device, CompletionMode::default(), |_| ())?;
    let streams = (0..STREAMS as u32).map(|k| fixture.compute(k)).collect::<Result<_>>()?;
    let tensors = (0..TENSORS).map(|_| fixture.tensor(&[0.0; 256])).collect::<Result<_>>()?;
    let one = fixture.tensor(&[1.0; 256])?;
    let mut soak = Soak { fixture, streams, tensors, one, sums: [0; TENSORS] };
    soak.until(all / 10, all, section)?;
    let before = soak.state()?;
    soak.until(all, all, section)?;
    let after = soak.state()?;
    section.notes.push(format!("{} instructions, {after:?}", soak.instructions()?));
    let differs = (before != after).then(|| format!("{before:?} became {after:?}"));
    section.check("events, memory, waits for the whole device: none in the steady state", differs);
    for (tensor, sum) in soak.tensors.iter().zip(soak.sums) {
        let bytes = tensor.read()?;
        let expected = (sum as f32).to_ne_bytes();
        let wrong = bytes.chunks_exact(4).filter(|c| *c != expected).count();
        let failure = (wrong > 0).then(|| format!("{wrong} elements are not {sum}"));
        section.check("a tensor that was counted up", failure);
    }
    Ok(())
}

impl Soak {
    /// Submits until there are `instructions` instructions of `all`, or the time is over.
    fn until(&mut self, instructions: u64, all: u64, section: &mut Section) -> Result<()> {
        let machine = self.fixture.machine.clone();
        let calls: Vec<_> = self
            .tensors
            .iter()
            .map(|x| machine.prepare("add_", &[x, &self.one], Attrs::new()))
            .collect::<millstream::Result<_>>()?;
        loop {
            let made = self.instructions()?;
            if made >= instructions || section.is_over(|| format!("{made} of {all} instructions")) {
                return Ok(());
            }
            for k in 0..64 {
                // Each tensor moves from stream to stream.
                let (at, on) = (k % TENSORS, (k / TENSORS + k) % STREAMS);
                calls[at].on(&self.streams[on])?;
                self.sums[at] += 1;
            }
            // A tensor that is made on one stream, used on another and dropped.
            let x = machine.call("relu", &[&self.tensors[0]]).on(&self.streams[1])?.remove(0);
            machine.call("add_", &[&x, &self.one]).on(&self.streams[2])?;
        }
    }

    fn instructions(&self) -> Result<u64> {
        let stats = self.fixture.machine.stats()?;
        Ok(Kind::ALL.iter().map(|&kind| stats.of(kind)).sum())
    }

    /// Returns the state when nothing is in flight.
    fn state(&self) -> Result<State> {
        self.fixture.machine.synchronize()?;
        let memory = self.fixture.machine.memory()?;
        let memory = memory.into_iter().map(|m| (m.device.to_string(), m.reserved, m.in_use));
        let (counts, slots) =
            (self.fixture.counts()?, self.fixture.machine.stats()?.events_created);
        Ok(State { counts, slots, memory: memory.collect() })
    }
}
