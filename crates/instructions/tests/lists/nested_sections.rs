//! A section within another may use the tensors of both; other calls may use neither's.

use std::sync::Arc;

use millstream_instructions::builder::OfflineSink;
use millstream_instructions::{InstructionsBuilder, TensorRef};
use millstream_types::{DType, DeviceId, Error, Origin, StreamKey, StreamType, TensorSpec};

#[test]
fn inner_sections_use_what_outer_ones_hold() {
    let ops = Arc::new(millstream_ops::standard());
    let mut builder = InstructionsBuilder::offline(ops);
    let sink = &mut OfflineSink::default();
    let cpu = DeviceId::cpu(0);
    let sections =
        builder.stream(&StreamKey::new(cpu.clone(), StreamType::CRITICAL_SECTION, 0)).unwrap();
    let compute = builder.stream(&StreamKey::compute(cpu.clone(), 0)).unwrap();
    let spec = TensorSpec::contiguous(DType::F32, &[2]).unwrap();
    let [x, y, z]: [TensorRef; 3] =
        std::array::from_fn(|_| builder.import(sink, spec.clone(), 8, &cpu).unwrap());
    let origin = &Origin::Unknown;

    let outer = builder.begin_critical_section(sink, sections, &[x], origin).unwrap();
    let inner = builder.begin_nested_section(sink, sections, &[y], Some(outer), origin).unwrap();
    let apart = builder.begin_critical_section(sink, sections, &[z], origin).unwrap();
    let mut touch = |builder: &mut InstructionsBuilder, tensors: &[TensorRef], section| {
        builder.touch(sink, compute, tensors, section, origin)
    };
    assert!(touch(&mut builder, &[x, y], Some(inner)).is_ok());
    for (tensor, section) in [
        (x, None),
        (x, Some(apart)),
        (y, Some(outer)),
        (y, Some(apart)),
        (z, Some(inner)),
        (z, Some(outer)),
    ] {
        let refused = touch(&mut builder, &[tensor], section);
        assert!(matches!(refused, Err(Error::Held { .. })), "{section:?}: {refused:?}");
    }

    // The outer section's number is reused for another one, which is not the inner one's outer.
    builder.end_critical_section(sink, outer, origin).unwrap();
    let again = builder.begin_critical_section(sink, sections, &[x], origin).unwrap();
    assert_eq!(again, outer);
    let refused = builder.touch(sink, compute, &[x], Some(inner), origin);
    assert!(matches!(refused, Err(Error::Held { .. })), "{refused:?}");
    for section in [inner, apart, again] {
        builder.end_critical_section(sink, section, origin).unwrap();
    }
    builder.all_sections_ended().unwrap();
}
