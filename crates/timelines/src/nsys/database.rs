//! Tables of a database, with the columns that they have.

use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};

use crate::{Result, TimelineError};

/// A column of a query: its name, and whether a table without it is an error.
pub(super) type Column = (&'static str, bool);

pub(super) const MUST: bool = true;
pub(super) const MAY: bool = false;

fn broken(path: &Path, table: &str, error: &rusqlite::Error) -> TimelineError {
    let message = format!("it cannot be read as an SQLite database: {error}");
    let at = if table.is_empty() { String::new() } else { format!("the table {table}") };
    TimelineError::of_file(path, message).at(at).help("export the report again")
}

/// The values of a row: whole numbers and texts.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    None,
    Whole(i64),
    Text(String),
}

impl Value {
    pub(super) fn whole(&self) -> Option<i64> {
        match self {
            Value::Whole(whole) => Some(*whole),
            Value::None | Value::Text(_) => None,
        }
    }

    /// Returns a number; -1, and what stands for it without a sign, mean that it is not known.
    pub(super) fn known(&self) -> Option<i64> {
        self.whole().filter(|n| *n >= 0 && *n != i64::from(u32::MAX))
    }
}

/// An open database.
pub(super) struct Database<'a> {
    path: &'a Path,
    connection: Connection,
}

impl Database<'_> {
    /// Opens a file to read.
    pub(super) fn open(path: &Path) -> Result<Database<'_>> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags);
        let connection = connection.map_err(|e| broken(path, "", &e))?;
        // The file may be anybody's: its views and triggers call no functions.
        connection
            .pragma_update(None, "trusted_schema", false)
            .map_err(|e| broken(path, "", &e))?;
        Ok(Database { path, connection })
    }

    /// Returns the rows of a table; none if there is no such table.
    pub(super) fn rows(&self, table: &str, columns: &[Column]) -> Result<Vec<Vec<Value>>> {
        let fails = |e: &rusqlite::Error| broken(self.path, table, e);
        let mut names = self
            .connection
            .prepare("SELECT name FROM pragma_table_info(?1)")
            .map_err(|e| fails(&e))?;
        let names = names.query_map([table], |row| row.get::<_, String>(0));
        let names = names.and_then(Iterator::collect::<rusqlite::Result<Vec<String>>>);
        let names = names.map_err(|e| fails(&e))?;
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let mut selected = Vec::new();
        for &(column, must) in columns {
            match names.iter().any(|name| name == column) {
                true => selected.push(format!("\"{column}\"")),
                false if must => {
                    let message = format!("it lacks the column {column}");
                    let at = format!("the table {table}");
                    let help = "expected an export of Nsight Systems 2021.1 or later";
                    return Err(TimelineError::of_file(self.path, message).at(at).help(help));
                }
                false => selected.push("NULL".to_owned()),
            }
        }
        let query = format!("SELECT {} FROM \"{table}\"", selected.join(", "));
        let mut query = self.connection.prepare(&query).map_err(|e| fails(&e))?;
        let value = |row: &Row<'_>, k: usize| {
            Ok(match row.get_ref(k)? {
                ValueRef::Integer(whole) => Value::Whole(whole),
                ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
                ValueRef::Null | ValueRef::Real(_) | ValueRef::Blob(_) => Value::None,
            })
        };
        let count = columns.len();
        let rows = query.query_map([], |row| (0..count).map(|k| value(row, k)).collect());
        let rows = rows.and_then(Iterator::collect::<rusqlite::Result<Vec<Vec<Value>>>>);
        rows.map_err(|e| fails(&e))
    }
}
