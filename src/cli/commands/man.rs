//! `man`: the manual pages.
//!
//! # Invariants
//! - The pages are made of the help texts, so that they never say something else.
//! - Works with a broken configuration.

use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::CommandFactory as _;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};

use crate::cli::Outcome;
use crate::cli::args::Cli;
use crate::cli::error::{CliError, ErrorKind};
use crate::cli::folder::absolute;
use crate::cli::invocation::Invocation;
use crate::cli::output_file::write_file;
use crate::cli::view::count;

const EXAMPLES: &str = "\
Examples:
  pi-sessions man fork | man -l -
  pi-sessions man --dir ~/.local/share/man/man1";

/// Prints a manual page, or writes them all
///
/// The page of COMMAND, else that of the whole. It is printed as roff: pi-sessions man | man -l - shows it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ManArgs {
    /// The command
    #[arg(value_name = "COMMAND", conflicts_with = "dir")]
    command: Option<String>,
    /// Write all pages to this folder: pi-sessions.1, pi-sessions-list.1 and so on
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    dir: Option<PathBuf>,
}

/// What an exit code means.
const EXIT_CODES: [(&str, &str); 6] = [
    ("0", "Done. A closed pipe is no error."),
    ("1", "It failed, or a question was answered by no."),
    ("2", "The command line is wrong, or there is no such session or entry."),
    ("3", "check found damage."),
    ("130", "It was interrupted."),
    ("255", "A bug in this program."),
];

/// Files that it reads and writes, on Linux.
const FILES: [(&str, &str); 7] = [
    ("~/.pi/agent/sessions", "The sessions, where there is a Pi; those of one folder are in a folder named after it."),
    ("~/.local/share/pi-sessions/sessions", "The sessions, where there is none. config tells which folder is in force."),
    (
        "~/.config/pi-sessions/config.toml",
        "The configuration. The file .pi-sessions.example/config.toml in the source has every key.",
    ),
    ("provider.json", "In the current folder: a model for this folder alone."),
    ("~/.cache/pi-sessions", "The listing cache and the search index. Both can be deleted at any time."),
    ("SESSION.jsonl.bak", "The bytes of a session before it was upgraded, moved or repaired."),
    ("SESSION.unsaved.jsonl", "Entries that could not be written when a program ended."),
];

/// Variables that it reads.
const ENVIRONMENT: [(&str, &str); 8] = [
    ("PI_SESSIONS_ROOT", "The folder of sessions. --root comes first."),
    ("PI_SESSIONS_CONFIG", "The configuration file."),
    ("PI_SESSIONS_MODEL", "The model, as PROVIDER/MODEL. --model comes first."),
    ("PI_SESSIONS_API_KEY", "The key for the provider of provider.json."),
    ("NAME_API_KEY", "The key for the provider NAME of the configuration, in upper case."),
    ("PI_CODING_AGENT_SESSION_DIR", "Pi's folder of sessions, where nothing above names one."),
    ("PI_CODING_AGENT_DIR", "Pi's own folder, instead of ~/.pi/agent."),
    ("NO_COLOR", "If it is set, nothing is coloured unless --color asks for it."),
];

pub(super) fn run(args: &ManArgs, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    let mut whole = Cli::command();
    whole.build();
    let Some(dir) = &args.dir else {
        let page = match &args.command {
            None => page(&whole, None)?,
            Some(name) => {
                let command = visible(&whole).find(|command| command.get_name_and_visible_aliases().contains(&name.as_str()));
                let command = command.ok_or_else(|| {
                    CliError::new(ErrorKind::NotFound, format!("there is no command {name:?}")).hint("pi-sessions --help")
                })?;
                page(command, Some(&whole))?
            }
        };
        invocation.ui.bytes(&page)?;
        if invocation.ui.columns().is_some() {
            invocation.ui.note("this is for a program that shows manual pages: pi-sessions man | man -l -");
        }
        return Ok(Outcome::Done);
    };
    let dir = absolute(&invocation.surroundings.cwd, dir);
    let fs = invocation.surroundings.fs.clone();
    let failed = |doing: &str, error| CliError::new(ErrorKind::Io, format!("cannot {doing} {}", dir.display())).because(error);
    fs.create_dir_all(&dir).map_err(|error| failed("create the folder", error))?;
    let mut pages = vec![("pi-sessions.1".to_owned(), page(&whole, None)?)];
    for command in visible(&whole) {
        pages.push((format!("pi-sessions-{}.1", command.get_name()), page(command, Some(&whole))?));
    }
    for (name, page) in &pages {
        let fill = |out: &mut dyn io::Write| out.write_all(page);
        write_file::<io::Error>(&*fs, &dir.join(name), fill).map_err(|error| failed("write a page to", error))?;
    }
    invocation.ui.done(&format!("wrote {} to {}", count(pages.len() as u64, "page", "pages"), dir.display()));
    Ok(Outcome::Done)
}

