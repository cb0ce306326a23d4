//! Milliseconds between two records, by the host's clock or by that of their device.

use std::sync::Arc;
use std::time::Instant;

use millstream::ep::cpu::CpuBackend;
use millstream::ep::{Backend, Capabilities, Device, Registry};
use millstream::*;
use millstream_testing::machine::*;

fn milliseconds(from: Instant, to: Instant) -> f64 {
    to.duration_since(from).as_secs_f64() * 1e3
}

/// The time between two records includes the work between them, and is at most the host's own
/// measurement.
#[test]
fn the_time_of_a_blocked_stream_is_counted() {
    let m = threaded();
    let s = cpu(&m, 0);
    let x = upload(&s, &m, &[1.0]);
    let (start, end) = (m.timed_event(), m.timed_event());
    let before = Instant::now();
    start.record_on(&s).unwrap();
    start.synchronize_for(LONG).unwrap();
    assert_eq!(start.elapsed_time(&start).unwrap(), 0.0);
    let begun = Instant::now();
    let gate = Gate::on(&x);
    end.record_on(&s).unwrap();
    gate.entered();
    let opened = Instant::now();
    gate.open();
    end.synchronize_for(LONG).unwrap();
    let took = start.elapsed_time(&end).unwrap();
    let most = milliseconds(before, Instant::now());
    assert!(milliseconds(begun, opened) <= took && took <= most, "{took} of {most}");
    assert_eq!(end.elapsed_time(&start).unwrap(), -took);
}

/// Times follow the order of completion, on both devices, across devices and under both drivers.
#[test]
fn every_record_has_its_time() {
    for driver in DRIVERS {
        let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        let records: Vec<Event> = [cpu(&m, 0), sim(&m, 0), cpu(&m, 1), sim(&m, 0)]
            .into_iter()
            .map(|s| {
                upload(&s, &m, &[1.0]);
                let e = m.timed_event();
                e.record_on(&s).unwrap();
                e.synchronize_for(LONG).unwrap();
                e.elapsed_time(&e).unwrap();
                e
            })
            .collect();
        for pair in records.windows(2) {
            assert!(pair[0].elapsed_time(&pair[1]).unwrap() >= 0.0);
        }
    }
}

/// The clock of a simulated device counts commands: a microsecond each.
const COMMAND: f64 = 1e-3;

/// A record on `sim` has its time once its step has run, however long the test waits before.
#[test]
fn a_simulated_record_has_the_time_of_its_step() {
    for driver in DRIVERS {
        let (config, control) = by_hand_config();
        let m = Machine::new(config.driver(driver)).unwrap();
        let s = sim(&m, 0);
        let x = m.empty(&s, f32_spec(&[1])).unwrap();
        m.call("fill", &[&x]).attr("value", 1.0).on(&s).unwrap();
        let (start, end) = (m.timed_event(), m.timed_event());
        start.record_on(&s).unwrap();
        end.record_on(&s).unwrap();
        control.wait_for_commands_on(on_sim(0), 3, LONG).unwrap();
        assert!(control.step(on_sim(0)).unwrap() && control.step(on_sim(0)).unwrap());
        start.synchronize_for(LONG).unwrap();
        start.elapsed_time(&start).unwrap();
        start.elapsed_time(&end).unwrap_err();
        assert!(control.step(on_sim(0)).unwrap());
        end.synchronize_for(LONG).unwrap();
        assert_eq!(start.elapsed_time(&end).unwrap(), COMMAND);
    }
}

/// The times of two records on one device are those of its clock, on all its streams.
#[test]
fn records_of_one_device_have_the_times_of_its_clock() {
    for driver in ALL_DRIVERS {
        let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        let (a, b) = (sim(&m, 0), sim(&m, 1));
        let x = m.empty(&a, f32_spec(&[1])).unwrap();
        let [begin, middle, end] = [(); 3].map(|()| m.timed_event());
        begin.record_on(&a).unwrap();
        m.call("fill", &[&x]).attr("value", 1.0).on(&a).unwrap();
        call(&m, "relu", &[&x], &a);
        middle.record_on(&a).unwrap();
        b.wait_event(&middle).unwrap();
        end.record_on(&b).unwrap();
        middle.synchronize_for(LONG).unwrap();
        end.synchronize_for(LONG).unwrap();
        assert_eq!(begin.elapsed_time(&middle).unwrap(), 3.0 * COMMAND, "{driver:?}");
        assert_eq!(middle.elapsed_time(&begin).unwrap(), -3.0 * COMMAND, "{driver:?}");
        let later = middle.elapsed_time(&end).unwrap();
        // The device waits unless the host knows that it need not.
        assert!((COMMAND..=2.0 * COMMAND).contains(&later), "{driver:?}: {later}");
    }
}

