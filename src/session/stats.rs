//! What a session holds and what it cost, over the entries of all branches.
//!
//! # Invariants
//! - Compaction and navigation never make a number smaller: entries count, not the context.
//! - Entries are added one by one, in any order, so that a file can be streamed. Adding an entry twice counts it
//!   twice: whoever adds the entries of several files that share some leaves the copies out.
//! - How many branches there are is a matter of the tree:
//!   [`branch_count`](crate::session::tree::SessionTree::branch_count).

use std::borrow::Cow;

use crate::session::entry::{Entry, EntryKind};
use crate::session::json::{Extra, Json};
use crate::session::message::{Message, Usage};

/// Tokens of many requests, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Of prompts, from no cache.
    pub input: u64,
    /// Of answers, thinking included.
    pub output: u64,
    /// Of prompts, read from a provider's cache.
    pub cache_read: u64,
    /// Of prompts, written to a provider's cache.
    pub cache_write: u64,
}

impl Tokens {
    /// The sum of the four. A provider's own total may differ and is not looked at.
    pub fn total(&self) -> u64 {
        [self.input, self.output, self.cache_read, self.cache_write].iter().fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// The tokens of one request.
    pub fn of(usage: &Usage) -> Self {
        Self { input: usage.input, output: usage.output, cache_read: usage.cache_read, cache_write: usage.cache_write }
    }

    /// Adds those of others.
    pub fn add(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
    }
}

/// Counts of a session's entries, with tokens and cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionStats {
    /// `message` entries, of any role.
    pub messages: u64,
    /// Messages of users.
    pub user_messages: u64,
    /// Messages of models.
    pub assistant_messages: u64,
    /// Results of tool calls.
    pub tool_results: u64,
    /// Calls of tools, in messages of models.
    pub tool_calls: u64,
    /// `compaction` entries.
    pub compactions: u64,
    /// The `usage` of assistant messages, tool results, `usage`, `compaction` and `branch_summary` entries.
    pub tokens: Tokens,
    /// The cost of the same, in US dollars.
    pub cost: f64,
}

/// Adds up entries, one by one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatsFold(SessionStats);

impl StatsFold {
    /// Counts one entry. `O(1)`, but for an assistant message, whose blocks are looked through.
    pub fn add(&mut self, entry: &Entry) {
        let stats = &mut self.0;
        // A message without a payload that could be read is one still.
        if entry.kind.wire_type() == "message" {
            stats.messages += 1;
        }
        match &entry.kind {
            EntryKind::Message(payload) => match &payload.message {
                Message::User(_) => stats.user_messages += 1,
                Message::Assistant(message) => {
                    stats.assistant_messages += 1;
                    stats.tool_calls += message.tool_calls().count() as u64;
                }
                Message::ToolResult(_) => stats.tool_results += 1,
                Message::BashExecution(_)
                | Message::Custom(_)
                | Message::System(_)
                | Message::BranchSummary(_)
                | Message::CompactionSummary(_)
                | Message::Unknown(_) => {}
            },
            EntryKind::Compaction(_) => stats.compactions += 1,
            EntryKind::BranchSummary(_)
            | EntryKind::Leaf(_)
            | EntryKind::ModelChange(_)
            | EntryKind::ThinkingLevelChange(_)
            | EntryKind::ActiveToolsChange(_)
            | EntryKind::ContextEdit(_)
            | EntryKind::Custom(_)
            | EntryKind::CustomMessage(_)
            | EntryKind::Label(_)
            | EntryKind::SessionInfo(_)
            | EntryKind::Usage(_)
            | EntryKind::Unknown { .. } => {}
        }
        if let Some(usage) = usage_of(entry) {
            stats.tokens.add(Tokens::of(&usage));
            stats.cost += usage.cost.as_ref().map_or(0.0, |cost| cost.total);
        }
    }

    /// The sums so far.
    pub fn stats(&self) -> &SessionStats {
        &self.0
    }

    /// The sums.
    pub fn into_stats(self) -> SessionStats {
        self.0
    }
}

/// What the entry used, as its provider reported it; `None` for entries that use nothing.
pub fn usage_of(entry: &Entry) -> Option<Cow<'_, Usage>> {
    match &entry.kind {
        EntryKind::Message(payload) => match &payload.message {
            Message::Assistant(message) => message.usage.as_ref().map(Cow::Borrowed),
            // Of a tool that asks a model itself.
            Message::ToolResult(message) => usage_in(&message.extra).map(Cow::Owned),
            Message::User(_)
            | Message::BashExecution(_)
            | Message::Custom(_)
            | Message::System(_)
            | Message::BranchSummary(_)
            | Message::CompactionSummary(_)
            | Message::Unknown(_) => None,
        },
        EntryKind::Compaction(payload) => payload.usage.as_ref().map(Cow::Borrowed),
        EntryKind::BranchSummary(payload) => payload.usage.as_ref().map(Cow::Borrowed),
        EntryKind::Usage(payload) => payload.usage.as_ref().map(Cow::Borrowed),
        EntryKind::Leaf(_)
        | EntryKind::ModelChange(_)
        | EntryKind::ThinkingLevelChange(_)
        | EntryKind::ActiveToolsChange(_)
        | EntryKind::ContextEdit(_)
        | EntryKind::Custom(_)
        | EntryKind::CustomMessage(_)
        | EntryKind::Label(_)
        | EntryKind::SessionInfo(_)
        | EntryKind::Unknown { .. } => None,
    }
}

