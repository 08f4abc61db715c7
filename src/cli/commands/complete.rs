//! `complete`: what the completion scripts of the shells ask. Not for people, so it is hidden.
//!
//! # Invariants
//! - Nothing that goes wrong is told: a shell would show it in the middle of the line that is being typed.

use std::ffi::OsString;

use crate::cli::Outcome;
use crate::cli::completing::{Offer, offers};
use crate::cli::error::CliError;
use crate::cli::invocation::Invocation;
use crate::cli::text::cut;
use crate::cli::typed_line::{TypedLine, unquote};

/// How bash says that it only shows what there is.
const BASH_SHOWS: &str = "63";
/// The columns of a line that bash shows.
const SHOWN_COLUMNS: usize = 78;

/// Tells the completion scripts what may stand in the place of a word
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub struct CompleteArgs {
    /// The shell that asks
    shell: Asker,
    /// For bash the line up to the cursor, its word breaks and the kind of completion; else the words up to the cursor
    #[arg(value_name = "WORD", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// A shell that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Asker {
    Bash,
    Zsh,
    Fish,
}

pub(super) fn run(args: &CompleteArgs, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    let words: Vec<String> = args.words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let lines = match args.shell {
        Asker::Bash => for_bash(&words, invocation),
        Asker::Zsh => offers(&words, invocation).map(|offers| offers.iter().map(with_help).collect()),
        Asker::Fish => for_fish(words, invocation),
    };
    for line in lines.unwrap_or_default() {
        invocation.ui.line(&line)?;
    }
    Ok(Outcome::Done)
}

fn for_bash(words: &[String], invocation: &mut Invocation<'_>) -> Result<Vec<String>, CliError> {
    let [line, breaks, kind] = words else { return Ok(Vec::new()) };
    let typed = TypedLine::parse(line, breaks);
    let offers = offers(&typed.words, invocation)?;
    let replies = offers.iter().filter_map(|offer| Some((typed.reply(&offer.value)?, offer.help.as_deref())));
    let replies: Vec<_> = replies.collect();
    // Bash has no room for what a candidate is, but where it only shows them, anything may stand behind it.
    let shows = kind == BASH_SHOWS && replies.len() > 1;
    let line = |(reply, help): (String, Option<&str>)| match help.filter(|_| shows) {
        Some(help) => cut(&format!("{reply}  ({help})"), Some(SHOWN_COLUMNS)).into_owned(),
        None => reply,
    };
    Ok(replies.into_iter().map(line).collect())
}

fn for_fish(mut words: Vec<String>, invocation: &mut Invocation<'_>) -> Result<Vec<String>, CliError> {
    // The last word comes as it was typed, the others as they are meant.
    if let Some(word) = words.last_mut() {
        *word = unquote(word);
    }
    Ok(offers(&words, invocation)?.iter().map(with_help).collect())
}

/// A line with what the candidate is behind a tab, which stands in neither.
fn with_help(offer: &Offer) -> String {
    match &offer.help {
        Some(help) => format!("{}\t{help}", offer.value),
        None => offer.value.clone(),
    }
}
