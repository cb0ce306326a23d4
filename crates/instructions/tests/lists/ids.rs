//! The visitor and the renumbering see every id of an instruction. The text form, which prints each
//! field by itself, is the reference.

use std::convert::Infallible;

use proptest::prelude::*;

use millstream_instructions::text::print_instruction;
use millstream_instructions::{
    Accesses, ArenaId, Body, Class, Id, Instruction, Kind, Operand, Remap, Role,
};
use millstream_types::{
    CallbackId, EventId, ListId, OpId, Origin, Point, ReadId, StreamId, TensorId,
};

use crate::common::{OPS, instruction, list, ops};

/// The instruction without the parts of its text that only look like ids.
fn plain(mut body: Body) -> Body {
    if let Body::OpCall { attrs, .. } = &mut body {
        *attrs = None;
    }
    body
}

/// The ids of a line, as it writes them. The line's kind and its op are left out.
fn ids_of_text(line: &str) -> Vec<String> {
    let fields = line.split_once(' ').map_or("", |(_, fields)| fields);
    let tokens = fields.split([' ', ',', '(', ')', '+']).filter(|t| !t.is_empty());
    let marks = ["s", "%", "e", "a", "list", "read", "cb"];
    let is_id = |token: &&str| {
        marks.iter().any(|mark| {
            token.strip_prefix(mark).is_some_and(|rest| {
                rest.starts_with(|c: char| c.is_ascii_digit())
                    && rest.chars().all(|c| c.is_ascii_digit() || c == ':')
            })
        })
    };
    let mut found: Vec<String> = tokens.filter(is_id).map(str::to_owned).collect();
    found.sort_unstable();
    found
}

/// The ids that the visitor sees, as the text form writes them, without ops.
fn visited(body: &Body) -> Vec<String> {
    let mut found = Vec::new();
    body.visit_ids(&mut |id, _| match id {
        Id::Stream(id) => found.push(id.to_string()),
        Id::Point(point) => found.push(point.to_string()),
        Id::Tensor(id) => found.push(id.to_string()),
        Id::Event(id) => found.push(id.to_string()),
        Id::Arena(id) => found.push(id.to_string()),
        Id::List(id) => found.push(id.to_string()),
        Id::Read(id) => found.push(id.to_string()),
        Id::Callback(id) => found.push(id.to_string()),
        Id::Op(_) => {}
    });
    found.sort_unstable();
    found
}

/// Adds one to every id.
struct Next;

impl Remap for Next {
    type Error = Infallible;
    fn stream(&mut self, id: StreamId) -> Result<StreamId, Infallible> {
        Ok(StreamId(id.0.wrapping_add(1)))
    }
    fn tensor(&mut self, id: TensorId, _: Role) -> Result<TensorId, Infallible> {
        Ok(TensorId(id.0.wrapping_add(1)))
    }
    fn event(&mut self, id: EventId, _: Role) -> Result<EventId, Infallible> {
        Ok(EventId(id.0.wrapping_add(1)))
    }
    fn arena(&mut self, id: ArenaId) -> Result<ArenaId, Infallible> {
        Ok(ArenaId(id.0.wrapping_add(1)))
    }
    fn op(&mut self, id: OpId) -> Result<OpId, Infallible> {
        Ok(OpId((id.0 + 1) % OPS.len() as u32))
    }
    fn list(&mut self, id: ListId) -> Result<ListId, Infallible> {
        Ok(ListId(id.0.wrapping_add(1)))
    }
    fn read(&mut self, id: ReadId) -> Result<ReadId, Infallible> {
        Ok(ReadId(id.0.wrapping_add(1)))
    }
    fn callback(&mut self, id: CallbackId) -> Result<CallbackId, Infallible> {
        Ok(CallbackId(id.0.wrapping_add(1)))
    }
}

/// The visited id that follows this one.
fn next(id: Id) -> Id {
    let Ok(id) = match id {
        Id::Stream(id) => Next.stream(id).map(Id::Stream),
        Id::Point(p) => Next.stream(p.stream).map(|s| Id::Point(Point::new(s, p.seq))),
        Id::Tensor(id) => Next.tensor(id, Role::Uses).map(Id::Tensor),
        Id::Event(id) => Next.event(id, Role::Uses).map(Id::Event),
        Id::Arena(id) => Next.arena(id).map(Id::Arena),
        Id::Op(id) => Next.op(id).map(Id::Op),
        Id::List(id) => Next.list(id).map(Id::List),
        Id::Read(id) => Next.read(id).map(Id::Read),
        Id::Callback(id) => Next.callback(id).map(Id::Callback),
    };
    id
}

fn ids(body: &Body) -> Vec<(Id, Role)> {
    let mut found = Vec::new();
    body.visit_ids(&mut |id, role| found.push((id, role)));
    found
}

