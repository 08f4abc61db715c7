//! The summarizer without a model: it fills the form from the messages themselves.
//!
//! # Invariants
//! - Deterministic, without network: the same request gives the same summary.
//! - A summary costs at most [`MAX_TOKENS`], and at most three fifths of what it stands for as far as its first goal and
//!   the headings allow, however often it is rolled on.
//! - The first goal of the previous summary is the first goal of the next.

use std::collections::HashMap;

use crate::compaction::files;
use crate::compaction::plan::{CompactionPlan, CompactionResult};
use crate::compaction::summary::{CompactionError, Summary, SummaryRequest, SummaryTask};
use crate::compaction::tokens;
use crate::session::message::{AssistantMessage, Content, Message, ToolCall, ToolResultMessage};
use crate::session::parting::file_argument;

/// The most tokens of one summary.
pub const MAX_TOKENS: u64 = 1_500;
/// Characters of a goal.
const GOAL_CHARS: usize = 300;
/// Characters of any other line.
const LINE_CHARS: usize = 200;

/// Words by which a user rules something in or out.
const DEMANDS: [&str; 10] =
    ["must", "never", "always", "don't", "do not", "prefer", "make sure", "avoid", "only use", "instead of"];
/// Words by which a model says what it chose.
const DECISIONS: [&str; 6] = ["decided", "i chose", "instead of", "because", "i'll use", "we'll use"];
/// Words by which a model says what comes next.
const PLANS: [&str; 6] = ["next", "todo", "remaining", "still need", "not yet", "then i"];

/// Summarizes without a model.
pub fn extract(request: &SummaryRequest<'_>) -> Summary {
    let mut form = request.previous_summary.map(Form::parse).unwrap_or_default();
    form.add(request);
    let previous = request.previous_summary.map_or(0, tokens::estimate_text);
    let replaced =
        request.messages.iter().fold(previous, |sum, projected| sum.saturating_add(tokens::estimate_message(&projected.message)));
    let max_tokens = match request.task {
        SummaryTask::Branch => MAX_TOKENS,
        SummaryTask::History | SummaryTask::TurnPrefix => MAX_TOKENS.min(replaced.saturating_mul(3) / 5),
    };
    Summary { text: form.fit(request.task, max_tokens), usage: None }
}

/// Compacts without a model.
///
/// # Errors
/// When the result would not shrink the context.
pub fn compact(plan: &CompactionPlan, instructions: Option<&str>) -> Result<CompactionResult, CompactionError> {
    let history = plan.history_request(instructions).map(|request| extract(&request));
    let turn_prefix = plan.turn_prefix_request(instructions).map(|request| extract(&request));
    plan.finish(history, turn_prefix)
}

/// The headings of the form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    Goal,
    Constraints,
    Done,
    InProgress,
    Blocked,
    Decisions,
    Next,
    Critical,
}

impl Section {
    /// The section under a heading, of either form.
    fn of_heading(heading: &str) -> Option<Self> {
        Some(match heading.trim_matches(['#', ' ', ':']).to_lowercase().as_str() {
            "goal" | "goals" | "request" => Self::Goal,
            "constraints & preferences" => Self::Constraints,
            "done" | "so far" => Self::Done,
            "in progress" => Self::InProgress,
            "blocked" => Self::Blocked,
            "key decisions" => Self::Decisions,
            "next steps" => Self::Next,
            "critical context" | "needed for the rest" => Self::Critical,
            _ => return None,
        })
    }

    /// The most lines, beside the first goal.
    fn max_lines(self) -> usize {
        match self {
            Self::Goal => 4,
            Self::Constraints => 6,
            Self::Done => 10,
            Self::InProgress => 3,
            Self::Blocked => 3,
            Self::Decisions => 6,
            Self::Next => 4,
            Self::Critical => 5,
        }
    }
}

/// The summary as lines under headings.
#[derive(Clone, Debug, Default, PartialEq)]
struct Form {
    first_goal: Option<String>,
    lines: [Vec<String>; 8],
}

impl Form {
    /// Reads a summary, also one that a model wrote. A text without the headings is kept as one line.
    fn parse(summary: &str) -> Self {
        let mut form = Self::default();
        let mut section = None;
        let mut has_headings = false;
        for line in files::split_blocks(summary).0.lines().map(str::trim) {
            if line.starts_with('#') {
                section = Section::of_heading(line);
                has_headings |= section.is_some();
            } else if line == "---" {
                section = None;
            } else if let Some(section) = section {
                form.push(section, bare(line));
            }
        }
        if !has_headings {
            form.push(Section::Critical, &format!("Earlier summary: {}", summary.trim()));
        }
        form
    }

    fn lines(&self, section: Section) -> &[String] {
        &self.lines[section as usize]
    }

