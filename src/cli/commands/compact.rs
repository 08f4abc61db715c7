//! `compact`: a summary takes the place of older messages in the context.
//!
//! # Invariants
//! - A dry run writes nothing to the session, and asks a model only for the summary that `--out` is to hold.
//! - Every number of tokens that is no report of a provider is called an estimate.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::agent::harness::{CompactOptions, SummaryBy};
use crate::cli::Outcome;
use crate::cli::args::SessionArg;
use crate::cli::chat::conversation::{Conversation, Ended};
use crate::cli::chat::setup::agent_error;
use crate::cli::chat::summarizing::{self, Access};
use crate::cli::commands::context::PiView;
use crate::cli::error::{CliError, ErrorKind};
use crate::cli::folder::absolute;
use crate::cli::invocation::Invocation;
use crate::cli::output_file::write_file;
use crate::cli::refer::{command_name, open_session, warn_cut_path};
use crate::cli::text::{lines, short};
use crate::cli::view::{count, entry_line, grouped};
use crate::compaction::plan::{CompactionPlan, CompactionResult};
use crate::session::context::{ProjectedMessage, Projection};
use crate::session::entry::EntryId;
use crate::session::json::Json;
use crate::session::message::{CompactionSummaryMessage, Message};
use crate::storage::handle::Session;

const EXAMPLES: &str = "\
Examples:
  pi-sessions compact --dry-run
  pi-sessions compact @last --instructions 'Keep the names of the tables'
  pi-sessions compact 019ad3c5 --offline --keep 0 --dry-run --out compaction";

/// Compacts the context: a summary takes the place of older messages
///
/// The messages stay in the file. The summary is written by the session's model, or by the one that the configuration
/// names; without a network, and with --offline, it is made of the entries themselves. Token counts are estimates where
/// no provider reported them.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct CompactArgs {
    #[command(flatten)]
    session: SessionArg,
    /// What the summary should keep
    #[arg(long, value_name = "TEXT")]
    instructions: Option<String>,
    /// About how many tokens of the latest messages stay; 0 keeps nothing (default: as configured)
    #[arg(long, value_name = "TOKENS")]
    keep: Option<u64>,
    /// Make the summary without a model
    #[arg(long)]
    offline: bool,
    /// The model that writes the summary
    #[arg(long, value_name = "MODEL", conflicts_with = "offline")]
    model: Option<String>,
    /// Show what would be summarized and what would stay, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Write context-before.json, compressed-summary.md and context-after.json into this folder
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    out: Option<PathBuf>,
    /// Compact although another program holds the session
    #[arg(long)]
    force: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct View<'a> {
    id: Option<&'a str>,
    first_kept_entry_id: Option<&'a str>,
    tokens_before: u64,
    tokens_after: Option<u64>,
    summary: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<PlanView>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PlanView {
    is_split_turn: bool,
    history: PartView,
    turn_prefix: PartView,
    kept: PartView,
    previous_summary_tokens: u64,
}

#[derive(Serialize)]
struct PartView {
    entries: usize,
    tokens: u64,
}

pub(super) fn run(args: &CompactArgs, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    let session = open_session(invocation, args.session.session.as_deref())?;
    let name = command_name(invocation, &session)?;
    warn_cut_path(invocation, &session, session.leaf())?;
    let force = format!("pi-sessions compact {name} --force");
    let access = match (args.dry_run, args.force) {
        (true, _) => Access::Look,
        (false, true) => Access::Force,
        (false, false) => Access::Hold(&force),
    };
    let model = if args.offline { Some(crate::llm::offline::API) } else { args.model.as_deref() };
    let mut conversation = summarizing::open(session, model, access, invocation)?;
    let options = CompactOptions {
        instructions: args.instructions.clone(),
        keep_tokens: args.keep,
        by: args.offline.then_some(SummaryBy::Extractive),
    };
    let out = args.out.as_ref().map(|out| absolute(&invocation.surroundings.cwd, out));
    let result = match args.dry_run {
        true => dry_run(&mut conversation, options, out.as_deref(), invocation),
        false => compact(&mut conversation, options, out.as_deref(), invocation),
    };
    let closed = conversation.close(invocation.ui);
    let outcome = result?;
    closed?;
    Ok(outcome)
}

fn compact(
    conversation: &mut Conversation,
    options: CompactOptions,
    out: Option<&Path>,
    invocation: &mut Invocation<'_>,
) -> Result<Outcome, CliError> {
    let before = project(conversation)?;
    let harness = conversation.harness.clone();
    let ended = conversation.operate(async move { harness.compact(options).await }, invocation.ui)?;
    let Ended::By(done) = ended else { return Ok(Outcome::Interrupted) };
    if let Some(out) = out {
        write_files(out, &before, &done.summary, &project(conversation)?, invocation)?;
    }
    let ui = &mut *invocation.ui;
    if ui.is_json() {
        ui.json(&View {
            id: Some(done.id.as_str()),
            first_kept_entry_id: Some(done.first_kept_entry_id.as_str()),
            tokens_before: done.tokens_before,
            tokens_after: Some(done.tokens_after),
            summary: Some(&done.summary),
            plan: None,
        })?;
    } else {
        ui.line(lines(&done.summary).trim_end())?;
    }
    Ok(Outcome::Done)
}

