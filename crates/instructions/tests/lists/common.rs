//! Arbitrary instruction values.

use std::sync::Arc;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;

use millstream_instructions::text::OpNames;
use millstream_instructions::{
    ArenaId, Body, External, GeneratorDecl, Instruction, InstructionList, Kind, Operand, Operands,
    Placement, Priority, Resolution, ScalarDecl, StreamDecl, Via,
};
use millstream_types::{
    Access, AttrValue, Attrs, CallbackId, DType, DeviceId, EventId, Layout, ListId, OpId, Origin,
    Point, ReadId, ScalarId, ScalarUse, ScalarValue, StreamId, StreamKey, StreamMode, StreamType,
    TensorId, TensorSpec, WorkKind, WorkSet,
};

/// Names of ops, some of which need quotes.
pub(crate) const OPS: [&str; 9] =
    ["add_", "std::add", "", "?", "1x", "two words", "a\"b # {", "line\nline", "größe\u{85}"];

pub(crate) fn ops() -> OpNames {
    OPS.into_iter().collect()
}

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), "[a-z_.:-]{1,6}", "[\"\\\\#{}\\[\\], \t\r\n']{0,6}"]
}

fn points() -> impl Strategy<Value = Point> {
    (any::<u16>(), any::<u64>()).prop_map(|(s, n)| Point::new(StreamId(s), n))
}

fn tensors() -> impl Strategy<Value = TensorId> {
    any::<u32>().prop_map(TensorId)
}

fn operand() -> impl Strategy<Value = Operand> {
    (tensors(), select(vec![Access::Read, Access::Write, Access::ReadWrite]))
        .prop_map(|(tensor, access)| Operand { tensor, access })
}

fn operands() -> impl Strategy<Value = Operands> {
    vec(operand(), 0..7).prop_map(Operands::from_vec)
}

fn placements() -> impl Strategy<Value = Box<Placement>> {
    (any::<u16>(), any::<u64>(), any::<u64>(), any::<u64>()).prop_map(
        |(arena, offset, size, generation)| {
            Box::new(Placement { arena: ArenaId(arena), offset, size, generation })
        },
    )
}

fn specs() -> impl Strategy<Value = TensorSpec> {
    let dims = vec((0usize..5, 0usize..9), 0..5);
    let odd = select(vec![
        Layout::strided(&[0, usize::MAX, 2], &[1, 2, 1], 7),
        Layout::strided(&[1], &[usize::MAX], 1 << 40),
    ]);
    let plain = (dims, 0usize..9, any::<bool>()).prop_map(|(dims, offset, dense)| {
        let (shape, strides): (Vec<_>, Vec<_>) = dims.into_iter().unzip();
        if dense { Layout::contiguous(&shape) } else { Layout::strided(&shape, &strides, offset) }
    });
    (select(DType::ALL.to_vec()), prop_oneof![9 => plain, 1 => odd])
        .prop_map(|(dtype, layout)| TensorSpec::new(dtype, layout.unwrap()).unwrap())
}

fn floats() -> impl Strategy<Value = f64> {
    let odd = vec![f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1e16, 1e-7];
    prop_oneof![any::<f64>(), any::<u64>().prop_map(f64::from_bits), select(odd)]
}

fn scalar_values() -> impl Strategy<Value = ScalarValue> {
    prop_oneof![any::<i64>().prop_map(ScalarValue::Int), floats().prop_map(ScalarValue::Float),]
}

fn values() -> impl Strategy<Value = AttrValue> {
    prop_oneof![
        any::<i64>().prop_map(AttrValue::Int),
        floats().prop_map(AttrValue::Float),
        any::<bool>().prop_map(AttrValue::Bool),
        texts().prop_map(AttrValue::Str),
        vec(any::<i64>(), 0..4).prop_map(AttrValue::Ints),
        vec(floats(), 0..4).prop_map(AttrValue::Floats),
        select(DType::ALL.to_vec()).prop_map(AttrValue::DType),
        (any::<u32>(), any::<i64>()).prop_map(|(scalar, plus)| {
            AttrValue::Scalar(ScalarUse { scalar: ScalarId(scalar), plus })
        }),
    ]
}