    /// Adds a line as the latest of its section; one that is there already moves to the end.
    fn push(&mut self, section: Section, line: &str) {
        let line = one_line(bare(line), if section == Section::Goal { GOAL_CHARS } else { LINE_CHARS });
        if line.is_empty() {
            return;
        }
        if section == Section::Goal {
            match &self.first_goal {
                None => {
                    self.first_goal = Some(line);
                    return;
                }
                Some(first) if *first == line => return,
                Some(_) => {}
            }
        }
        let lines = &mut self.lines[section as usize];
        lines.retain(|known| *known != line);
        lines.push(line);
        if lines.len() > section.max_lines() {
            lines.remove(0);
        }
    }

    fn add(&mut self, request: &SummaryRequest<'_>) {
        // What was going on is told anew by the messages.
        self.lines[Section::InProgress as usize].clear();
        self.lines[Section::Next as usize].clear();
        if request.messages.iter().any(|projected| matches!(projected.message, Message::ToolResult(_))) {
            self.lines[Section::Blocked as usize].clear();
        }

        let mut open_request = None;
        let mut last_answer = None;
        let mut calls: HashMap<&str, &ToolCall> = HashMap::new();
        for projected in request.messages {
            match &projected.message {
                Message::User(message) => {
                    let text = text_of(message.content.as_ref());
                    self.push(Section::Goal, &text);
                    for sentence in sentences(&text).filter(|sentence| has_cue(sentence, &DEMANDS)).take(2) {
                        self.push(Section::Constraints, sentence);
                    }
                    open_request = Some(text).filter(|text| !text.trim().is_empty());
                }
                Message::Assistant(answer) if answer.is_failed() => {
                    if let Some(error) = &answer.error_message {
                        self.push(Section::Blocked, error);
                    }
                }
                Message::Assistant(answer) => {
                    calls.extend(answer.tool_calls().map(|call| (call.id.as_str(), call)));
                    let text = text_of(answer.content.as_ref());
                    for sentence in sentences(&text).filter(|sentence| has_cue(sentence, &DECISIONS)).take(2) {
                        self.push(Section::Decisions, sentence);
                    }
                    if ends_run(answer) {
                        open_request = None;
                        self.push(Section::Done, sentences(&text).next().unwrap_or_default());
                    }
                    if !text.trim().is_empty() {
                        last_answer = Some(text);
                    }
                }
                Message::ToolResult(result) => self.add_result(result, calls.remove(result.tool_call_id.as_str())),
                Message::BashExecution(run) if run.exclude_from_context != Some(true) => {
                    self.push(Section::Done, &format!("the user ran `{}`", run.command));
                }
                Message::BranchSummary(message) => {
                    let branch = Self::parse(&message.summary);
                    let told = branch.first_goal.as_deref().unwrap_or(&message.summary);
                    self.push(Section::Critical, &format!("Another branch was tried and left: {told}"));
                }
                Message::BashExecution(_)
                | Message::Custom(_)
                | Message::System(_)
                | Message::CompactionSummary(_)
                | Message::Unknown(_) => {}
            }
        }
        // Last, so that it is the last to fall.
        if let Some(instructions) = request.instructions.filter(|text| !text.trim().is_empty()) {
            self.push(Section::Constraints, &format!("Asked of this summary: {instructions}"));
        }
        if let Some(text) = open_request {
            self.push(Section::InProgress, &text);
        }
        if let Some(text) = last_answer {
            for sentence in sentences(&text).filter(|sentence| has_cue(sentence, &PLANS)).take(2) {
                self.push(Section::Next, sentence);
            }
            self.lines[Section::Critical as usize].retain(|line| !line.starts_with("Last answer: "));
            self.push(Section::Critical, &format!("Last answer: {text}"));
        }
    }

    fn add_result(&mut self, result: &ToolResultMessage, call: Option<&ToolCall>) {
        let what = call.map_or_else(|| result.tool_name.clone(), describe_call);
        if result.is_error == Some(true) {
            self.push(Section::Blocked, &format!("{what}: {}", text_of(result.content.as_ref())));
            return;
        }
        // What works again does not stand in the way.
        let solved = format!("{what}: ");
        self.lines[Section::Blocked as usize].retain(|line| !line.starts_with(&solved));
        if let Some(call) = call.filter(|call| !call.name.eq_ignore_ascii_case("read")) {
            self.push(Section::Done, &describe_call(call));
        }
    }

    /// The text, with as many of the latest lines as `max_tokens` allow.
    fn fit(mut self, task: SummaryTask, max_tokens: u64) -> String {
        loop {
            let text = self.render(task, Headings::All);
            if tokens::estimate_text(&text) <= max_tokens {
                return text;
            }
            // The longest section loses its oldest line.
            let longest = self.lines.iter_mut().max_by_key(|lines| lines.len()).filter(|lines| !lines.is_empty());
            match longest {
                Some(lines) => drop(lines.remove(0)),
                None => break,
            }
        }
        let text = self.render(task, Headings::Used);
        if tokens::estimate_text(&text) > max_tokens {
            self.first_goal = self.first_goal.map(|goal| one_line(&goal, GOAL_CHARS / 4));
        }
        self.render(task, Headings::Used)
    }

