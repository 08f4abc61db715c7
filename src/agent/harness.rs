//! The agent that keeps its transcript in a session.
//!
//! ```text
//! prompt / steering / follow-up ──> on disk before the request that carries it
//! message_end ──> pending ──> turn_end: one write, one sync (a save point)
//! model, thinking level, tools, labels, name, custom entries during a run ──> the same list, in order
//! ```
//!
//! # Invariants
//! - A run, a compaction and a navigation exclude each other.
//! - Nothing but the prompts of an unfinished turn is on disk, unless the policy is [`FlushPolicy::Entry`].
//! - The leaf moves only with what is on disk; a compaction or a summary is written only behind the leaf that it tells of.
//!
//! # Crash
//! What is pending is lost: the turn that was not finished. What the user said is on disk.

mod compact;
mod navigate;
mod options;
mod pending;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::activity::Activity;
use super::agent::{begin_run, queued_or_open};
use super::event::{AgentEvent, Events, Warning};
use super::sending::{Core, CoreParts, Live};
use super::tools::Env;
use super::turn::{Run, Transcript};
use super::{AgentError, Prompt, RunOutcome, ServedModel};
use crate::llm::Model;
use crate::session::context::{ContextExtension, PathState, ProjectedMessage};
use crate::session::entry::{
    ActiveToolsChange, Custom, CustomMessageEntry, EntryId, EntryKind, Label, ModelChange, SessionInfo, ThinkingLevelChange,
};
use crate::session::message::Message;
use crate::session::request::RequestOptions;
use crate::storage::fs::Fs;
use crate::storage::handle::{Reading, Session};
use crate::storage::lock::OwnerLock;
use crate::storage::{StorageError, jsonl};

pub use compact::CompactOptions;
pub use navigate::{NavigateOptions, NavigateSummary};
pub use options::{CompactionOptions, FlushPolicy, HarnessOptions, LeafPolicy, ModelCompaction, SummaryBy};
use pending::Store;

/// An agent on a session.
pub struct AgentHarness {
    core: Core,
    store: Mutex<Store>,
    compaction: CompactionOptions,
    request: RequestOptions,
    extensions: Vec<Arc<dyn ContextExtension>>,
    fs: Arc<dyn Fs>,
    /// The tokens of the context at the last compaction that was refused or failed.
    refused_at: Mutex<Option<u64>>,
    /// The model's id and the tokens of the smallest request that it refused as too large.
    refused_size: Mutex<Option<(String, u64)>>,
    /// Whether the user was told that the context is over its limit.
    is_over_limit: AtomicBool,
    /// Where the file for what could not be written goes when it cannot be beside the session.
    unsaved_folder: Option<PathBuf>,
    owner: Mutex<Option<OwnerLock>>,
}

impl std::fmt::Debug for AgentHarness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentHarness").field("activity", &self.core.status.activity()).finish_non_exhaustive()
    }
}

/// What closing left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Closed {
    /// How many entries could not be written to the session.
    pub unsaved: usize,
    /// The file that they are in: beside the session, or in [`HarnessOptions::unsaved_folder`].
    pub unsaved_path: Option<PathBuf>,
    /// Why there is no such file, so that they are lost.
    pub lost_because: Option<String>,
}

/// The model, thinking level and tools that the path to a session's leaf ends with.
///
/// # Errors
/// When the session cannot be read.
pub fn path_state(session: &Session) -> Result<PathState, StorageError> {
    PathState::of(session.tree(), &session.tree().path(session.leaf()), &Reading(session.read()))
}

impl AgentHarness {
    /// An agent that goes on from the leaf of `session`. Thinking level and active
    /// tools are those of the path, unless `options` names them.
    ///
    /// # Errors
    /// When the session cannot be read.
    pub fn new(mut session: Session, options: HarnessOptions) -> Result<Self, AgentError> {
        match options.leaf {
            LeafPolicy::Own => session.hold(),
            LeafPolicy::File => {}
        }
        let state = path_state(&session)?;
        // A path that names none of our tools was made by another harness and says nothing about them.
        let is_known = |name: &String| options.tools.iter().any(|tool| tool.declaration().name == *name);
        let of_path = state.active_tool_names.filter(|names| names.is_empty() || names.iter().any(is_known));
        let live = Live {
            served: options.served,
            thinking_level: options.thinking_level.unwrap_or(state.thinking_level),
            active_tools: options.active_tools.or(of_path),
        };
        let core = Core::new(CoreParts {
            live,
            tools: options.tools,
            hooks: options.hooks,
            models: options.models,
            prompt: options.prompt,
            stream: options.stream,
            queue_modes: options.queue_modes,
            max_turns: options.max_turns,
            session_id: Some(session.header().id.clone()),
            clock: session.clock().clone(),
        });
        Ok(Self {
            core,
            store: Mutex::new(Store::new(session, options.flush_policy)),
            compaction: options.compaction,
            request: options.request,
            extensions: options.extensions,
            fs: options.fs,
            unsaved_folder: options.unsaved_folder,
            refused_at: Mutex::default(),
            refused_size: Mutex::default(),
            is_over_limit: AtomicBool::new(false),
            owner: Mutex::new(options.owner),
        })
    }