fn attrs() -> impl Strategy<Value = Attrs> {
    btree_map(texts(), values(), 0..4).prop_map(|map| {
        let mut attrs = Attrs::new();
        for (name, value) in map {
            attrs.set(name, value);
        }
        attrs
    })
}

fn vias() -> impl Strategy<Value = Via> {
    prop_oneof![Just(Via::Host), any::<u32>().prop_map(|e| Via::Device(EventId(e)))]
}

fn resolutions() -> impl Strategy<Value = Resolution> {
    prop_oneof![
        Just(Resolution::Device),
        Just(Resolution::Host),
        Just(Resolution::Known),
        Just(Resolution::Fenced),
        points().prop_map(Resolution::Implied),
    ]
}

/// Returns any instruction of this kind. The match has no wildcard: a new kind is tested, or does
/// not compile.
pub(crate) fn body(kind: Kind) -> BoxedStrategy<Body> {
    let at = points();
    match kind {
        Kind::OpCall => {
            let op = (0..OPS.len() as u32).prop_map(OpId);
            let attrs = proptest::option::of(attrs().prop_map(Arc::new));
            let priority = prop_oneof![Just(0), any::<i32>()].prop_map(Priority);
            (at, op, operands(), attrs, proptest::option::of(placements()), priority)
                .prop_map(|(at, op, operands, attrs, workspace, priority)| Body::OpCall {
                    at,
                    op,
                    operands,
                    attrs,
                    workspace,
                    priority,
                })
                .boxed()
        }
        Kind::AllocateTensor => (any::<u16>(), tensors(), specs(), placements())
            .prop_map(|(on, tensor, spec, placement)| Body::AllocateTensor {
                on: StreamId(on),
                tensor,
                spec: Box::new(spec),
                placement,
            })
            .boxed(),
        Kind::ViewTensor => (tensors(), tensors(), specs())
            .prop_map(|(tensor, of, spec)| Body::ViewTensor { tensor, of, spec: Box::new(spec) })
            .boxed(),
        Kind::ReleaseTensor => tensors().prop_map(|tensor| Body::ReleaseTensor { tensor }).boxed(),
        Kind::TouchTensors => {
            (at, operands()).prop_map(|(at, operands)| Body::TouchTensors { at, operands }).boxed()
        }
        Kind::SoftSyncStream => (any::<u16>(), points(), vec(tensors(), 0..6), resolutions())
            .prop_map(|(on, needs, tensors, resolution)| Body::SoftSyncStream {
                on: StreamId(on),
                needs,
                tensors: tensors.into(),
                resolution,
            })
            .boxed(),
        Kind::RecordEvent => (at, any::<u32>())
            .prop_map(|(at, event)| Body::RecordEvent { at, event: EventId(event) })
            .boxed(),
        Kind::StreamWaitEvent => (at, points(), vias())
            .prop_map(|(at, until, via)| Body::StreamWaitEvent { at, until, via })
            .boxed(),
        Kind::StreamWait => (at, points(), vias())
            .prop_map(|(at, until, via)| Body::StreamWait { at, until, via })
            .boxed(),
        Kind::Barrier => at.prop_map(|at| Body::Barrier { at }).boxed(),
        Kind::GlobalSync => at.prop_map(|at| Body::GlobalSync { at }).boxed(),
        Kind::HostObserved => vec(points(), 0..6)
            .prop_map(|points| Body::HostObserved { points: points.into() })
            .boxed(),
        Kind::AccessBlobByCallback => (at, operand(), any::<u32>())
            .prop_map(|(at, operand, callback)| Body::AccessBlobByCallback {
                at,
                operand,
                callback: CallbackId(callback),
            })
            .boxed(),
        Kind::SyncRead => (at, operand(), any::<u32>())
            .prop_map(|(at, operand, into)| Body::SyncRead { at, operand, into: ReadId(into) })
            .boxed(),
        Kind::CriticalSectionBegin => (at, operands())
            .prop_map(|(at, operands)| Body::CriticalSectionBegin { at, operands })
            .boxed(),
        Kind::CriticalSectionEnd => (at, operands())
            .prop_map(|(at, operands)| Body::CriticalSectionEnd { at, operands })
            .boxed(),
        Kind::LazyJobLauncher => (at, any::<u32>(), operands(), proptest::option::of(attrs()))
            .prop_map(|(at, list, operands, attrs)| Body::LazyJobLauncher {
                at,
                list: ListId(list),
                operands,
                attrs: attrs.map(Arc::new),
            })
            .boxed(),
    }
}

