//! How many tokens a context holds: reported by the provider where it can be, estimated elsewhere.
//!
//! # Invariants
//! - Pure: the same messages give the same numbers, and every number says how much of it is reported and how much
//!   estimated.
//! - A report counts only while the context that it counted is still the one in use: no compaction and no
//!   `context_edit` may follow it on the path.
//! - Estimates saturate; no input overflows or divides by zero.
//!
//! # The estimate
//! A message costs its UTF-16 units / 4, rounded up. A character of a wide script ([`is_wide`]) costs a whole token
//! instead: providers spend about one on each. An image counts as 4,800 characters; a tool call as its name and its
//! arguments as compact JSON; thinking as its text. What no provider gets (failed answers, unknown roles, commands
//! that the user kept out of the context) costs nothing.

use std::collections::HashMap;

use crate::session::context::{Projection, Reason};
use crate::session::entry::EntryType;
use crate::session::message::{AssistantMessage, Block, Content, Message};
use crate::session::request::SystemReplay;
use crate::session::tree::{EntryIndex, SessionTree};

/// Characters that an image counts as.
pub const IMAGE_CHARS: u64 = 4_800;
/// Tokens that are kept free for the answer and for the request of a summary, unless configured.
pub const RESERVE_TOKENS: u64 = 16_384;
/// Tokens of the latest messages that a compaction keeps, unless configured.
pub const KEEP_RECENT_TOKENS: u64 = 20_000;
/// Below this window both defaults are a quarter of it.
pub const SMALL_WINDOW_TOKENS: u64 = 65_536;

/// Estimated tokens below which a report says more about the prompt around the messages than about them.
const CALIBRATION_MIN_TOKENS: u64 = 1_000;

/// When to compact and how much to keep, for one model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactionSettings {
    /// Tokens of the window that stay free.
    pub reserve_tokens: u64,
    /// Tokens of the latest messages that stay in the context.
    pub keep_recent_tokens: u64,
}

impl CompactionSettings {
    /// The settings for a window; what is configured stands as it is, the defaults shrink with a small window.
    pub fn for_window(window_tokens: u64, reserve_tokens: Option<u64>, keep_recent_tokens: Option<u64>) -> Self {
        let default = |tokens| if window_tokens < SMALL_WINDOW_TOKENS { window_tokens / 4 } else { tokens };
        Self {
            reserve_tokens: reserve_tokens.unwrap_or_else(|| default(RESERVE_TOKENS)),
            keep_recent_tokens: keep_recent_tokens.unwrap_or_else(|| default(KEEP_RECENT_TOKENS)),
        }
    }

    /// The most tokens that a context may hold before it is compacted.
    pub fn threshold_tokens(&self, window_tokens: u64) -> u64 {
        window_tokens.saturating_sub(self.reserve_tokens)
    }

    /// Whether a context is due for compaction. `new_tokens` are those that came since the last compaction, or since
    /// the last attempt that was refused; `None` where there was neither. Without new tokens a second attempt would
    /// end like the first.
    pub fn is_due(&self, context_tokens: u64, window_tokens: u64, new_tokens: Option<u64>) -> bool {
        context_tokens > self.threshold_tokens(window_tokens) && new_tokens != Some(0)
    }
}

/// The tokens of a context.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ContextTokens {
    /// What the provider reported, with the answer that `reported_by` names; 0 where there is none.
    pub reported: u64,
    /// The estimate of the rest, calibrated; of everything, where nothing is reported.
    pub estimated: u64,
    /// The entry of the answer that the report came with.
    pub reported_by: Option<EntryIndex>,
    /// How reports and estimates of this context compare.
    pub calibration: Calibration,
}

impl ContextTokens {
    /// All tokens.
    pub fn total(&self) -> u64 {
        self.reported.saturating_add(self.estimated)
    }
}

