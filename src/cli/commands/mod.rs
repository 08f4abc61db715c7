//! The commands: one file each, with its arguments and what it does.
//!
//! # Invariants
//! - A command parses, calls one function of the library, and prints; what is decided is decided in the library.
//! - The order here is the order of the help.

use crate::cli::Outcome;
use crate::cli::error::CliError;
use crate::cli::invocation::Invocation;

mod append;
mod browse;
pub(in crate::cli) mod chat;
mod check;
mod compact;
mod complete;
mod completions;
mod config;
mod context;
mod delete;
mod diff;
pub(in crate::cli) mod export;
mod fork;
pub(in crate::cli) mod goto;
mod import;
pub(in crate::cli) mod label;
pub(in crate::cli) mod list;
mod man;
mod model;
mod move_;
mod name;
mod new;
mod path;
mod prune;
mod repair;
mod restore;
mod search;
mod show;
mod stats;
pub(in crate::cli) mod tree;
mod watch;

/// What is to be done.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    New(new::NewArgs),
    List(list::ListArgs),
    Browse(browse::BrowseArgs),
    Search(search::SearchArgs),
    Show(show::ShowArgs),
    Stats(stats::StatsArgs),
    Tree(tree::TreeArgs),
    Diff(diff::DiffArgs),
    #[command(visible_alias = "tail")]
    Watch(watch::WatchArgs),
    Path(path::PathArgs),
    Context(context::ContextArgs),
    Append(append::AppendArgs),
    Chat(chat::ChatArgs),
    Resume(chat::ResumeArgs),
    Goto(goto::GotoArgs),
    Fork(fork::ForkArgs),
    Import(import::ImportArgs),
    Compact(compact::CompactArgs),
    Name(name::NameArgs),
    Label(label::LabelArgs),
    Model(model::ModelArgs),
    Move(move_::MoveArgs),
    Delete(delete::DeleteArgs),
    Restore(restore::RestoreArgs),
    Prune(prune::PruneArgs),
    Export(export::ExportArgs),
    Check(check::CheckArgs),
    Repair(repair::RepairArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
    Complete(complete::CompleteArgs),
    Config(config::ConfigArgs),
}

impl Command {
    /// Runs the command.
    ///
    /// # Errors
    /// Why it did not do what it was asked for.
    pub fn run(self, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
        match self {
            Self::New(args) => new::run(&args, invocation),
            Self::List(args) => list::run(&args, invocation),
            Self::Browse(args) => browse::run(&args, invocation),
            Self::Search(args) => search::run(&args, invocation),
            Self::Show(args) => show::run(&args, invocation),
            Self::Stats(args) => stats::run(&args, invocation),
            Self::Tree(args) => tree::run(&args, invocation),
            Self::Diff(args) => diff::run(&args, invocation),
            Self::Watch(args) => watch::run(&args, invocation),
            Self::Path(args) => path::run(&args, invocation),
            Self::Context(args) => context::run(&args, invocation),
            Self::Append(args) => append::run(&args, invocation),
            Self::Chat(args) => chat::run(&args, invocation),
            Self::Resume(args) => chat::resume(&args, invocation),
            Self::Goto(args) => goto::run(&args, invocation),
            Self::Fork(args) => fork::run(&args, invocation),
            Self::Import(args) => import::run(&args, invocation),
            Self::Compact(args) => compact::run(&args, invocation),
            Self::Name(args) => name::run(&args, invocation),
            Self::Label(args) => label::run(&args, invocation),
            Self::Model(args) => model::run(&args, invocation),
            Self::Move(args) => move_::run(&args, invocation),
            Self::Delete(args) => delete::run(&args, invocation),
            Self::Restore(args) => restore::run(&args, invocation),
            Self::Prune(args) => prune::run(&args, invocation),
            Self::Export(args) => export::run(&args, invocation),
            Self::Check(args) => check::run(&args, invocation),
            Self::Repair(args) => repair::run(&args, invocation),
            Self::Completions(args) => completions::run(&args, invocation),
            Self::Man(args) => man::run(&args, invocation),
            Self::Complete(args) => complete::run(&args, invocation),
            Self::Config(args) => config::run(&args, invocation),
        }
    }
}
