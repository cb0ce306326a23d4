//! A lost device fails its streams at once and does not affect other devices.

use millstream::*;
use millstream_testing::machine::*;

#[test]
fn its_streams_fail_and_the_host_continues() {
    let (m, control) = by_hand();
    let (s, t, host) = (sim(&m, 0), sim(&m, 1), cpu(&m, 0));
    let here = upload(&host, &m, &[1.0, -2.0]);
    let x = m.empty(&s, f32_spec(&[1])).unwrap();
    m.call("fill", &[&x]).attr("value", 1.0).on(&s).unwrap();
    let y = call(&m, "relu", &[&x], &t);
    control.wait_for_commands(4, LONG).unwrap();
    assert_eq!(m.async_error(&SIM).unwrap(), None);
    control.lose(0).unwrap();
    assert!(matches!(m.async_error(&SIM).unwrap(), Some(Error::Device { .. })));
    assert_eq!(m.async_error(&CPU).unwrap(), None);
    m.async_error(&DeviceId::sim(7)).unwrap_err();
    for tensor in [&x, &y] {
        let failed = failure(tensor.read().unwrap_err());
        assert_eq!(failed.cause, types::Cause::Device);
        assert!(failed.message.contains("sim:0"), "{failed}");
    }
    assert_eq!(failure(s.synchronize().unwrap_err()).cause, types::Cause::Device);
    assert_eq!(failure(t.synchronize().unwrap_err()).cause, types::Cause::Device);
    // A later call fails as well, on its own.
    m.clear_failures();
    m.call("fill", &[&x]).attr("value", 2.0).on(&s).unwrap();
    assert_eq!(failure(s.synchronize().unwrap_err()).op.as_deref(), Some("fill"));
    m.clear_failures();
    let z = call(&m, "relu", &[&here], &host);
    assert_eq!(read(&z), [1.0, 0.0]);
    m.synchronize().unwrap();
}