fn visible(whole: &clap::Command) -> impl Iterator<Item = &clap::Command> {
    whole.get_subcommands().filter(|command| !command.is_hide_set())
}

/// The page of the whole, or of one of its commands.
fn page(command: &clap::Command, whole: Option<&clap::Command>) -> Result<Vec<u8>, CliError> {
    let version = env!("CARGO_PKG_VERSION");
    let help = command.get_after_long_help().or_else(|| command.get_after_help()).map(ToString::to_string).unwrap_or_default();
    let man = Man::new(command.clone().subcommand_help_heading("COMMANDS").subcommand_value_name("COMMAND"));
    let title = command.get_display_name().unwrap_or_else(|| command.get_name());
    let mut page = Vec::new();
    let rendered = |page: &mut Vec<u8>| -> io::Result<()> {
        // The crate leaves an empty date out, and what follows moves into its place.
        writeln!(page, ".TH \"{title}\" 1 \"\" \"pi-sessions {version}\" \"pi-sessions\"")?;
        man.render_name_section(page)?;
        man.render_synopsis_section(page)?;
        man.render_description_section(page)?;
        man.render_options_section(page)?;
        if whole.is_none() {
            man.render_subcommands_section(page)?;
        }
        let mut roff = Roff::new();
        match help.strip_prefix("Examples:\n") {
            Some(examples) => literal(&mut roff, examples),
            // The exit codes have a section of their own.
            None => names(&mut roff, help.split("\n\nExit codes").next().unwrap_or_default()),
        }
        table(&mut roff, "EXIT STATUS", &EXIT_CODES);
        table(&mut roff, "FILES", &FILES);
        table(&mut roff, "ENVIRONMENT", &ENVIRONMENT);
        see_also(&mut roff, command, whole);
        roff.to_writer(page)
    };
    rendered(&mut page).map_err(|error| CliError::bug("a manual page cannot be made").because(error))?;
    Ok(page)
}

/// Lines as they stand.
fn literal(roff: &mut Roff, lines: &str) {
    roff.control("SH", ["EXAMPLES"]).control("nf", []);
    for line in lines.lines() {
        roff.text([roman(line.trim_start())]);
    }
    roff.control("fi", []);
}

/// How sessions and entries are named.
fn names(roff: &mut Roff, text: &str) {
    roff.control("SH", ["SESSIONS AND ENTRIES"]);
    for paragraph in text.split("\n\n") {
        roff.control("PP", []).text([roman(paragraph.replace('\n', " "))]);
    }
}

fn table(roff: &mut Roff, head: &str, rows: &[(&str, &str)]) {
    roff.control("SH", [head]);
    for (name, text) in rows {
        roff.control("TP", []).text([bold(*name)]).text([roman(*text)]);
    }
}

/// The other pages, this one left out.
fn see_also(roff: &mut Roff, command: &clap::Command, whole: Option<&clap::Command>) {
    roff.control("SH", ["SEE ALSO"]);
    let names: Vec<_> = match whole {
        None => visible(command).map(|command| format!("pi-sessions-{}", command.get_name())).collect(),
        Some(_) => vec!["pi-sessions".to_owned()],
    };
    let last = names.len().saturating_sub(1);
    for (at, name) in names.into_iter().enumerate() {
        let end = if at == last { "(1)" } else { "(1)," };
        roff.text([italic(name), roman(end)]);
    }
}
