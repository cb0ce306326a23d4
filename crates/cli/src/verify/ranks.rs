//! The lists of the ranks of a folder: whether they are of one program, and whether they meet.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use millstream_instructions::InstructionList;
use millstream_instructions::passes::Outputs;
use millstream_profile::summary::plural;
use millstream_runner::{Loading, RunError, RunOptions, lists, load, program_hash};
use millstream_trace::{ListRank, TraceError};
use millstream_verify::{CommunicatorRules, same_operations, verify_ranks};

use super::Found;
use super::subject::File;

/// The result for the ranks of a folder.
pub(super) struct Verdict {
    pub(super) folder: String,
    /// Why the ranks do not meet. Empty if they do.
    pub(super) errors: Vec<TraceError>,
    /// The sends that no rank receives.
    pub(super) pending: Vec<TraceError>,
    /// The number of collectives and messages compared.
    pub(super) compared: usize,
    /// In what way the lists were found to be of one program.
    of_program: Option<String>,
}

impl Verdict {
    pub(super) fn proven(&self) -> bool {
        self.errors.is_empty() && self.pending.is_empty()
    }

    /// Returns the result in one line.
    pub(super) fn line(&self) -> String {
        let Verdict { folder, errors, pending, compared, of_program } = self;
        match errors.len() {
            0 if !pending.is_empty() => {
                let sends = plural(pending.len() as u64, "send");
                let are = if pending.len() == 1 { "is" } else { "are" };
                format!("{folder}: not proven: {sends} {are} pending at the end")
            }
            0 => format!(
                "{folder}: proven: the ranks meet, in {}{}",
                plural(*compared as u64, "collective"),
                of_program.as_deref().unwrap_or_default()
            ),
            n => {
                let found = plural(n as u64, "violation");
                format!("{folder}: not proven: the ranks do not meet, {found}")
            }
        }
    }
}

/// The first list of a rank's file.
struct Listed {
    name: String,
    list: InstructionList,
    /// The line of each instruction in the file.
    lines: Vec<usize>,
    /// The rank that the file says; none for a trace.
    rank: Option<ListRank>,
    /// Whether the list is proven for itself. Others cannot be compared with the program.
    is_proven: bool,
}

/// The lists of the ranks of a folder.
#[derive(Default)]
pub(super) struct Ranks {
    folder: Option<PathBuf>,
    lists: Vec<Listed>,
}

/// The program that the lists of ranks are to be parts of, and how its own lists are made.
pub(super) struct Whole<'a> {
    pub(super) program: Option<&'a Path>,
    pub(super) rules: CommunicatorRules,
    pub(super) options: &'a RunOptions,
    pub(super) loading: &'a Loading,
}

impl Ranks {
    /// Adds the list of a file, if it is one of several ranks.
    pub(super) fn add(&mut self, file: &File, found: &Found) {
        if self.folder != file.ranks {
            *self = Ranks { folder: file.ranks.clone(), lists: Vec::new() };
        }
        let subject = &found.subject;
        self.lists.extend(file.ranks.is_some().then(|| Listed {
            name: subject.name.clone(),
            list: subject.list.clone(),
            lines: (0..subject.list.instructions.len()).map(|k| subject.line(k)).collect(),
            rank: subject.rank.clone(),
            is_proven: found.verdict.proven(),
        }));
    }

    /// Returns whether the ranks of the folder meet.
    ///
    /// # Errors
    /// The program that the lists are compared with cannot be read.
    pub(super) fn verdict(&self, whole: &Whole<'_>) -> Result<Option<Verdict>, RunError> {
        let Some(folder) = &self.folder else { return Ok(None) };
        let folder = folder.display().to_string();
        let mut errors = self.of_one_program(&folder);
        let (mut pending, mut of_program, mut compared) = (Vec::new(), None, 0);
        if errors.is_empty() {
            let named = self.lists.first().and_then(|l| l.rank.as_ref()?.program.as_ref());
            let is_proven = self.lists.iter().all(|listed| listed.is_proven);
            of_program = named.map(|_| match whole.program {
                Some(path) if is_proven => {
                    format!("; their lists are their parts of {}", path.display())
                }
                Some(path) => {
                    format!("; lists that are not proven are not compared with {}", path.display())
                }
                None => "; their lists name one program".to_owned(),
            });
            if let Some(path) = whole.program {
                errors.extend(self.parts_of(path, whole)?);
            }
            let lists: Vec<&InstructionList> = self.lists.iter().map(|l| &l.list).collect();
            let verdict = verify_ranks(&lists, whole.rules);
            compared = verdict.compared;
            let sends = verdict.pending.iter().map(|site| {
                let message = format!("{site} is never received: it is pending at the end");
                TraceError::of_file(&*folder, message)
            });
            pending.extend(sends);
            let violations = verdict.violations.iter().map(ToString::to_string);
            errors.extend(violations.map(|violation| TraceError::of_file(&*folder, violation)));
        }
        Ok(Some(Verdict { folder, errors, pending, compared, of_program }))
    }