    /// Says something and runs until the model has nothing more to do. Dropping the future ends the run.
    ///
    /// # Errors
    /// When something else is going on, or the session cannot be read or written: what the user said then waits in memory,
    /// is written with the next flush, and [`AgentHarness::continue_run`] goes on from it. A request that fails is an
    /// outcome.
    pub async fn prompt(&self, prompt: impl Into<Prompt> + Send) -> Result<RunOutcome, AgentError> {
        let operation = self.core.status.begin(Activity::Running)?;
        self.settle();
        let (first, system_prompt) = begin_run(&self.core, Some(prompt.into())).await;
        Run { core: &self.core, transcript: self, abort: &operation.abort, system_prompt }.go(first).await
    }

    /// Invokes a skill by its name, with what the user adds; see [`AgentHarness::prompt`].
    ///
    /// # Errors
    /// When there is no such skill or it cannot be read, and those of `prompt`.
    pub async fn prompt_skill(&self, env: &Env, name: &str, request: &str) -> Result<RunOutcome, AgentError> {
        let skill = self.core.prompt.skill(name).ok_or_else(|| AgentError::NoSuchSkill(name.to_owned()))?;
        let prompt = skill.invocation(env, request).await?;
        self.prompt(prompt).await
    }

    /// Goes on without a new prompt: after an abort, an error, or with what waits in the queues.
    ///
    /// # Errors
    /// [`AgentError::NothingToContinue`], and those of [`AgentHarness::prompt`].
    pub async fn continue_run(&self) -> Result<RunOutcome, AgentError> {
        let operation = self.core.status.begin(Activity::Running)?;
        self.settle();
        let queued = queued_or_open(&self.core, self)?;
        let (mut first, system_prompt) = begin_run(&self.core, None).await;
        first.extend(queued);
        Run { core: &self.core, transcript: self, abort: &operation.abort, system_prompt }.go(first).await
    }

    /// Sends a message before the next request of the run that is going on, or with the next one.
    pub fn steer(&self, prompt: impl Into<Prompt>) {
        self.core.queues.steering.push(self.core.user(prompt.into()));
    }

    /// Sends a message when the run would end.
    pub fn follow_up(&self, prompt: impl Into<Prompt>) {
        self.core.queues.follow_up.push(self.core.user(prompt.into()));
    }

    /// Sends a message before the next prompt.
    pub fn next_turn(&self, prompt: impl Into<Prompt>) {
        self.core.queues.next_turn.push(self.core.user(prompt.into()));
    }

    /// Takes back what waits in the steering and follow-up queues, to be edited.
    pub fn take_queued(&self) -> Vec<Message> {
        let mut queued = self.core.queues.steering.take_all();
        queued.extend(self.core.queues.follow_up.take_all());
        queued
    }

    /// Everything that happens from now on.
    pub fn subscribe(&self) -> Events {
        self.core.events.subscribe()
    }

    /// Ends what is going on: a run, a compaction, a navigation.
    pub fn abort(&self) {
        self.core.status.abort();
    }

    /// Waits until nothing is going on.
    pub async fn wait_for_idle(&self) {
        self.core.status.idle().await;
    }

    /// What is going on.
    pub fn activity(&self) -> Activity {
        self.core.status.activity()
    }

    /// Reads the session. Entries that wait to be written are not in it.
    pub fn with_session<T>(&self, read: impl FnOnce(&Session) -> T) -> T {
        read(&self.store().session)
    }

    /// How many entries wait to be written.
    pub fn pending(&self) -> usize {
        self.store().len()
    }

    /// The model in use.
    pub fn model(&self) -> Model {
        self.core.live().served.model.clone()
    }

