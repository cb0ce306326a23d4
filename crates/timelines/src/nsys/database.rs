//! Tables of a database, with the columns that they have.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

use crate::{Result, TimelineError};

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
    /// The tables that are read.
    read: RefCell<HashSet<String>>,
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
        Ok(Database { path, connection, read: RefCell::default() })
    }

    /// Returns the first column of what a query returns.
    fn texts(&self, table: &str, query: &str) -> Result<Vec<String>> {
        let fails = |e: rusqlite::Error| broken(self.path, table, &e);
        let mut query = self.connection.prepare(query).map_err(fails)?;
        let rows = query.query_map([], |row| row.get::<_, String>(0)).map_err(fails)?;
        rows.collect::<rusqlite::Result<_>>().map_err(fails)
    }

    fn tables(&self) -> Result<Vec<String>> {
        self.texts("", "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    }

    fn columns(&self, table: &str) -> Result<Vec<String>> {
        self.texts(table, &format!("SELECT name FROM pragma_table_info({})", quoted(table, '\'')))
    }

    /// Returns the tables of events that nothing has read, with their numbers of rows.
    pub(super) fn unread(&self) -> Result<Vec<(String, u64)>> {
        let mut unread = Vec::new();
        for table in self.tables()? {
            if self.read.borrow().contains(&table)
                || !self.columns(&table)?.iter().any(|column| column == "start")
            {
                continue;
            }
            let query = format!("SELECT CAST(count(*) AS TEXT) FROM {}", quoted(&table, '"'));
            let count = self.texts(&table, &query)?.first().and_then(|n| n.parse().ok());
            if let Some(count) = count.filter(|count| *count > 0) {
                unread.push((table, count));
            }
        }
        unread.sort_by_key(|(_, count)| Reverse(*count));
        Ok(unread)
    }

    /// Returns these columns of a table in all its versions; none if there is no such table. A
    /// column may be absent if `?` follows its name.
    pub(super) fn rows<const N: usize>(
        &self,
        table: &str,
        columns: &str,
    ) -> Result<Vec<[Value; N]>> {
        let mut rows = Vec::new();
        for name in self.tables()?.into_iter().filter(|name| is_version(name, table)) {
            rows.extend(self.rows_of(&name, columns)?);
            self.read.borrow_mut().insert(name);
        }
        Ok(rows)
    }

    fn rows_of<const N: usize>(&self, table: &str, columns: &str) -> Result<Vec<[Value; N]>> {
        let fails = |e: rusqlite::Error| broken(self.path, table, &e);
        let names = self.columns(table)?;
        let mut selected = Vec::new();
        for column in columns.split(' ') {
            let name = column.trim_end_matches('?');
            match names.iter().any(|known| known == name) {
                true => selected.push(quoted(name, '"')),
                false if name == column => {
                    let message = format!("it lacks the column {column}");
                    let at = format!("the table {table}");
                    let help = "expected an export of Nsight Systems 2021.1 or later";
                    return Err(TimelineError::of_file(self.path, message).at(at).help(help));
                }
                false => selected.push("NULL".to_owned()),
            }
        }
        let query = format!("SELECT {} FROM {}", selected.join(", "), quoted(table, '"'));
        let mut query = self.connection.prepare(&query).map_err(fails)?;
        let rows = query.query_map([], |row| {
            let mut all = [const { Value::None }; N];
            for (k, one) in all.iter_mut().enumerate() {
                *one = match row.get_ref(k)? {
                    ValueRef::Integer(whole) => Value::Whole(whole),
                    ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
                    ValueRef::Null | ValueRef::Real(_) | ValueRef::Blob(_) => Value::None,
                };
            }
            Ok(all)
        });
        rows.and_then(Iterator::collect).map_err(fails)
    }
}

/// Returns whether a table is one of this name: `CUPTI_ACTIVITY_KIND_KERNEL`, or `…_KERNEL_V3`.
fn is_version(name: &str, table: &str) -> bool {
    let is_number = |n: &str| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit());
    name.strip_prefix(table)
        .is_some_and(|rest| rest.is_empty() || rest.strip_prefix("_V").is_some_and(is_number))
}

/// Returns a name in quotes, as SQL has it.
fn quoted(name: &str, quote: char) -> String {
    format!("{quote}{}{quote}", name.replace(quote, &format!("{quote}{quote}")))
}
