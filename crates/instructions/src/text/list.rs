//! The text form of a list: a header, then instructions.

use std::fmt::Write;

use millstream_types::nearest::nearest;
use millstream_types::{
    DeviceId, ListId, ScalarId, StreamId, StreamKey, StreamMode, StreamType, TensorId, TensorSpec,
    WorkKind, WorkSet,
};
use rustc_hash::FxHashSet;

use crate::list::{External, InstructionList, StreamDecl};
use crate::planner::ArenaId;
use crate::scalar::{GeneratorDecl, ScalarDecl};
use crate::text::field::Field;
use crate::text::{OpNames, TextError, instruction_at, print_instruction};
use millstream_types::text::{Cursor, parse_number};

const MAGIC: &str = "millstream-list";
const VERSION: u32 = 1;

/// Whether a text is a list: whether its first line with content names the format.
pub fn is_list(text: &str) -> bool {
    let says = |line: &&str| !line.trim_start().is_empty() && !line.trim_start().starts_with('#');
    let first = text.lines().find(says).unwrap_or_default();
    first.split_whitespace().next() == Some(MAGIC)
}

/// Writes a list: a line for each part of the header and for each instruction. An executable has a
/// line with its id, and then its list, whose lines begin with the id, as in `list0: OpCall …`.
pub fn print_list(list: &InstructionList) -> String {
    let mut out = format!("{MAGIC} {VERSION}\n");
    print_header(list, "", &mut out);
    for (k, executable) in list.executables.iter().enumerate() {
        let id = ListId(k as u32);
        let prefix = format!("{id}: ");
        let _ = writeln!(out, "executable {id}");
        print_header(executable, &prefix, &mut out);
        print_instructions(executable, &prefix, &mut out);
    }
    print_instructions(list, "", &mut out);
    out
}

fn print_header(list: &InstructionList, prefix: &str, out: &mut String) {
    for (k, StreamDecl { key, mode, work }) in list.streams.iter().enumerate() {
        let _ = write!(out, "{prefix}stream {}{k} {key} {}", StreamId::MARK, mode.name());
        if key.ty.built_in_work() != Some(*work) {
            let _ = write!(out, " runs {work}");
        }
        out.push('\n');
    }
    for (k, device) in list.arenas.iter().enumerate() {
        let _ = writeln!(out, "{prefix}arena a{k} {device}");
    }
    for External { tensor, name, spec, bytes, arena } in &list.externals {
        let of = format!("{name:?} {spec} in {bytes} bytes of {arena}");
        let _ = writeln!(out, "{prefix}external {tensor} {of}");
    }
    for (k, ScalarDecl { name, value }) in list.scalars.iter().enumerate() {
        let _ = writeln!(out, "{prefix}scalar {}{k} {name:?} {value}", ScalarId::MARK);
    }
    for GeneratorDecl { seed, offset, draws } in &list.generators {
        let _ = writeln!(out, "{prefix}generator seed {seed} offset {offset} draws {draws}");
    }
}

fn print_instructions(list: &InstructionList, prefix: &str, out: &mut String) {
    for instruction in &list.instructions {
        out.push_str(prefix);
        out.push_str(&print_instruction(instruction, &list.ops));
        out.push('\n');
    }
}

/// The names that a header may declare only once.
#[derive(Default)]
struct Seen {
    streams: FxHashSet<StreamKey>,
    externals: FxHashSet<TensorId>,
    names: FxHashSet<String>,
}

/// Reads a list.
///
/// # Errors
/// A line is neither a part of the header nor an instruction; the version is unknown; header lines
/// or executables are out of order, because ids count up from 0; or a stream of a type that is not
/// built in does not state what it runs.
pub fn parse_list(text: &str) -> Result<InstructionList, TextError> {
    parse_list_with_lines(text).map(|(list, _)| list)
}