    /// The thinking level in use.
    pub fn thinking_level(&self) -> String {
        self.core.live().thinking_level.clone()
    }

    /// Who writes summaries where nobody else is asked to.
    pub fn summary_by(&self) -> SummaryBy {
        self.compaction.by
    }

    /// The names of the tools that the model may call.
    pub fn active_tools(&self) -> Vec<String> {
        self.core.declarations().into_iter().map(|tool| tool.name).collect()
    }

    /// The system prompt of the next run, before its hooks.
    pub fn system_prompt(&self) -> String {
        self.core.prompt.text(&self.core.declarations())
    }

    /// Uses another model from the next request on, and notes it in the session.
    ///
    /// # Errors
    /// When the note cannot be written; it waits in memory, and the model is used.
    pub fn set_model(&self, served: ServedModel) -> Result<(), AgentError> {
        let change =
            ModelChange { provider: served.model.provider.clone(), model_id: served.model.id.clone(), ..ModelChange::default() };
        self.core.live().served = served;
        self.record(EntryKind::ModelChange(change))
    }

    /// Uses another thinking level from the next request on, and notes it in the session.
    ///
    /// # Errors
    /// As for [`AgentHarness::set_model`].
    pub fn set_thinking_level(&self, level: &str) -> Result<(), AgentError> {
        self.core.live().thinking_level = level.to_owned();
        let thinking_level = level.to_owned();
        self.record(EntryKind::ThinkingLevelChange(ThinkingLevelChange { thinking_level, ..ThinkingLevelChange::default() }))
    }

    /// Lets the model call these tools alone, from the next request on, and notes it in the session.
    ///
    /// # Errors
    /// When there is no tool of one of these names, and as for [`AgentHarness::set_model`].
    pub fn set_active_tools(&self, names: Vec<String>) -> Result<(), AgentError> {
        self.core.check_tools(&names)?;
        self.core.live().active_tools = Some(names.clone());
        let change = ActiveToolsChange { active_tool_names: names, ..ActiveToolsChange::default() };
        self.record(EntryKind::ActiveToolsChange(change))
    }

    /// Sets or clears the label of an entry; blank clears it too.
    ///
    /// # Errors
    /// When there is no such entry, and as for [`AgentHarness::set_model`].
    pub fn set_label(&self, target: &EntryId, label: Option<&str>) -> Result<(), AgentError> {
        if self.with_session(|session| session.tree().find(target.as_str())).is_none() {
            return Err(AgentError::NoSuchEntry(target.clone()));
        }
        let label = label.map(str::trim).filter(|label| !label.is_empty()).map(str::to_owned);
        self.record(EntryKind::Label(Label { target_id: Some(target.clone()), label, ..Label::default() }))
    }

    /// Sets the session's name; blank clears it.
    ///
    /// # Errors
    /// As for [`AgentHarness::set_model`].
    pub fn set_name(&self, name: &str) -> Result<(), AgentError> {
        self.record(EntryKind::SessionInfo(SessionInfo { name: Some(name.trim().to_owned()), ..SessionInfo::default() }))
    }

    /// Keeps something of an application in the session; the model does not see it.
    ///
    /// # Errors
    /// As for [`AgentHarness::set_model`].
    pub fn append_custom(&self, custom: Custom) -> Result<(), AgentError> {
        self.record(EntryKind::Custom(custom))
    }

    /// Adds a message of an application to the session; the model sees it with the next request.
    ///
    /// # Errors
    /// As for [`AgentHarness::set_model`].
    pub fn append_custom_message(&self, message: CustomMessageEntry) -> Result<(), AgentError> {
        self.record(EntryKind::CustomMessage(message))
    }

    /// Adds a message to the session that no model answers, such as a command that the user ran beside the conversation.
    ///
    /// # Errors
    /// As for [`AgentHarness::set_model`].
    pub fn append_message(&self, message: Message) -> Result<(), AgentError> {
        self.record(pending::entry_of(message))
    }

