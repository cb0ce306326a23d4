//! A copy to a device, a kernel there, and a copy back. The device executes the waits between its
//! three streams; the host executes the waits between host and device.

use millstream::*;
use millstream_testing::machine::*;

#[test]
fn host_to_device_and_back() {
    let list = emitted(SyncPolicy::Frontier, |m| {
        let to = m.stream(&StreamKey::new(SIM, StreamType::HOST2DEVICE, 0)).unwrap();
        let on = sim(m, 0);
        let from = m.stream(&StreamKey::new(SIM, StreamType::DEVICE2HOST, 0)).unwrap();
        let host = cpu(m, 0);
        let x = upload(&host, m, &[1.0, -2.0]);
        m.start_recording(&[("x", &x)]).unwrap();
        let staged = call(m, "relu", &[&x], &host);
        let there = call(m, "copy", &[&staged], &to);
        let y = call(m, "add", &[&there, &there], &on);
        let back = call(m, "copy", &[&y], &from);
        let z = call(m, "add", &[&back, &x], &host);
        let list = m.finish_recording().unwrap();
        assert_eq!((back.device(), y.device()), (&CPU, &SIM));
        assert_eq!(read(&z), [3.0, -2.0]);
        list
    });
    insta::assert_snapshot!(list, @r#"
    millstream-list 1
    stream s0 sim:0 host2device 0 in-order
    stream s1 sim:0 compute 0 in-order
    stream s2 sim:0 device2host 0 in-order
    stream s3 cpu:0 compute 0 in-order
    arena a0 sim:0
    arena a1 cpu:0
    external %0 "x" f32[2] in 8 bytes of a1
    AllocateTensor s3 %1 f32[2] as 8 bytes at a1+512 generation 2
    OpCall s3:2 relu (%0 read, %1 write)
    AllocateTensor s0 %2 f32[2] as 8 bytes at a0+0 generation 1
    SoftSyncStream s0 needs s3:2 for (%1) by-host
    StreamWaitEvent s0:1 until s3:2 by-host
    OpCall s0:2 copy (%1 read, %2 write)
    AllocateTensor s1 %3 f32[2] as 8 bytes at a0+512 generation 2
    SoftSyncStream s1 needs s0:2 for (%2) by-device
    RecordEvent s0:3 e0
    StreamWaitEvent s1:1 until s0:3 by-device e0
    OpCall s1:2 add (%2 read, %2 read, %3 write)
    AllocateTensor s2 %4 f32[2] as 8 bytes at a1+1024 generation 3
    SoftSyncStream s2 needs s1:2 for (%3) by-device
    RecordEvent s1:3 e1
    StreamWaitEvent s2:1 until s1:3 by-device e1
    OpCall s2:2 copy (%3 read, %4 write)
    AllocateTensor s3 %5 f32[2] as 8 bytes at a1+1536 generation 4
    SoftSyncStream s3 needs s2:2 for (%4) by-host
    StreamWaitEvent s3:3 until s2:2 by-host
    OpCall s3:4 add (%4 read, %0 read, %5 write)
    "#);
}