    fn render(&self, task: SummaryTask, headings: Headings) -> String {
        let mut text = String::new();
        let mut heading = |title: &str, lines: Vec<String>| {
            if lines.is_empty() && headings == Headings::Used {
                return;
            }
            let body = if lines.is_empty() { "(none)".to_owned() } else { lines.join("\n") };
            text.push_str(&format!("{title}\n{body}\n\n"));
        };
        let listed = |section: Section, mark: &str| -> Vec<String> {
            self.lines(section).iter().map(|line| format!("{mark}{line}")).collect()
        };
        let mut goals = listed(Section::Goal, "- ");
        goals.insert(0, format!("- {}", self.first_goal.as_deref().unwrap_or("(not stated)")));
        match task {
            SummaryTask::TurnPrefix => {
                let mut so_far = listed(Section::Done, "- ");
                so_far.extend(listed(Section::Decisions, "- "));
                so_far.extend(listed(Section::Blocked, "- failed: "));
                let mut needed = listed(Section::Constraints, "- ");
                needed.extend(listed(Section::Critical, "- "));
                heading("## Request", goals);
                heading("## So Far", so_far);
                heading("## Needed for the Rest", needed);
            }
            SummaryTask::History | SummaryTask::Branch => {
                heading("## Goal", goals);
                heading("## Constraints & Preferences", listed(Section::Constraints, "- "));
                if headings == Headings::All {
                    heading("## Progress\n### Done", listed(Section::Done, "- [x] "));
                } else {
                    heading("### Done", listed(Section::Done, "- [x] "));
                }
                heading("### In Progress", listed(Section::InProgress, "- [ ] "));
                heading("### Blocked", listed(Section::Blocked, "- "));
                heading("## Key Decisions", listed(Section::Decisions, "- "));
                let next = self.lines(Section::Next).iter().enumerate().map(|(at, line)| format!("{}. {line}", at + 1));
                heading("## Next Steps", next.collect());
                heading("## Critical Context", listed(Section::Critical, "- "));
            }
        }
        text.truncate(text.trim_end().len());
        text
    }
}

/// Which headings are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Headings {
    All,
    Used,
}

/// A line without the marks of a list, so that it reads the same after each roll; empty for one that says that there
/// is nothing.
fn bare(line: &str) -> &str {
    let mut text = line;
    loop {
        let mut rest = text.trim_start_matches(['-', '*']).trim();
        for mark in ["[x] ", "[X] ", "[ ] "] {
            rest = rest.strip_prefix(mark).unwrap_or(rest);
        }
        if let Some((number, numbered)) = rest.split_once(". ")
            && !number.is_empty()
            && number.bytes().all(|byte| byte.is_ascii_digit())
        {
            rest = numbered;
        }
        if rest == text {
            return if matches!(text, "(none)" | "(not stated)") { "" } else { text };
        }
        text = rest;
    }
}

/// Whether an answer has words and no calls, so that the run ended with it.
fn ends_run(answer: &AssistantMessage) -> bool {
    answer.tool_calls().next().is_none()
}

fn text_of(content: Option<&Content>) -> String {
    content.map(Content::joined_text).unwrap_or_default()
}

fn describe_call(call: &ToolCall) -> String {
    let command = || call.arguments.fields()?.get::<String>("command");
    match file_argument(call).or_else(command) {
        Some(what) => format!("{} `{}`", call.name, one_line(&what, LINE_CHARS / 2)),
        None => call.name.clone(),
    }
}

fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.split(['\n', '。', '！', '？'])
        .flat_map(|line| line.split_inclusive(". "))
        .map(|sentence| bare(sentence.trim()))
        .filter(|sentence| !sentence.is_empty() && !sentence.starts_with('#'))
}

fn has_cue(sentence: &str, cues: &[&str]) -> bool {
    let sentence = sentence.to_lowercase();
    cues.iter().any(|cue| sentence.contains(cue))
}

/// The text in one line, without control characters, cut where it is longer than `max_chars`.
fn one_line(text: &str, max_chars: usize) -> String {
    let mut line = String::new();
    let mut chars = 0;
    for word in text.split(|char: char| char.is_whitespace() || char.is_control()).filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
            chars += 1;
        }
        for char in word.chars() {
            if chars >= max_chars {
                line.truncate(line.trim_end().len());
                line.push('…');
                return line;
            }
            line.push(char);
            chars += 1;
        }
    }
    line
}

#[cfg(test)]
mod tests;
