//! `export`: a session for other people and programs.
//!
//! # Invariants
//! - The session is only read, and no file in the folder of sessions is replaced.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::cli::Outcome;
use crate::cli::args::SessionArg;
use crate::cli::error::{CliError, ErrorKind};
use crate::cli::folder::absolute;
use crate::cli::invocation::Invocation;
use crate::cli::output_file::write_file;
use crate::cli::refer::{find_entry, open_session};
use crate::cli::text::{lines, one_line};
use crate::cli::view::{count, path_text};
use crate::export::{
    DamageNote, ExportError, ExportInput, ExportOptions, ExportSource, Exported, FORMATS, Format, RedactOptions, Scope,
    SourceError, export, find_format,
};
use crate::session::stats::StatsFold;
use crate::session::tree::EntryIndex;
use crate::storage::handle::Session;
use crate::storage::repo::Repo;
use crate::storage::{Damage, SessionRead};

const EXAMPLES: &str = "\
Examples:
  pi-sessions export -o session.html
  pi-sessions export 019ad3c5 --format markdown --redact";

/// Writes a session as an HTML page, Markdown or JSON
///
/// A page is one file that needs nothing else. By default all branches go out; as Markdown the active path alone.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ExportArgs {
    #[command(flatten)]
    session: SessionArg,
    /// html, markdown, json or jsonl (default: what FILE ends with, else html)
    #[arg(long, value_name = "FORMAT", value_parser = clap::builder::PossibleValuesParser::new(FORMATS.map(|format| format.name())), hide_possible_values = true)]
    format: Option<String>,
    /// The active path alone
    #[arg(long, conflicts_with = "all")]
    path: bool,
    /// Every branch
    #[arg(long)]
    all: bool,
    /// The entry that the path ends with (default: the leaf)
    #[arg(long, value_name = "ENTRY")]
    at: Option<String>,
    /// Take keys, tokens, passwords in URLs and the home folder's name out, and say how many
    #[arg(long)]
    redact: bool,
    /// The file to write (default: standard output)
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct View {
    path: String,
    format: &'static str,
    entries: usize,
    redactions: Option<BTreeMap<&'static str, u64>>,
}

/// A session as the source of an export.
struct Lines<'a>(&'a dyn SessionRead);

impl ExportSource for Lines<'_> {
    fn line(&self, index: EntryIndex) -> Result<Vec<u8>, SourceError> {
        Ok(self.0.line(index)?)
    }
}

pub(super) fn run(args: &ExportArgs, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    let output = args.output.as_deref().filter(|path| *path != Path::new("-"));
    let format = args.choose_format(output, invocation.ui.is_json())?;
    if output.is_none() {
        let hint = format!("pi-sessions export -o session.{}", format.extension());
        if format.name() == "html" && invocation.ui.columns().is_some() {
            return Err(CliError::usage("a page is for a browser, not for a terminal").hint(hint));
        }
        if invocation.ui.is_json() && !format.extension().starts_with("json") {
            return Err(CliError::usage(format!("with --json, {} has to go to a file", format.name())).hint(hint));
        }
    }
    let session = open_session(invocation, args.session.session.as_deref())?;
    let leaf = find_entry(&session, args.at.as_deref())?;
    let home = invocation.surroundings.home.as_ref().map(|home| home.to_string_lossy().into_owned());
    let scope = match (args.path, args.all) {
        (true, _) => Some(Scope::Path),
        (_, true) => Some(Scope::All),
        (false, false) => None,
    };
    let options = ExportOptions { scope, redact: args.redact.then_some(RedactOptions { home }) };
    let fill = |out: &mut dyn Write| write(&session, leaf, format, &options, out);
    let exported = match output {
        Some(path) => {
            let path = absolute(&invocation.surroundings.cwd, path);
            let exported = export_to(&invocation.repo()?, &path, fill)?;
            tell(invocation, &path, format, &exported, args.redact)?;
            exported
        }
        None => {
            let mut text = Vec::new();
            let exported =
                fill(&mut text).map_err(|error| CliError::new(ErrorKind::Io, "cannot export the session").because(error))?;
            match invocation.ui.columns() {
                Some(_) => invocation.ui.data(&lines(&String::from_utf8_lossy(&text)))?,
                None => invocation.ui.bytes(&text)?,
            }
            exported
        }
    };
    if args.redact {
        invocation.ui.done(&format!("redacted: {}", exported.redactions));
    }
    Ok(Outcome::Done)
}