/// Timed events of a device are reused, as those without times are.
#[test]
fn timed_records_in_a_loop_need_few_events() {
    let (config, control) = by_hand_config();
    let m = Machine::new(config.driver(DriverKind::Inline)).unwrap();
    control.switch(millstream::ep::sim::Completion::IssueOrder);
    let s = sim(&m, 0);
    let (begin, end) = (m.timed_event(), m.timed_event());
    for _ in 0..500 {
        begin.record_on(&s).unwrap();
        end.record_on(&s).unwrap();
        end.synchronize_for(LONG).unwrap();
        assert_eq!(begin.elapsed_time(&end).unwrap(), COMMAND);
    }
    let created = control.stats(0).unwrap().events_created;
    assert!(created <= 16, "{created} events for two handles");
}

/// A second record has its own time.
#[test]
fn a_new_generation_has_a_new_time() {
    let m = inline();
    let s = cpu(&m, 0);
    let (e, mark) = (m.timed_event(), m.timed_event());
    e.record_on(&s).unwrap();
    mark.record_on(&s).unwrap();
    assert!(e.elapsed_time(&mark).unwrap() >= 0.0);
    e.record_on(&s).unwrap();
    assert!(e.elapsed_time(&mark).unwrap() <= 0.0);
}

/// A host whose backend has no clock.
struct NoClock(CpuBackend);

impl Backend for NoClock {
    fn kind(&self) -> &str {
        self.0.kind()
    }
    fn count(&self) -> Result<u32> {
        self.0.count()
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities { timestamps: false, ..self.0.capabilities() }
    }
    fn open(&self, index: u32) -> Result<Arc<dyn Device>> {
        self.0.open(index)
    }
}

#[test]
fn an_event_without_a_time_gives_the_reason() {
    let m = inline();
    let s = cpu(&m, 0);
    let (plain, never, timed) = (s.record_event().unwrap(), m.timed_event(), m.timed_event());
    timed.record_on(&s).unwrap();
    let (slow, control) = by_hand();
    let in_flight = slow.timed_event();
    let x = slow.empty(&sim(&slow, 0), f32_spec(&[1])).unwrap();
    slow.call("fill", &[&x]).attr("value", 1.0).on(&sim(&slow, 0)).unwrap();
    in_flight.record_on(&sim(&slow, 0)).unwrap();
    let devices = Registry::new();
    devices.register(Arc::new(NoClock(CpuBackend::new())));
    let config = MachineConfig::default().devices(Arc::new(devices));
    let without_clock = Machine::new(config).unwrap();
    let clockless = without_clock.timed_event();
    clockless.record_on(&cpu(&without_clock, 0)).unwrap();
    clockless.synchronize().unwrap();
    let errors: Vec<String> = [
        timed.elapsed_time(&plain),
        plain.elapsed_time(&timed),
        timed.elapsed_time(&never),
        in_flight.elapsed_time(&in_flight),
        clockless.elapsed_time(&clockless),
    ]
    .into_iter()
    .map(|time| time.unwrap_err().without_place().to_string())
    .collect();
    insta::assert_snapshot!(errors.join("\n"), @"
    invalid event: it takes no times; make it by Machine::timed_event
    invalid event: it takes no times; make it by Machine::timed_event
    invalid event: it was never recorded, so it has no time; record it first
    invalid event: its record has not completed, so it has no time; synchronize first
    invalid event: cpu:0 does not tell when a record completed
    ");
    control.run_until(|| in_flight.query());
    assert_eq!(in_flight.elapsed_time(&in_flight).unwrap(), 0.0);
}
