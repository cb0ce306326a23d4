//! A profile as a page: one file that a browser opens, without a network.
//!
//! The page holds the profile in the form of [`crate::columns`], each piece a line of base64, and
//! the scripts that draw it. Each script opens with its purpose.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::columns;
use crate::model::Profile;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");

/// The scripts, in the order in which they use each other.
const SCRIPTS: [&str; 17] = [
    include_str!("data.js"),
    include_str!("canvas.js"),
    include_str!("details.js"),
    include_str!("families.js"),
    include_str!("chooser.js"),
    include_str!("memory.js"),
    include_str!("sums.js"),
    include_str!("tiles.js"),
    include_str!("arrows.js"),
    include_str!("timeline.js"),
    include_str!("overview.js"),
    include_str!("steps.js"),
    include_str!("stack.js"),
    include_str!("holders.js"),
    include_str!("tables.js"),
    include_str!("pointer.js"),
    include_str!("main.js"),
];

/// What stands before and after the data of a page.
const DATA: [&str; 2] = ["<script id=\"data\" type=\"text/plain\">", "</script>"];

/// Returns the page of a profile.
pub fn write(profile: &Profile) -> String {
    let pieces = columns::write_for_page(profile);
    let data: Vec<String> = pieces.iter().map(|piece| STANDARD.encode(piece)).collect();
    let data = data.join("\n");
    let scripts = SCRIPTS.join("\n");
    let escaped = profile.title.replace('&', "&amp;").replace('<', "&lt;");
    let page = PAGE.replace("{{title}}", &escaped).replace("{{style}}", STYLE);
    page.replace("{{data}}", &format!("{}{data}{}", DATA[0], DATA[1]))
        .replace("{{scripts}}", &scripts)
}

/// Returns whether these bytes are a page.
pub fn is_page(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().get(..9).is_some_and(|b| b.eq_ignore_ascii_case(b"<!doctype"))
}

/// Reads the profile in a page.
///
/// # Errors
/// The bytes are no page with a profile.
pub fn read(bytes: &[u8]) -> Result<Profile, String> {
    let text = str::from_utf8(bytes).map_err(|_| "the page is not UTF-8".to_owned())?;
    let (_, rest) = text.split_once(DATA[0]).ok_or("the page holds no profile")?;
    let (data, _) = rest.split_once(DATA[1]).ok_or("the page ends within its profile")?;
    let pieces: Result<Vec<_>, _> = data.lines().map(|line| STANDARD.decode(line)).collect();
    columns::read_pieces(pieces.map_err(|e| format!("the page's profile: {e}"))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::Family;

    #[test]
    fn every_family_has_a_colour_in_both_themes() {
        let (light, dark) = STYLE.split_once("[data-theme=\"dark\"]").unwrap();
        // One more for the threads of the program.
        for family in 0..=Family::ALL.len() {
            for theme in [light, dark] {
                let color = format!("--family-{family}: #");
                assert_eq!(theme.matches(&color).count(), 1, "{color}");
            }
        }
    }

    #[test]
    fn every_script_of_the_folder_is_in_the_page_and_needs_no_other_page() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/page");
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let scripts = names.filter(|path| path.extension().is_some_and(|ending| ending == "js"));
        let page = write(&Profile::default());
        let mut count = 0;
        for script in scripts {
            let text = std::fs::read_to_string(&script).unwrap();
            assert!(page.contains(&text), "{}", script.display());
            assert!(!text.contains("</script"), "{} ends its element", script.display());
            count += 1;
        }
        assert_eq!(count, SCRIPTS.len());
        assert!(!page.contains("{{"), "the page has a place that nothing fills");
    }
}