fn dry_run(
    conversation: &mut Conversation,
    options: CompactOptions,
    out: Option<&Path>,
    invocation: &mut Invocation<'_>,
) -> Result<Outcome, CliError> {
    let (plan, result) = match out {
        None => (conversation.harness.compaction_plan(&options).map_err(agent_error)?, None),
        Some(_) => {
            let harness = conversation.harness.clone();
            let work = async move { harness.preview_compaction(&options).await };
            match conversation.operate(work, invocation.ui)? {
                Ended::By((plan, result)) => (plan, Some(result)),
                Ended::Left => return Ok(Outcome::Interrupted),
            }
        }
    };
    if let (Some(out), Some(result)) = (out, &result) {
        let before = project(conversation)?;
        let after = after(&before, &plan, result, invocation.now_ms());
        write_files(out, &before, &result.summary, &after, invocation)?;
    }
    let ui = &mut *invocation.ui;
    if ui.is_json() {
        let tokens = plan.tokens();
        let part = |entries: &[_], tokens| PartView { entries: entries.len(), tokens };
        ui.json(&View {
            id: None,
            first_kept_entry_id: plan.first_kept().map(|(_, id)| id.as_str()),
            tokens_before: tokens.before,
            tokens_after: result.as_ref().map(|result| result.tokens_after),
            summary: result.as_ref().map(|result| result.summary.as_str()),
            plan: Some(PlanView {
                is_split_turn: plan.is_split_turn(),
                history: part(plan.history_entries(), tokens.history),
                turn_prefix: part(plan.turn_prefix_entries(), tokens.turn_prefix),
                kept: part(plan.kept_entries(), tokens.kept),
                previous_summary_tokens: tokens.previous_summary,
            }),
        })?;
    } else {
        let text = conversation.harness.with_session(|session| plan_text(&plan, result.as_ref(), session))?;
        ui.data(&text)?;
    }
    ui.note("nothing was changed");
    Ok(Outcome::Done)
}

/// The plan for people, a line for each part.
fn plan_text(plan: &CompactionPlan, result: Option<&CompactionResult>, session: &Session) -> Result<String, CliError> {
    let tokens = plan.tokens();
    let about = |number: u64| format!("about {} (estimate)", count(number, "token", "tokens"));
    let entries = |entries: &[_]| count(entries.len() as u64, "entry", "entries");
    let mut text = format!("context now     {}\n", about(tokens.before));
    if plan.previous_summary().is_some() {
        text.push_str(&format!("old summary     {}, brought up to date\n", about(tokens.previous_summary)));
    }
    text.push_str(&format!("summarized      {}, {}\n", entries(plan.history_entries()), about(tokens.history)));
    if plan.is_split_turn() {
        let split = entries(plan.turn_prefix_entries());
        text.push_str(&format!("and, of a turn  {split}, {}\n", about(tokens.turn_prefix)));
    }
    text.push_str(&format!("kept            {}, {}\n", entries(plan.kept_entries()), about(tokens.kept)));
    if let Some((index, id)) = plan.first_kept() {
        let entry = session.read().entry(index)?.map(|entry| entry_line(&entry)).unwrap_or_default();
        text.push_str(&format!("kept from       {id} {}\n", short(&entry, 70)));
    }
    if let Some(result) = result {
        text.push_str(&format!("context then    {}\n", about(result.tokens_after)));
    }
    Ok(lines(&text).into_owned())
}

fn project(conversation: &Conversation) -> Result<Projection, CliError> {
    Ok(conversation.harness.with_session(|session| session.project(session.leaf(), &[]))?)
}

/// The context that the compaction would leave.
fn after(before: &Projection, plan: &CompactionPlan, result: &CompactionResult, now_ms: i64) -> Projection {
    let compaction = result.clone().into_compaction(&EntryId::from(""), now_ms);
    let summary = Message::CompactionSummary(CompactionSummaryMessage {
        summary: result.summary.clone(),
        tokens_before: Json::of(&result.tokens_before).ok(),
        timestamp: Some(now_ms),
        ..CompactionSummaryMessage::default()
    });
    let made = compaction.system_message.map(Message::System).into_iter().chain([summary]);
    let mut messages: Vec<_> = made.map(|message| ProjectedMessage { message, source: None }).collect();
    let is_kept = |projected: &&ProjectedMessage| projected.source.is_some_and(|source| plan.kept_entries().contains(&source));
    let is_system = |projected: &&ProjectedMessage| matches!(projected.message, Message::System(_));
    messages.extend(before.messages.iter().filter(is_kept).filter(|it| !is_system(it)).cloned());
    Projection { messages, ..before.clone() }
}

fn write_files(
    out: &Path,
    before: &Projection,
    summary: &str,
    after: &Projection,
    invocation: &mut Invocation<'_>,
) -> Result<(), CliError> {
    let fs = invocation.surroundings.fs.clone();
    let pretty = |projection: &Projection| {
        let json = serde_json::to_string_pretty(&PiView::of(projection));
        json.map(|json| json + "\n").map_err(|error| CliError::bug("a context cannot be shown as JSON").because(error))
    };
    let files = [
        ("context-before.json", pretty(before)?),
        ("compressed-summary.md", format!("{}\n", summary.trim_end())),
        ("context-after.json", pretty(after)?),
    ];
    for (name, text) in files {
        let path = out.join(name);
        fs.create_dir_all(out)
            .and_then(|()| write_file(&*fs, &path, |file| file.write_all(text.as_bytes())))
            .map_err(|error| CliError::new(ErrorKind::Io, format!("cannot write {}", path.display())).because(error))?;
    }
    let words = grouped(summary.split_whitespace().count() as u64);
    invocation.ui.note(&format!("the contexts and the summary ({words} words) are in {}", out.display()));
    Ok(())
}