    /// Checks that the files hold the list of each rank once, and that they name one program.
    fn of_one_program(&self, folder: &str) -> Vec<TraceError> {
        let mut errors = Vec::new();
        let Some((first, rank)) = self.lists.iter().find_map(|l| Some((l, l.rank.as_ref()?)))
        else {
            return errors;
        };
        let most = self.lists.iter().filter_map(|l| l.rank.as_ref()).map(|rank| rank.ranks).max();
        for (listed, k) in self.lists.iter().zip(0..) {
            let of = |message: String| TraceError::of_file(format!("{}:1:1", listed.name), message);
            match &listed.rank {
                None => errors.push(of(format!("expected the list of rank {k}, found a trace"))),
                Some(own) if (own.rank, own.ranks) != (k, rank.ranks) => errors.push(of(format!(
                    "expected the list of rank {k} of {}, found that of rank {} of {}",
                    rank.ranks, own.rank, own.ranks
                ))),
                Some(own) if own.program != rank.program => errors.push(of(format!(
                    "it is the list of {}, and {} that of {}",
                    program_of(own),
                    first.name,
                    program_of(rank)
                ))),
                Some(_) => {}
            }
        }
        let (missing, most) = (self.lists.len() as u64, u64::from(most.unwrap_or_default()));
        if missing < most {
            let message = match most - missing {
                1 => format!("the list of rank {missing} is missing"),
                _ => format!("the lists of ranks {missing} to {} are missing", most - 1),
            };
            let error = TraceError::of_file(folder, message);
            errors.push(error.help(format!("expected rank{missing}.txt, as run --emit writes it")));
        }
        errors
    }

    /// Compares each list with the one that the program gives its rank.
    fn parts_of(&self, path: &Path, whole: &Whole<'_>) -> Result<Vec<TraceError>, RunError> {
        let mut errors = Vec::new();
        for (k, listed) in self.lists.iter().enumerate() {
            let loading = whole.loading.of_rank(k, self.lists.len());
            let program = Arc::new(load(path, &loading, whole.options)?);
            let hash = program_hash(&program);
            let expected = listed.rank.as_ref().and_then(|rank| rank.program.clone());
            if hash.is_none() || hash != expected {
                let own = listed.rank.as_ref().map_or_else(String::new, program_of);
                let is = match &hash {
                    Some(hash) => format!("has the hash {hash}"),
                    None => "names no ranks".to_owned(),
                };
                let message = format!("it is the list of {own}, and {} {is}", path.display());
                errors.push(TraceError::of_file(format!("{}:1:1", listed.name), message));
                continue;
            }
            let options = whole.options.checked_on_rank(k, self.lists.len());
            let given = lists(&program, &options)?.into_iter().next().map(|of| of.list);
            let Some(given) = given.filter(|_| listed.is_proven) else { continue };
            let Err(difference) = same_operations(&given, &listed.list, &Outputs::All) else {
                continue;
            };
            let at = difference.after.as_ref().and_then(|site| listed.lines.get(site.index));
            let name = match at {
                Some(line) => format!("{}:{line}:1", listed.name),
                None => listed.name.clone(),
            };
            let [given, has] = [&difference.before, &difference.after].map(|site| {
                site.as_ref()
                    .map_or_else(|| "nothing".to_owned(), |site| format!("`{}`", site.line))
            });
            let message = format!(
                "it is not what {} gives rank {k}: {}: the program gives {given}, the list \
                 has {has}",
                path.display(),
                difference.what
            );
            errors.push(TraceError::of_file(name, message).help(
                "if its run had other options, name them: --device, --compute-streams, --sync",
            ));
        }
        Ok(errors)
    }
}

/// Names the program of a list.
fn program_of(rank: &ListRank) -> String {
    match &rank.program {
        Some(hash) => format!("program {hash}"),
        None => "a program of its rank alone".to_owned(),
    }
}