proptest! {
    #[test]
    fn the_visitor_sees_what_the_text_says(given in instruction()) {
        let body = plain(given.body);
        let line = Instruction { body: body.clone(), origin: Origin::Unknown };
        let mut text = print_instruction(&line, &ops());
        if let Body::OpCall { at, .. } = &body {
            // Ops may be named like ids.
            let operands = text.rfind('(').unwrap();
            let end = text.len();
            text = format!("OpCall {at} {}", &text[operands..end]);
        }
        prop_assert_eq!(visited(&body), ids_of_text(&text), "{}", text);
    }

    #[test]
    fn a_renumbering_changes_each_id_once(given in instruction()) {
        let mut body = given.body.clone();
        let Ok(()) = body.remap(&mut Next);
        let expected: Vec<(Id, Role)> =
            ids(&given.body).into_iter().map(|(id, role)| (next(id), role)).collect();
        prop_assert_eq!(ids(&body), expected);
    }

    #[test]
    fn what_is_not_replaced_is_kept(given in instruction()) {
        struct Same;
        impl Remap for Same {
            type Error = Infallible;
        }
        let mut body = given.body.clone();
        let Ok(()) = body.remap(&mut Same);
        prop_assert_eq!(body, given.body);
    }

    #[test]
    fn queries_agree_with_the_visitor(given in instruction()) {
        let body = &given.body;
        let all = ids(body);
        let of = |wanted: Role| all.iter().find_map(|(id, role)| match id {
            Id::Point(point) if *role == wanted => Some(*point),
            _ => None,
        });
        prop_assert_eq!(body.at(), of(Role::Takes));
        if body.kind() != Kind::HostObserved {
            prop_assert_eq!(body.until(), of(Role::Awaits));
        }
        for Operand { tensor, .. } in body.operands() {
            prop_assert!(all.contains(&(Id::Tensor(*tensor), Role::Uses)));
        }
        if let Some(placement) = body.placement() {
            prop_assert!(all.contains(&(Id::Arena(placement.arena), Role::Uses)));
        }
        if let Some((tensor, _)) = body.begins() {
            prop_assert!(all.contains(&(Id::Tensor(tensor), Role::Defines)));
        }
        let awaited: Vec<(Id, Role)> =
            body.awaited().iter().map(|p| (Id::Point(*p), Role::Awaits)).collect();
        let awaits = all.iter().filter(|(_, role)| *role == Role::Awaits).copied();
        prop_assert_eq!(awaited, awaits.collect::<Vec<_>>());
        let named = [
            body.op().map(|op| (Id::Op(op), Role::Uses)),
            body.list().map(|list| (Id::List(list), Role::Uses)),
            body.on().map(|stream| (Id::Stream(stream), Role::Uses)),
            body.view_of().map(|tensor| (Id::Tensor(tensor), Role::Uses)),
            body.ends().map(|tensor| (Id::Tensor(tensor), Role::Ends)),
        ];
        for id in named.into_iter().flatten() {
            prop_assert!(all.contains(&id));
        }
        let counts = |is_one: fn(&Id) -> bool| all.iter().any(|(id, _)| is_one(id));
        prop_assert_eq!(body.op().is_some(), counts(|id| matches!(id, Id::Op(_))));
        prop_assert_eq!(body.list().is_some(), counts(|id| matches!(id, Id::List(_))));
        prop_assert_eq!(body.on().is_some(), counts(|id| matches!(id, Id::Stream(_))));
    }

    #[test]
    fn the_fields_of_a_kind_are_those_of_its_class(given in instruction()) {
        let body = &given.body;
        let class = body.class();
        let defines_event = ids(body)
            .iter()
            .any(|(id, role)| matches!(id, Id::Event(_)) && *role == Role::Defines);
        prop_assert_eq!(body.begins().is_some(), class == Class::Begins);
        prop_assert_eq!(body.ends().is_some(), class == Class::Ends);
        prop_assert_eq!(body.until().is_some() && body.via().is_some(), class == Class::Waits);
        prop_assert_eq!(defines_event && body.via().is_none(), class == Class::Records);
        let has_point = !matches!(
            class,
            Class::Begins | Class::Ends | Class::Observes | Class::Annotates
        );
        prop_assert_eq!(body.at().is_some(), has_point);
        let is_used = body.kind().accesses() != Accesses::Nothing;
        prop_assert!(is_used || body.operands().is_empty());
        prop_assert_eq!(is_used, matches!(class, Class::Computes | Class::Orders));
        prop_assert!(body.op().is_none() || class == Class::Computes);
        prop_assert!(body.list().is_none() || class == Class::Computes);
    }

    #[test]
    fn lists_are_equal_whatever_the_ids_of_their_ops(given in list()) {
        struct NextOp;
        impl Remap for NextOp {
            type Error = Infallible;
            fn op(&mut self, id: OpId) -> Result<OpId, Infallible> {
                Next.op(id)
            }
        }
        let mut renumbered = given.clone();
        for instruction in &mut renumbered.instructions {
            let Ok(()) = instruction.body.remap(&mut NextOp);
        }
        let calls = given.instructions.iter().any(|i| i.body.kind() == Kind::OpCall);
        prop_assert_eq!(given == renumbered, !calls);
        let last = OPS.len() - 1;
        renumbered.ops = OPS[last..].iter().chain(&OPS[..last]).copied().collect();
        prop_assert_eq!(&given, &renumbered);
    }
}