/// The tokens of a projection. `O(path length + characters of the context)`.
///
/// `overhead_tokens` is the estimate of the system prompt and the tool declarations that go with each request
/// ([`estimate_overhead`]); a report holds them already. `system` messages of the projection are not counted beside it.
pub fn context_tokens(tree: &SessionTree, projection: &Projection, overhead_tokens: u64) -> ContextTokens {
    let positions: HashMap<_, _> = projection.path.iter().enumerate().map(|(at, (index, _))| (*index, at)).collect();
    let barrier = projection.path.iter().rposition(|(index, reason)| match tree.entry_type(*index) {
        EntryType::ContextEdit => true,
        // One that cannot be read governs nothing.
        EntryType::Compaction => *reason != Reason::Damaged,
        EntryType::Message
        | EntryType::BranchSummary
        | EntryType::Leaf
        | EntryType::ModelChange
        | EntryType::ThinkingLevelChange
        | EntryType::ActiveToolsChange
        | EntryType::Custom
        | EntryType::CustomMessage
        | EntryType::Label
        | EntryType::SessionInfo
        | EntryType::Usage
        | EntryType::Unknown => false,
    });
    let is_behind = |source: &EntryIndex| positions.get(source).is_some_and(|at| barrier.is_none_or(|barrier| *at > barrier));
    let report = projection.messages.iter().enumerate().rev().find_map(|(at, projected)| {
        let source = projected.source.filter(is_behind)?;
        let Message::Assistant(answer) = &projected.message else { return None };
        reported_tokens(answer).map(|tokens| (at, source, tokens))
    });
    let estimate = |from: usize, to: usize| {
        let messages = &projection.messages[from..to];
        messages
            .iter()
            .filter(|projected| !matches!(projected.message, Message::System(_)))
            .fold(0u64, |sum, projected| sum.saturating_add(estimate_message(&projected.message)))
    };
    let len = projection.messages.len();
    match report {
        None => ContextTokens { estimated: estimate(0, len).saturating_add(overhead_tokens), ..ContextTokens::default() },
        Some((at, source, reported)) => {
            let calibration = Calibration::of(reported, estimate(0, at + 1).saturating_add(overhead_tokens));
            let estimated = calibration.apply(estimate(at + 1, len));
            ContextTokens { reported, estimated, reported_by: Some(source), calibration }
        }
    }
}

/// The tokens that a provider reported with an answer that counts.
fn reported_tokens(answer: &AssistantMessage) -> Option<u64> {
    if answer.is_failed() {
        return None;
    }
    answer.usage.as_ref().map(|usage| usage.context_tokens()).filter(|tokens| *tokens > 0)
}

/// The estimated tokens of what follows the latest compaction on the path, for [`CompactionSettings::is_due`];
/// `None` where the path holds no compaction.
pub fn new_tokens(projection: &Projection) -> Option<u64> {
    let governing = projection.path.iter().position(|(_, reason)| *reason == Reason::GoverningCompaction)?;
    let behind: std::collections::HashSet<_> = projection.path[governing + 1..].iter().map(|(index, _)| *index).collect();
    let new = projection.messages.iter().filter(|projected| projected.source.is_none_or(|source| behind.contains(&source)));
    Some(new.fold(0u64, |sum, projected| sum.saturating_add(estimate_message(&projected.message))))
}

/// How many reported tokens an estimated one stands for.
///
/// Text that providers split finer than expected makes every estimate low, by up to three times. Where a report is at
/// hand, what it covers is estimated too and the two are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration(f64);

impl Calibration {
    /// The least factor that is believed.
    pub const MIN: f64 = 0.5;
    /// The greatest factor that is believed.
    pub const MAX: f64 = 4.0;

    /// Compares a report with the estimate of what it covers. Too little text says nothing, and a report of less than
    /// a quarter means that the messages were not sent as they are stored: both leave estimates as they are.
    pub fn of(reported_tokens: u64, estimated_tokens: u64) -> Self {
        if estimated_tokens < CALIBRATION_MIN_TOKENS {
            return Self::default();
        }
        let factor = reported_tokens as f64 / estimated_tokens as f64;
        if factor < Self::MIN / 2.0 { Self::default() } else { Self(factor.clamp(Self::MIN, Self::MAX)) }
    }

    /// The factor, from [`Calibration::MIN`] to [`Calibration::MAX`].
    pub fn factor(self) -> f64 {
        self.0
    }

    /// An estimate, scaled and rounded up.
    pub fn apply(self, estimated_tokens: u64) -> u64 {
        if self == Self::default() { estimated_tokens } else { (estimated_tokens as f64 * self.0).ceil() as u64 }
    }
}

impl Default for Calibration {
    fn default() -> Self {
        Self(1.0)
    }
}

/// The estimated tokens of a text.
pub fn estimate_text(text: &str) -> u64 {
    Weight::of(text).tokens()
}

/// The estimated tokens of a message, as a provider would get it.
pub fn estimate_message(message: &Message) -> u64 {
    let weight = match message {
        Message::User(message) => content_weight(message.content.as_ref()),
        Message::ToolResult(message) => content_weight(message.content.as_ref()),
        Message::Custom(message) => content_weight(message.content.as_ref()),
        Message::System(message) => content_weight(message.content.as_ref()),
        Message::Assistant(message) if message.is_failed() => Weight::default(),
        Message::Assistant(message) => content_weight(message.content.as_ref()),
        Message::BashExecution(run) if run.exclude_from_context == Some(true) => Weight::default(),
        Message::BashExecution(run) => Weight::of(&run.command).plus(Weight::of(&run.output)),
        Message::BranchSummary(message) => Weight::of(&message.summary),
        Message::CompactionSummary(message) => Weight::of(&message.summary),
        Message::Unknown(_) => Weight::default(),
    };
    weight.tokens()
}