fn usage_in(extra: &Extra) -> Option<Usage> {
    extra.get("usage").and_then(Json::to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::entry::EntryId;
    use crate::session::json::Fields;

    /// Adds payloads and shows `messages/users/assistants/results calls compactions tokens cost`.
    fn check(payloads: &[&str], expect: &str) {
        let mut fold = StatsFold::default();
        for payload in payloads {
            let kind = EntryKind::read(Fields::parse(payload).expect(payload));
            fold.add(&Entry { id: EntryId::from("x"), parent_id: None, timestamp: String::new(), kind });
        }
        let stats = fold.into_stats();
        let Tokens { input, output, cache_read, cache_write } = stats.tokens;
        let shown = format!(
            "{}/{}/{}/{} {}c {}k {input}+{output}+{cache_read}+{cache_write}={} ${}",
            stats.messages,
            stats.user_messages,
            stats.assistant_messages,
            stats.tool_results,
            stats.tool_calls,
            stats.compactions,
            stats.tokens.total(),
            stats.cost
        );
        assert_eq!(shown, expect, "{payloads:?}");
    }

    /// A usage of 1, 2, 3 and 4 tokens, whose own total is wrong, for a quarter.
    const USAGE: &str = r#"{"input":1,"output":2,"cacheRead":3,"cacheWrite":4,"totalTokens":99,"cost":{"total":0.25}}"#;

    fn with_usage(payload: &str) -> String {
        payload.replace("USAGE", USAGE)
    }

    #[test]
    fn summary_calls_are_counted() {
        let one = "1+2+3+4=10 $0.25";
        let check_one = |payload: &str, counts: &str| check(&[&with_usage(payload)], &format!("{counts} {one}"));
        check_one(r#"{"type":"message","message":{"role":"assistant","content":[],"usage":USAGE}}"#, "1/0/1/0 0c 0k");
        check_one(r#"{"type":"message","message":{"role":"toolResult","toolCallId":"1","usage":USAGE}}"#, "1/0/0/1 0c 0k");
        check_one(r#"{"type":"compaction","summary":"s","usage":USAGE}"#, "0/0/0/0 0c 1k");
        check_one(r#"{"type":"branch_summary","summary":"s","usage":USAGE}"#, "0/0/0/0 0c 0k");
        check_one(r#"{"type":"usage","kind":"k","usage":USAGE}"#, "0/0/0/0 0c 0k");
    }

    #[test]
    fn usage_elsewhere_is_none_of_ours() {
        check(&[&with_usage(r#"{"type":"custom","data":{"usage":USAGE},"usage":USAGE}"#)], "0/0/0/0 0c 0k 0+0+0+0=0 $0");
        check(
            &[&with_usage(r#"{"type":"message","message":{"role":"user","content":"","usage":USAGE}}"#)],
            "1/1/0/0 0c 0k 0+0+0+0=0 $0",
        );
    }

    #[test]
    fn messages_of_every_role_count_and_so_do_calls() {
        check(
            &[
                r#"{"type":"message","message":{"role":"user","content":"u"}}"#,
                r#"{"type":"message","message":{"role":"assistant","content":[{"type":"toolCall","id":"1","name":"a"},{"type":"text","text":"t"},{"type":"toolCall","id":"2","name":"b"}]}}"#,
                r#"{"type":"message","message":{"role":"toolResult","toolCallId":"1","toolName":"a"}}"#,
                r#"{"type":"message","message":{"role":"bashExecution","command":"ls"}}"#,
                r#"{"type":"message","message":{"role":"martian"}}"#,
                r#"{"type":"message"}"#,
                r#"{"type":"custom_message","content":"c"}"#,
            ],
            "6/1/1/1 2c 0k 0+0+0+0=0 $0",
        );
    }

    #[test]
    fn cost_never_drops_and_counts_never_overflow() {
        let many = format!(r#"{{"type":"usage","usage":{{"input":{},"output":5,"cost":{{"total":1.5}}}}}}"#, u64::MAX);
        check(&[&many, r#"{"type":"compaction","summary":"s"}"#, &many], &format!("0/0/0/0 0c 1k {0}+10+0+0={0} $3", u64::MAX));
    }
}
