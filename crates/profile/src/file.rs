//! Files that hold a profile.

use std::path::Path;

use crate::model::Profile;
use crate::{page, perfetto};

/// Reads the profile in a file: a Perfetto trace or a page that Millstream has written.
///
/// # Errors
/// The file cannot be read, or holds no profile; the message names it.
pub fn read(path: &Path) -> Result<Profile, String> {
    let at = path.display();
    let bytes = std::fs::read(path).map_err(|e| format!("cannot read {at}: {e}"))?;
    let profile = match page::is_page(&bytes) {
        true => page::read(&bytes),
        false => perfetto::read(&bytes),
    };
    profile.map_err(|e| format!("{at}: {e}"))
}
