//! Trace files of Millstream: the native trace, a JSON file written by hand, and the import of
//! PyTorch execution traces. Both formats load as the same [`Program`].
//!
//! # Contract
//! Loading returns a complete [`Program`], or one [`TraceError`] with its span. In a program, names
//! are resolved in the order of the statements, layouts lie within their storages, and sidecar
//! files exist and match. Loading executes nothing and generates no elements: elements are
//! generated on demand, into memory of the caller.
//!
//! No input makes the loader panic, overflow its stack, or take more memory than [`LoadOptions`]
//! allows. The loader of native traces does not look up ops: the builder of the instructions checks
//! operands, and gets the span of every statement for its errors.
//!
//! The types of the file are private, and separate from those of the [`Program`]. The JSON Schema
//! is generated from the types of the file.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | [`load`](mod@load) | entry points and bounds |
//! | [`program`] | the loaded trace |
//! | [`data`], [`literal`], [`random`], [`sidecar`] | the sources of elements |
//! | [`hint`] | elements of inputs and facts about outputs that stand in for files |
//! | [`assignment`] | which op goes to which stream |
//! | [`placement`] | which op runs on which ranks; what one rank runs of a program |
//! | [`compare`](mod@compare) | comparison of results with expected elements |
//! | [`list_file`] | lists of instructions in files of their own |
//! | [`expand`](mod@expand) | the search for traces in directories |
//! | [`input_files`](mod@input_files) | the files that a command reads for a trace |
//! | [`schema`](mod@schema) | the JSON Schema |
//! | [`source`], [`error`] | texts and spans, errors with a span |
//! | [`write`](mod@write) | programs written as native traces |
//! | [`et`] | the import of PyTorch execution traces |
//! | `raw_form` | the objects of the file: their fields, readers and JSON Schemas |
//! | `field`, `schema_types` | how fields are read, and the schemas of their types |
//! | `json`, `scan`, `syntax` | JSON values with spans, errors of syntax |
//! | `streams`, `tensors`, `attrs`, `outputs` | the reader of each part |
//! | `statements`, `executables`, `launches` | the readers of programs |
//! | `parts` | spans within statements |
//! | `symbol_table` | names of tensors while a program is read |
//! | `read`, `number`, `element_iter` | texts of files, elements of dtypes, elements of layouts |
//!
//! # Invariants
//! - A slice of the source's text is the only access to a value of the file, so every value has a
//!   span.
//! - Items are counted against [`LoadOptions::max_items`] before they are kept.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod assignment;
mod attrs;
pub mod compare;
pub mod data;
mod element_iter;
pub mod error;
pub mod et;
mod executables;
pub mod expand;
mod field;
pub mod hint;
pub mod input_files;
mod json;
mod launches;
pub mod list_file;
pub mod literal;
pub mod load;
mod meshes;
mod number;
mod outputs;
mod parts;
pub mod placement;
pub mod program;
pub mod random;
mod raw_form;
mod read;
mod scan;
pub mod schema;
mod schema_types;
pub mod sidecar;
pub mod source;
mod statements;
mod streams;
mod symbol_table;
mod syntax;
mod tensors;
pub mod write;

pub use assignment::{Assignment, assign};
pub use compare::{Comparison, Mismatch, Tolerance, compare};
pub use data::Data;
pub use error::{ErrorKind, Excerpt, MAX_ERRORS, Result, Site, TraceError};
pub use et::EtOptions;
pub use et::report::{Eager, Imported, Label, Skipped};
pub use expand::{Entry, expand, single_trace};
pub use hint::{Hint, Probe};
pub use input_files::input_files;
pub use list_file::{Inputs, ListRank, load_list, output_line, output_of};
pub use load::{LoadOptions, VERSION, load, load_bytes, load_partial};
pub use number::Number;
pub use parts::Part;
pub use placement::project;
pub use program::{
    Action, Block, Body, Call, EventRef, Executable, ExecutableRef, Held, Input, Launch, Line,
    Output, Placement, Program, REDISTRIBUTE, Results, Returned, Statement, Stream, StreamRef,
    Target, Tensor, Value, ValueRef,
};
pub use schema::schema;
pub use source::{Source, Span};
pub use write::{write, write_with_sidecar};
