//! `import`: sessions of other programs.
//!
//! # Invariants
//! - A dry run prints what the real one does, but for ids and paths, and writes nothing.
//! - One file that cannot be imported costs itself; the exit code then is 1, after the others.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use crate::cli::Outcome;
use crate::cli::args::CwdArg;
use crate::cli::error::{CliError, ErrorKind};
use crate::cli::folder::absolute;
use crate::cli::importing::{Importer, Sources, Written, source_paths};
use crate::cli::invocation::Invocation;
use crate::cli::text::one_line;
use crate::cli::ui::Look;
use crate::cli::view::path_text;
use crate::import::{EntryCounts, ImportDamage, ImportFormat, ImportedSession, find_format};
use crate::storage::fs::FileKind;

const EXAMPLES: &str = "\
Examples:
  pi-sessions import ~/.claude/projects --dry-run
  pi-sessions import rollout-2026-01-02T03-04-05-019ad3c5.jsonl --from codex";

/// Imports sessions of Claude Code, Codex, opencode, or of Pi from elsewhere
///
/// A folder is searched with all below it. What has no place in a session is kept in custom entries, and counted. The
/// sources are left as they are, and a session that was imported before is not imported again.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ImportArgs {
    /// A session file, or a folder of them
    #[arg(value_name = "FILE|DIR", value_hint = clap::ValueHint::AnyPath)]
    source: PathBuf,
    /// The program that wrote it (default: as the files look)
    #[arg(long, value_name = "FORMAT", value_parser = ["claude", "codex", "opencode", "pi"])]
    from: Option<String>,
    /// Show what would be imported, and write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    cwd: CwdArg,
}

/// What `--json` prints of a session.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct View<'a> {
    file: &'a str,
    format: &'a str,
    source_id: Option<&'a str>,
    /// `imported`, `planned` (a dry run), `exists` or `failed`.
    status: &'static str,
    id: Option<String>,
    path: Option<String>,
    parent_session: Option<String>,
    cwd: String,
    name: Option<&'a str>,
    counts: CountsView,
    leftovers: &'a BTreeMap<String, u64>,
    copies: &'a BTreeMap<String, u64>,
    damage: Vec<DamageView<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CountsView {
    entries: u64,
    user: u64,
    assistant: u64,
    tool_results: u64,
    tool_calls: u64,
    thinking: u64,
    images: u64,
    other_messages: u64,
    compactions: u64,
    model_changes: u64,
    custom: u64,
    other: u64,
}

#[derive(Serialize)]
struct DamageView<'a> {
    path: &'a str,
    line: u64,
    message: &'a str,
}

impl CountsView {
    fn of(counts: &EntryCounts) -> Self {
        Self {
            entries: counts.entries,
            user: counts.user,
            assistant: counts.assistant,
            tool_results: counts.tool_results,
            tool_calls: counts.tool_calls,
            thinking: counts.thinking,
            images: counts.images,
            other_messages: counts.other_messages,
            compactions: counts.compactions,
            model_changes: counts.model_changes,
            custom: counts.custom,
            other: counts.other,
        }
    }

    fn text(&self) -> String {
        let counted = [
            (self.user, "user", "user"),
            (self.assistant, "assistant", "assistant"),
            (self.tool_results, "tool result", "tool results"),
            (self.images, "image", "images"),
            (self.other_messages, "other message", "other messages"),
            (self.compactions, "compaction", "compactions"),
        ];
        let counted = counted.into_iter().filter(|(count, ..)| *count > 0);
        let parts: Vec<_> =
            counted.map(|(count, one, more)| format!("{count} {}", if count == 1 { one } else { more })).collect();
        parts.join(", ")
    }
}

/// What became of the sessions, in numbers.
#[derive(Default)]
struct Tally {
    found: u64,
    existing: u64,
    failed: u64,
}