/// Returns any instruction, with any origin.
pub(crate) fn instruction() -> impl Strategy<Value = Instruction> {
    let origin = prop_oneof![
        Just(Origin::Unknown),
        texts().prop_map(|place| Origin::Text(Arc::new(place))),
        Just(Origin::caller()),
    ];
    (select(Kind::ALL.to_vec()).prop_flat_map(body), origin)
        .prop_map(|(body, origin)| Instruction { body, origin })
}

fn devices() -> impl Strategy<Value = DeviceId> {
    ("[a-z0-9_-]{1,4}", any::<u32>()).prop_map(|(kind, index)| DeviceId::new(kind, index).unwrap())
}

/// Returns any list, with executables. Its ids need not be declared.
pub(crate) fn list() -> impl Strategy<Value = InstructionList> {
    (flat_list(), vec(flat_list(), 0..3))
        .prop_map(|(list, executables)| InstructionList { executables, ..list })
}

/// Returns any list without executables.
fn flat_list() -> impl Strategy<Value = InstructionList> {
    let mode = select(vec![StreamMode::InOrder, StreamMode::Pool]);
    let foreign = "[a-z][a-z0-9_-]{0,2}".prop_map(|name| name.parse().unwrap());
    let ty = prop_oneof![3 => select(StreamType::BUILT_IN.to_vec()), 1 => foreign];
    let work = proptest::sample::subsequence(WorkKind::ALL.to_vec(), 0..=WorkKind::ALL.len())
        .prop_map(|kinds| WorkSet::of(&kinds));
    let facts = (mode, proptest::option::of(work));
    let streams =
        btree_map((devices(), ty, any::<bool>(), any::<u32>()), facts, 0..4).prop_map(|map| {
            let decl =
                |((device, ty, is_created, index), (mode, work)): (_, (_, Option<WorkSet>))| {
                    let key = StreamKey { device, ty, is_created, index };
                    let plain = StreamDecl::new(key, mode);
                    work.map_or(plain.clone(), |work| plain.accepting(work))
                };
            map.into_iter().map(decl).collect()
        });
    let external = (specs(), any::<u64>(), any::<u16>());
    let externals = btree_map(texts(), external, 0..4).prop_map(|map| {
        let one = |(k, (name, (spec, bytes, arena)))| External {
            tensor: TensorId(3 * k),
            name,
            spec,
            bytes,
            arena: ArenaId(arena),
        };
        (0u32..).zip(map).map(one).collect()
    });
    let scalars = btree_map(texts(), scalar_values(), 0..4)
        .prop_map(|map| map.into_iter().map(|(name, value)| ScalarDecl { name, value }).collect());
    let generator = (any::<u32>(), any::<u32>(), any::<u64>()).prop_map(|(seed, offset, draws)| {
        GeneratorDecl { seed: ScalarId(seed), offset: ScalarId(offset), draws }
    });
    let instructions = vec(instruction(), 0..12);
    let parts =
        (streams, vec(devices(), 0..3), externals, scalars, vec(generator, 0..3), instructions);
    parts.prop_map(|(streams, arenas, externals, scalars, generators, instructions)| {
        InstructionList {
            streams,
            arenas,
            externals,
            scalars,
            generators,
            executables: Vec::new(),
            ops: ops(),
            instructions,
        }
    })
}