/// Reads a list, and the line number of each of its own instructions, from 1.
///
/// # Errors
/// The same as those of [`parse_list`].
pub fn parse_list_with_lines(text: &str) -> Result<(InstructionList, Vec<usize>), TextError> {
    let mut lines = Vec::new();
    let mut list = InstructionList::default();
    let mut versioned = false;
    let mut seen = Seen::default();
    let mut seen_of: Vec<Seen> = Vec::new();
    for (k, line) in text.lines().enumerate() {
        let mut cursor = Cursor::new(line, k + 1);
        if cursor.peek().is_none_or(|c| c == '#') {
            continue;
        }
        if !versioned {
            cursor.expect(MAGIC)?;
            let version: u32 = cursor.number("a version")?;
            if version != VERSION {
                let message = format!("version {version} is not known; this reads {VERSION}");
                return Err(cursor.error(message));
            }
            cursor.comment()?;
            versioned = true;
        } else if cursor.eat("executable") {
            let id = ListId::parse(&mut cursor, &mut OpNames::new())?;
            counts_up(&cursor, id.index(), list.executables.len())?;
            cursor.comment()?;
            list.executables.push(InstructionList::default());
            seen_of.push(Seen::default());
        } else if let Some(executable) = executable(&mut cursor, list.executables.len())? {
            let list = &mut list.executables[executable];
            parse_line(&mut cursor, list, &mut seen_of[executable])?;
        } else if parse_line(&mut cursor, &mut list, &mut seen)? {
            lines.push(k + 1);
        }
    }
    if !versioned {
        let message = format!("expected '{MAGIC} {VERSION}', found no line");
        return Err(TextError { line: 1, column: 1, message });
    }
    Ok((list, lines))
}

/// Reads the id that a line of an executable begins with, if the line has one.
fn executable(cursor: &mut Cursor<'_>, known: usize) -> Result<Option<usize>, TextError> {
    let mut ahead = cursor.clone();
    let Ok(id) = ListId::parse(&mut ahead, &mut OpNames::new()) else { return Ok(None) };
    if !ahead.eat(":") {
        return Ok(None);
    }
    if id.index() >= known {
        let message = format!("{id} has no line 'executable {id}' before this one");
        return Err(cursor.error(message));
    }
    *cursor = ahead;
    Ok(Some(id.index()))
}

/// Reads a line of a header or an instruction. Returns whether it is an instruction.
fn parse_line(
    cursor: &mut Cursor<'_>,
    list: &mut InstructionList,
    seen: &mut Seen,
) -> Result<bool, TextError> {
    if cursor.eat("stream") {
        parse_stream(cursor, list, seen)?;
    } else if cursor.eat("arena") {
        parse_arena(cursor, list)?;
    } else if cursor.eat("external") {
        parse_external(cursor, list, seen)?;
    } else if cursor.eat("scalar") {
        parse_scalar(cursor, list)?;
    } else if cursor.eat("generator") {
        parse_generator(cursor, list)?;
    } else {
        list.instructions.push(instruction_at(cursor, &mut list.ops)?);
        return Ok(true);
    }
    Ok(false)
}

fn counts_up(cursor: &Cursor<'_>, got: usize, expected: usize) -> Result<(), TextError> {
    if got == expected {
        return Ok(());
    }
    Err(cursor.error(format!("ids count up from 0: expected {expected}, found {got}")))
}

fn device(cursor: &mut Cursor<'_>) -> Result<DeviceId, TextError> {
    let start = cursor.clone();
    let word = cursor.until(&[' ', '\t', '#'], "a device, as in cpu:0")?;
    word.parse().map_err(|e: millstream_types::Error| start.error(e.to_string()))
}

fn parse_stream(
    cursor: &mut Cursor<'_>,
    list: &mut InstructionList,
    seen: &mut Seen,
) -> Result<(), TextError> {
    let id = StreamId::parse(cursor, &mut OpNames::new())?;
    counts_up(cursor, id.index(), list.streams.len())?;
    let device = device(cursor)?;
    let start = cursor.clone();
    let ty = cursor.word("a stream type")?;
    let ty: StreamType =
        ty.parse().map_err(|e: millstream_types::Error| start.error(e.to_string()))?;
    let at_index = cursor.clone();
    let (is_created, index) = match cursor.word("an index") {
        Ok(word) => {
            let digits = word.strip_prefix(StreamKey::CREATED).and_then(|word| word.parse().ok());
            (true, digits.ok_or_else(|| at_index.expected("the stream's index"))?)
        }
        Err(_) => (false, cursor.number("the stream's index")?),
    };
    let mode = [StreamMode::InOrder, StreamMode::Pool]
        .into_iter()
        .find(|m| cursor.eat(m.name()))
        .ok_or_else(|| cursor.expected("in-order or pool"))?;
    let work = match (cursor.eat("runs"), ty.built_in_work()) {
        (true, _) => work(cursor)?,
        (false, Some(work)) => work,
        (false, None) => return Err(start.error(not_built_in(ty))),
    };
    cursor.comment()?;
    let key = StreamKey { device, ty, is_created, index };
    if !seen.streams.insert(key.clone()) {
        return Err(cursor.error(format!("stream {key} is declared twice")));
    }
    list.streams.push(StreamDecl { key, mode, work });
    Ok(())
}

