//! The command line: parses, calls the library, prints.
//!
//! # Invariants
//! - Environment, folders, clock, ids and streams come from [`Surroundings`] alone.
//! - What a command prints goes through `Ui`: data on standard output, all else on standard error.
//! - Every end of a run has the exit code of its `ErrorKind` or `Outcome`; a closed pipe is no error,
//!   a panic is our bug.

use std::ffi::OsString;
use std::panic::AssertUnwindSafe;

use clap::{CommandFactory as _, FromArgMatches as _};

use crate::cli::args::Cli;
use crate::cli::error::CliError;
use crate::cli::invocation::Invocation;
use crate::cli::surroundings::Surroundings;
use crate::cli::ui::{ColorWhen, Ui};

mod args;
pub mod browse;
mod chat;
mod commands;
mod completing;
mod config;
mod error;
mod folder;
mod importing;
mod interrupt;
mod invocation;
mod moment;
mod output_file;
mod refer;
mod session_table;
pub mod surroundings;
mod system_trash;
mod text;
mod typed_line;
mod ui;
mod view;

/// How a command ended that did what it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done.
    Done,
    /// `check` found damage.
    DamageFound,
    /// The user said no.
    Declined,
    /// The user ended it.
    Interrupted,
}

impl Outcome {
    fn exit_code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Declined => 1,
            Self::DamageFound => 3,
            Self::Interrupted => 130,
        }
    }
}

/// Runs the command of this process; returns its exit code.
pub fn main() -> u8 {
    interrupt::exit_on_interrupt();
    // A panic is told by `run`, in our words.
    std::panic::set_hook(Box::new(|_| {}));
    run(std::env::args_os(), Surroundings::of_process())
}

/// Runs the command that `args` name, the program's own name first; returns its exit code.
pub fn run<I>(args: I, surroundings: Surroundings) -> u8
where
    I: IntoIterator,
    I::Item: Into<OsString> + Clone,
{
    let args: Vec<OsString> = args.into_iter().map(Into::into).collect();
    // Before they are parsed: an error in them is shown as they ask for.
    let before_dashes = || args.iter().skip(1).take_while(|arg| *arg != "--");
    let json = before_dashes().any(|arg| arg == "--json");
    let color = ColorWhen::find(before_dashes());
    let (mut ui, surroundings) = Ui::new(surroundings, json, color);
    let result = std::panic::catch_unwind(AssertUnwindSafe(|| parse_and_run(&args, surroundings, &mut ui)));
    let result = result.unwrap_or_else(|panic| Err(CliError::bug(panic_message(&*panic))));
    let result = result.and_then(|outcome| ui.flush().map(|()| outcome));
    match result {
        Ok(outcome) => outcome.exit_code(),
        Err(error) => {
            // What was printed before the error still belongs to the output.
            let _ = ui.flush();
            ui.error(&error);
            error.kind.exit_code()
        }
    }
}

fn parse_and_run(args: &[OsString], surroundings: Surroundings, ui: &mut Ui) -> Result<Outcome, CliError> {
    let command = Cli::command().term_width(ui.help_width()).max_term_width(100);
    let parsed = command.try_get_matches_from(args).and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return tell_usage(&error, ui),
    };
    let mut invocation = Invocation::new(cli.global, surroundings, ui);
    cli.command.run(&mut invocation)
}

/// Help and version are data; anything else that clap says is wrong usage.
fn tell_usage(error: &clap::Error, ui: &mut Ui) -> Result<Outcome, CliError> {
    use clap::error::ErrorKind as Clap;
    match error.kind() {
        Clap::DisplayHelp | Clap::DisplayVersion => {
            let text = error.render();
            ui.data(&if ui.out_is_colored() { text.ansi().to_string() } else { text.to_string() })?;
            Ok(Outcome::Done)
        }
        _ => Err(CliError::of_clap(error, ui.err_is_colored())),
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "of unknown cause".to_owned())
}