    /// Writes what waits and lets nothing begin any more. What cannot be written goes to a file beside the session, or
    /// where that cannot be, in [`HarnessOptions::unsaved_folder`]; the answer names it, or tells why it is lost.
    ///
    /// # Errors
    /// When something is going on, or it was closed before.
    pub fn close(&self) -> Result<Closed, AgentError> {
        self.core.status.close()?;
        self.settle();
        let flushed = self.flush_pending();
        // Nobody else owns the session until this returns.
        let _owner = self.owner.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Err(_) = flushed else { return Ok(Closed::default()) };
        let store = self.store();
        let entries = store.draft();
        let mut closed = Closed { unsaved: entries.len(), ..Closed::default() };
        if let Some(path) = store.session.read().path() {
            let beside = jsonl::write_unsaved(&*self.fs, path, &entries);
            let written = beside.or_else(|error| match &self.unsaved_folder {
                Some(folder) => jsonl::write_unsaved_in(&*self.fs, folder, path, &entries),
                None => Err(error),
            });
            match written {
                Ok(path) => {
                    self.core.events.warn(Warning::Unsaved(path.clone()));
                    closed.unsaved_path = Some(path);
                }
                Err(error) => {
                    let source = std::error::Error::source(&error).map(|source| format!(": {source}")).unwrap_or_default();
                    closed.lost_because = Some(format!("{error}{source}"));
                }
            }
        }
        Ok(closed)
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn extensions(&self) -> Vec<&dyn ContextExtension> {
        self.extensions.iter().map(|extension| &**extension).collect()
    }

    /// Answers calls of a run whose future was dropped, so that no call without its result is ever written.
    fn settle(&self) {
        let now_ms = self.core.clock.now_ms();
        self.store().settle(now_ms);
    }

    /// Puts an entry on the list, and writes the list unless something is going on that will.
    fn record(&self, kind: EntryKind) -> Result<(), AgentError> {
        let mut store = self.store();
        // Under the lock of the list: what a run adds comes behind it.
        let activity = self.core.status.activity();
        if activity == Activity::Closed {
            return Err(AgentError::Closed);
        }
        if activity == Activity::Idle {
            store.settle(self.core.clock.now_ms());
        }
        store.push(kind);
        if activity != Activity::Idle && store.policy() != FlushPolicy::Entry {
            return Ok(());
        }
        self.flush_store(&mut store)
    }

    /// Writes the list and tells of it.
    fn flush_pending(&self) -> Result<(), AgentError> {
        self.flush_store(&mut self.store())
    }

    fn flush_store(&self, store: &mut Store) -> Result<(), AgentError> {
        match store.flush() {
            Ok(entry_ids) if entry_ids.is_empty() => Ok(()),
            Ok(entry_ids) => {
                self.core.events.emit(AgentEvent::SavePoint { entry_ids });
                Ok(())
            }
            Err(error) => {
                self.core.events.warn(Warning::NotWritten { entries: store.len(), error: described(&error) });
                Err(error.into())
            }
        }
    }
}

impl Drop for AgentHarness {
    /// A harness that nobody closed closes itself.
    fn drop(&mut self) {
        let _ = self.close();
    }
}

/// An error with what the system said.
fn described(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

#[async_trait]
impl Transcript for AgentHarness {
    fn context(&self) -> Result<Vec<ProjectedMessage>, AgentError> {
        Ok(self.store().context(&self.extensions())?)
    }

    fn add_prompts(&self, messages: &[Message]) -> Result<(), AgentError> {
        if messages.is_empty() {
            return Ok(());
        }
        let mut store = self.store();
        messages.iter().for_each(|message| store.push(pending::entry_of(message.clone())));
        self.flush_store(&mut store)
    }

    fn add(&self, message: &Message) {
        let mut store = self.store();
        store.push(pending::entry_of(message.clone()));
        if store.policy() == FlushPolicy::Entry {
            // The list keeps what was not written, and the end of the turn tries again.
            let _ = self.flush_store(&mut store);
        }
    }

    fn flush(&self) -> Result<(), AgentError> {
        match self.flush_pending() {
            // What is on disk is unknown until the session is opened again, so there is no sense in going on.
            Err(AgentError::Storage(error @ (StorageError::SyncFailed { .. } | StorageError::Poisoned(_)))) => {
                Err(AgentError::Storage(error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn set_model(&self, model: ServedModel) {
        // The note waits in memory where it cannot be written.
        let _ = AgentHarness::set_model(self, model);
    }

    fn set_thinking_level(&self, level: String) {
        let _ = AgentHarness::set_thinking_level(self, &level);
    }

    async fn make_room(&self, next: &[Message], run: &Run<'_>) -> RequestOptions {
        self.room_for(next, run).await
    }

    async fn make_room_after_overflow(&self, sent: RequestOptions, run: &Run<'_>) -> Option<RequestOptions> {
        self.room_after_overflow(sent, run).await
    }
}

#[cfg(test)]
mod tests;