/// Reads the kinds of work that a stream accepts.
fn work(cursor: &mut Cursor<'_>) -> Result<WorkSet, TextError> {
    let mut work = WorkSet::default();
    if cursor.eat("nothing") {
        return Ok(work);
    }
    loop {
        let start = cursor.clone();
        let kind = cursor.word("a kind of work")?.parse();
        work = work.with(kind.map_err(|e: millstream_types::Error| start.error(e.to_string()))?);
        if !cursor.eat(",") {
            return Ok(work);
        }
    }
}

/// Explains that a line has to say what streams of an unknown type accept.
fn not_built_in(ty: StreamType) -> String {
    let near = nearest(ty.name(), StreamType::BUILT_IN.iter().map(|ty| ty.name()));
    let hint = near.map_or_else(String::new, |near| format!("; did you mean '{near}'?"));
    format!(
        "stream type '{ty}' is not built in, so its line says what it runs, as in 'runs {}'{hint}",
        WorkKind::Compute
    )
}

fn parse_arena(cursor: &mut Cursor<'_>, list: &mut InstructionList) -> Result<(), TextError> {
    let id = ArenaId::parse(cursor, &mut OpNames::new())?;
    counts_up(cursor, id.index(), list.arenas.len())?;
    let device = device(cursor)?;
    cursor.comment()?;
    list.arenas.push(device);
    Ok(())
}

fn parse_external(
    cursor: &mut Cursor<'_>,
    list: &mut InstructionList,
    seen: &mut Seen,
) -> Result<(), TextError> {
    let ops = &mut OpNames::new();
    let tensor = TensorId::parse(cursor, ops)?;
    let name = cursor.quoted()?;
    let spec = TensorSpec::parse(cursor, ops)?;
    cursor.expect("in")?;
    let bytes = cursor.number("a size in bytes")?;
    cursor.expect("bytes")?;
    cursor.expect("of")?;
    let arena = ArenaId::parse(cursor, ops)?;
    cursor.comment()?;
    if !seen.externals.insert(tensor) || !seen.names.insert(name.clone()) {
        return Err(cursor.error(format!("external {tensor} {name:?} is declared twice")));
    }
    list.externals.push(External { tensor, name, spec, bytes, arena });
    Ok(())
}

fn parse_scalar(cursor: &mut Cursor<'_>, list: &mut InstructionList) -> Result<(), TextError> {
    let id = ScalarId::parse(cursor, &mut OpNames::new())?;
    counts_up(cursor, id.index(), list.scalars.len())?;
    let start = cursor.clone();
    let name = cursor.quoted()?;
    if list.scalars.iter().any(|scalar| scalar.name == name) {
        return Err(start.error(format!("scalar {name:?} is declared twice")));
    }
    let value = parse_number(cursor)?;
    cursor.comment()?;
    list.scalars.push(ScalarDecl { name, value });
    Ok(())
}

fn parse_generator(cursor: &mut Cursor<'_>, list: &mut InstructionList) -> Result<(), TextError> {
    let ops = &mut OpNames::new();
    cursor.expect("seed")?;
    let seed = ScalarId::parse(cursor, ops)?;
    cursor.expect("offset")?;
    let offset = ScalarId::parse(cursor, ops)?;
    cursor.expect("draws")?;
    let draws = cursor.number("the number of draws")?;
    cursor.comment()?;
    list.generators.push(GeneratorDecl { seed, offset, draws });
    Ok(())
}