impl ExportArgs {
    /// The format that was asked for; else that of the file's name; else JSON where everything is, else HTML.
    fn choose_format(&self, output: Option<&Path>, is_json: bool) -> Result<&'static dyn Format, CliError> {
        if let Some(name) = &self.format {
            return find_format(name).ok_or_else(|| CliError::usage(format!("there is no format {name}")));
        }
        let Some(path) = output else { return Ok(if is_json { find_format("json").unwrap_or(FORMATS[0]) } else { FORMATS[0] }) };
        Ok(format_of(path))
    }
}

/// The format that the name of a file ends with, else HTML.
pub(in crate::cli) fn format_of(path: &Path) -> &'static dyn Format {
    let end = path.extension().map(|end| end.to_string_lossy().to_ascii_lowercase());
    FORMATS.iter().find(|format| Some(format.extension()) == end.as_deref()).copied().unwrap_or(FORMATS[0])
}

/// Writes an export to a file, whole or not at all; not among the sessions.
pub(in crate::cli) fn export_to(
    repo: &Repo,
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> Result<Exported, ExportError>,
) -> Result<Exported, CliError> {
    refuse_session_folder(repo, path)?;
    let mut exported = Exported::default();
    write_file(&**repo.fs(), path, |out| {
        exported = fill(out)?;
        Ok::<_, ExportError>(())
    })
    .map_err(|error| file_error(error, path))?;
    Ok(exported)
}

/// Writes a session in a format.
pub(in crate::cli) fn write(
    session: &Session,
    leaf: Option<EntryIndex>,
    format: &dyn Format,
    options: &ExportOptions,
    out: &mut dyn Write,
) -> Result<Exported, ExportError> {
    let read = session.read();
    let mut stats = StatsFold::default();
    for index in read.tree().iter_all() {
        let entry = read.entry(index).map_err(|error| ExportError::Source(error.into()))?;
        entry.iter().for_each(|entry| stats.add(entry));
    }
    let note = |damage: &Damage| DamageNote {
        line: damage.line,
        byte_offset: damage.byte_offset,
        text: damage.kind.describe().to_owned(),
    };
    let damage: Vec<_> = read.damage().iter().map(note).collect();
    let input = ExportInput {
        header: read.header(),
        header_line: read.header_line(),
        tree: read.tree(),
        leaf,
        source: &Lines(read),
        stats: stats.stats(),
        damage: &damage,
    };
    export(input, format, options, out)
}

/// An export could take the place of a session.
fn refuse_session_folder(repo: &Repo, path: &Path) -> Result<(), CliError> {
    let fs = repo.fs();
    let real = |path: &Path| fs.canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().map(real).unwrap_or_default();
    if real(path).starts_with(real(repo.root())) || folder.starts_with(real(repo.root())) {
        return Err(CliError::usage(format!("the folder of sessions is no place for exports: {}", path_text(path))));
    }
    Ok(())
}

fn file_error(error: ExportError, path: &Path) -> CliError {
    let message = format!("cannot write {}", path_text(path));
    match error {
        ExportError::Write(source) => CliError::new(ErrorKind::Io, message).because(source),
        other => CliError::new(ErrorKind::Io, message).because(other),
    }
}

fn tell(
    invocation: &mut Invocation<'_>,
    path: &Path,
    format: &'static dyn Format,
    exported: &Exported,
    redacts: bool,
) -> Result<(), CliError> {
    let entries = exported.entries;
    let path = path_text(path);
    if invocation.ui.is_json() {
        let redactions = redacts.then(|| exported.redactions.iter().collect());
        return invocation.ui.json(&View { path, format: format.name(), entries, redactions });
    }
    invocation.ui.done(&format!("exported {} as {}", count(entries as u64, "entry", "entries"), format.name()));
    invocation.ui.line(&one_line(&path))
}