/// The estimated tokens of what goes with each request: the system prompt and the declarations of the tools, as JSON.
pub fn estimate_overhead<'a>(system_prompt: &str, tools_json: impl IntoIterator<Item = &'a str>) -> u64 {
    tools_json.into_iter().fold(estimate_text(system_prompt), |sum, tool| sum.saturating_add(json_weight(tool).tokens()))
}

/// The same for the prompt and the tools that a session itself holds.
pub fn estimate_replay(system: &SystemReplay) -> u64 {
    estimate_overhead(&system.prompt().unwrap_or_default(), system.tools().map(|tool| tool.as_str()))
}

/// Whether a character costs about a token of its own: Chinese, Japanese and Korean writing with its punctuation, full
/// width forms, emoji and the other pictographs.
pub fn is_wide(char: char) -> bool {
    // Most text is below; one comparison decides it.
    char >= '\u{1100}'
        && matches!(char,
            '\u{1100}'..='\u{11ff}'         // Hangul letters
            | '\u{2600}'..='\u{27bf}'       // symbols and dingbats, the emoji of the first plane
            | '\u{2b00}'..='\u{2bff}'       // stars, squares
            | '\u{2e80}'..='\u{a4cf}'       // radicals, punctuation, kana, bopomofo, ideographs, Yi
            | '\u{a960}'..='\u{a97f}'       // Hangul letters
            | '\u{ac00}'..='\u{d7ff}'       // Hangul syllables
            | '\u{f900}'..='\u{faff}'       // compatibility ideographs
            | '\u{fe30}'..='\u{fe4f}'       // vertical forms
            | '\u{ff00}'..='\u{ffef}'       // full width and half width forms
            | '\u{16fe0}'..='\u{18dff}'     // Tangut, Khitan
            | '\u{1aff0}'..='\u{1b2ff}'     // further kana, Nushu
            | '\u{1f000}'..='\u{1fbff}'     // emoji, pictographs, playing pieces
            | '\u{20000}'..='\u{3ffff}') // further ideographs
}

/// The cost of text, in quarters of a token.
#[derive(Clone, Copy, Debug, Default)]
struct Weight(u64);

impl Weight {
    fn of(text: &str) -> Self {
        if text.is_ascii() {
            return Self(text.len() as u64);
        }
        Self(text.chars().fold(0, |sum, char| sum + char_weight(char)))
    }

    fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    fn tokens(self) -> u64 {
        self.0.div_ceil(4)
    }
}

fn char_weight(char: char) -> u64 {
    if is_wide(char) { 4 } else { char.len_utf16() as u64 }
}

/// The longest beginning of `text` that costs at most `tokens`, in bytes; at least one character where there is one.
#[cfg(feature = "models")]
pub(crate) fn fitting_prefix(text: &str, tokens: u64) -> usize {
    let budget = tokens.saturating_mul(4);
    let mut weight = 0;
    for (at, char) in text.char_indices() {
        weight += char_weight(char);
        if weight > budget && at > 0 {
            return at;
        }
    }
    text.len()
}

fn content_weight(content: Option<&Content>) -> Weight {
    let Some(content) = content else { return Weight::default() };
    if let Content::Text(text) = content {
        return Weight::of(text);
    }
    content.blocks().iter().fold(Weight::default(), |sum, block| {
        sum.plus(match block {
            Block::Text { text, .. } => Weight::of(text),
            Block::Thinking { thinking, .. } => Weight::of(thinking),
            Block::Image { .. } => Weight(IMAGE_CHARS),
            Block::ToolCall(call) => Weight::of(&call.name).plus(json_weight(call.arguments.as_str())),
            Block::Unknown(_) => Weight::default(),
        })
    })
}

/// The weight of JSON text without the white space between its tokens.
fn json_weight(json: &str) -> Weight {
    let (mut sum, mut in_string, mut escaped) = (0u64, false, false);
    for char in json.chars() {
        if in_string {
            (in_string, escaped) = (escaped || char != '"', !escaped && char == '\\');
        } else if char.is_ascii_whitespace() {
            continue;
        } else {
            in_string = char == '"';
        }
        sum += char_weight(char);
    }
    Weight(sum)
}

#[cfg(test)]
mod tests;