pub(super) fn run(args: &ImportArgs, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    let source = absolute(&invocation.surroundings.cwd, &args.source);
    let format: Option<&'static dyn ImportFormat> = args.from.as_deref().and_then(find_format);
    let repo = invocation.repo()?;
    let fs = invocation.surroundings.fs.clone();
    let paths = source_paths(&*fs, &source)?;
    let is_file = fs.metadata(&source).is_ok_and(|meta| meta.kind != FileKind::Folder);
    let mut sources = Sources::new(&*fs, &paths, format, is_file && format.is_some());
    let cwd = args.cwd.absolute(&invocation.surroundings.cwd);
    let mut importer = Importer::new(&repo, invocation.here(), cwd)?;
    let mut tally = Tally::default();
    while let Some(sessions) = sources.next()? {
        for imported in &sessions {
            import_one(imported, args.dry_run, &mut importer, invocation, &mut tally)?;
        }
    }
    if tally.found == 0 {
        let error = CliError::new(ErrorKind::NotASession, format!("no session of a known format: {}", source.display()));
        return Err(error.hint("pi-sessions import FILE --from claude|codex|opencode|pi takes a file for one of these"));
    }
    if sources.skipped > 0 {
        invocation.ui.note(&format!("files that are no session of a format asked for: {}", sources.skipped));
    }
    if tally.existing > 0 {
        invocation.ui.note(&format!("sessions that are here already: {}", tally.existing));
    }
    match tally.failed {
        0 => Ok(Outcome::Done),
        failed => Err(CliError::new(ErrorKind::Io, format!("sessions that could not be imported: {failed}"))),
    }
}

fn import_one(
    imported: &ImportedSession,
    is_dry: bool,
    importer: &mut Importer<'_>,
    invocation: &mut Invocation<'_>,
    tally: &mut Tally,
) -> Result<(), CliError> {
    for damage in &imported.damage {
        invocation.ui.warn(&damage_text(damage));
    }
    if imported.entries.is_empty() {
        // A file that begins like a session and holds nothing of one.
        if !imported.damage.is_empty() {
            tally.found += 1;
            tally.failed += 1;
        }
        return Ok(());
    }
    tally.found += 1;
    let existing = importer.existing(imported);
    let (status, written) = match (&existing, is_dry) {
        (Some(path), _) => {
            tally.existing += 1;
            (
                "exists",
                Some(Written {
                    id: imported.id.as_ref().map(ToString::to_string).unwrap_or_default(),
                    path: path.clone(),
                    parent_session: None,
                }),
            )
        }
        (None, true) => ("planned", None),
        (None, false) => match importer.write(imported) {
            Ok(written) => ("imported", Some(written)),
            Err(error) => {
                tally.failed += 1;
                invocation.ui.warn(&format!("{}: {error}", imported.file));
                ("failed", None)
            }
        },
    };
    print(imported, status, written.as_ref(), importer.cwd_of(imported), invocation)
}

fn damage_text(damage: &ImportDamage) -> String {
    match damage.line {
        0 => format!("{}: {}", damage.file, damage.message),
        line => format!("{}:{line}: {}", damage.file, damage.message),
    }
}

fn print(
    imported: &ImportedSession,
    status: &'static str,
    written: Option<&Written>,
    cwd: String,
    invocation: &mut Invocation<'_>,
) -> Result<(), CliError> {
    let counts = CountsView::of(&imported.counts);
    let path = written.map(|written| path_text(&written.path));
    if invocation.ui.is_json() {
        let damage = imported.damage.iter();
        return invocation.ui.json(&View {
            file: &imported.file,
            format: imported.format,
            source_id: imported.source_id.as_deref(),
            status,
            id: written.map(|written| written.id.clone()),
            path,
            parent_session: written.and_then(|written| written.parent_session.clone()),
            cwd,
            name: imported.name.as_deref(),
            counts,
            leftovers: &imported.leftovers,
            copies: &imported.copies,
            damage: damage.map(|damage| DamageView { path: &damage.file, line: damage.line, message: &damage.message }).collect(),
        });
    }
    let head = format!("{status} from {}", imported.format);
    let head = invocation.ui.paint(if status == "failed" { Look::Bad } else { Look::Strong }, &head);
    let target = path.unwrap_or_else(|| imported.file.clone());
    invocation.ui.line(&format!("{head}: {}", one_line(&target)))?;
    let name = imported.name.as_deref().map(|name| format!("{}: ", one_line(name))).unwrap_or_default();
    invocation.ui.line(&format!("  {name}{}", counts.text()))?;
    for (what, kinds) in [("kept in custom entries", &imported.leftovers), ("said twice", &imported.copies)] {
        if !kinds.is_empty() {
            let kinds: Vec<_> = kinds.iter().map(|(kind, count)| format!("{count} {}", one_line(kind))).collect();
            let line = format!("  {what}: {}", kinds.join(", "));
            invocation.ui.line(&invocation.ui.paint(Look::Dim, &line))?;
        }
    }
    Ok(())
}
