//! An answer that is being put together from its pieces.
//!
//! # Invariants
//! - Blocks are only added at the end, so an index stays valid.
//! - Whatever pieces came, [`Answer::finish`] and [`Answer::fail`] give a message in Pi's shape. Arguments that are not
//!   JSON are kept as a JSON string, which no tool takes for its arguments.

use super::{Prices, ProviderError, Request, StreamEvent, StreamFailure};
use crate::session::json::{Extra, Json, well_formed};
use crate::session::message::{AssistantMessage, Block, Content, ToolCall, Usage};

/// One block of an unfinished answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part {
    Text(String),
    Thinking { text: String, signature: String, redacted: bool },
    Call { id: String, name: String, arguments: String },
}

/// Why a model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It had nothing more to say.
    Ended,
    /// The limit of tokens was reached.
    Length,
    /// It waits for its tool calls.
    ToolUse,
}

impl Stop {
    fn as_wire(self) -> &'static str {
        match self {
            Self::Ended => "stop",
            Self::Length => "length",
            Self::ToolUse => "toolUse",
        }
    }
}

/// An unfinished answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    api: &'static str,
    provider: String,
    model: String,
    prices: Prices,
    now_ms: i64,
    parts: Vec<Part>,
    /// What the provider counted so far.
    pub usage: Usage,
    /// The provider's id of the answer.
    pub response_id: Option<String>,
}

impl Answer {
    /// An answer to `request`, still empty.
    pub fn new(api: &'static str, request: &Request) -> Self {
        Self {
            api,
            provider: request.model.provider.clone(),
            model: request.model.id.clone(),
            prices: request.model.prices,
            now_ms: request.now_ms,
            parts: Vec::new(),
            usage: Usage::default(),
            response_id: None,
        }
    }

    /// Whether nothing came yet.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The blocks so far.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Adds a text or thinking block.
    pub fn push(&mut self, part: Part) -> usize {
        self.parts.push(part);
        self.parts.len() - 1
    }

    /// Adds a tool call. One without an id gets one that no other call of the session has.
    pub fn push_call(&mut self, id: &str, name: &str) -> (usize, StreamEvent) {
        let index = self.parts.len();
        let id = match id {
            "" => format!("call_{:x}_{index}", self.now_ms),
            id => id.to_owned(),
        };
        self.parts.push(Part::Call { id: id.clone(), name: name.to_owned(), arguments: String::new() });
        (index, StreamEvent::ToolCallStart { index, id, name: name.to_owned() })
    }

    /// Adds to the text, thinking or arguments of the block at `index`; no event where nothing is added.
    pub fn append(&mut self, index: usize, more: &str) -> Option<StreamEvent> {
        let part = self.parts.get_mut(index).filter(|_| !more.is_empty())?;
        let text = more.to_owned();
        Some(match part {
            Part::Text(all) => {
                all.push_str(more);
                StreamEvent::TextDelta { index, text }
            }
            Part::Thinking { text: all, .. } => {
                all.push_str(more);
                StreamEvent::ThinkingDelta { index, text }
            }
            Part::Call { arguments, .. } => {
                arguments.push_str(more);
                StreamEvent::ToolCallDelta { index, text }
            }
        })
    }

    /// Adds to the last block if it is text, else to a new one.
    pub fn append_text(&mut self, more: &str) -> Option<StreamEvent> {
        if more.is_empty() {
            return None;
        }
        let index = match self.parts.last() {
            Some(Part::Text(_)) => self.parts.len() - 1,
            _ => self.push(Part::Text(String::new())),
        };
        self.append(index, more)
    }

    /// Adds to the last block if it is thinking with this signature, else to a new one.
    pub fn append_thinking(&mut self, more: &str, signature: &str) -> Option<StreamEvent> {
        if more.is_empty() {
            return None;
        }
        let index = match self.parts.last() {
            Some(Part::Thinking { signature: last, .. }) if last == signature => self.parts.len() - 1,
            _ => self.push(Part::Thinking { text: String::new(), signature: signature.to_owned(), redacted: false }),
        };
        self.append(index, more)
    }

    /// Adds to the signature of the thinking block at `index`.
    pub fn sign(&mut self, index: usize, more: &str) {
        if let Some(Part::Thinking { signature, .. }) = self.parts.get_mut(index) {
            signature.push_str(more);
        }
    }

    /// Gives the call at `index` its name, if it has none yet.
    pub fn name_call(&mut self, index: usize, new: &str) {
        if let Some(Part::Call { name, .. }) = self.parts.get_mut(index)
            && name.is_empty()
        {
            new.clone_into(name);
        }
    }

    /// The finished message. A model that ended with calls waits for them, whatever word it used.
    pub fn finish(self, stop: Stop) -> AssistantMessage {
        let has_calls = self.parts.iter().any(|part| matches!(part, Part::Call { .. }));
        let stop = match stop {
            Stop::Length => Stop::Length,
            Stop::Ended | Stop::ToolUse if has_calls => Stop::ToolUse,
            Stop::Ended | Stop::ToolUse => Stop::Ended,
        };
        self.message(stop.as_wire(), None)
    }

    /// The failure that `error` makes of this answer.
    pub fn fail(self, error: ProviderError) -> StreamFailure {
        let partial = Box::new(self.message(error.stop_reason(), Some(error.to_string())));
        StreamFailure { error, partial }
    }

    fn message(self, stop_reason: &str, error_message: Option<String>) -> AssistantMessage {
        let mut usage = self.usage;
        usage.total_tokens = Some(usage.context_tokens());
        usage.cost = Some(self.prices.cost(&usage));
        let mut extra = Extra::default();
        if let Some(id) = self.response_id.filter(|id| !id.is_empty()) {
            extra.set("responseId", json_string(&id));
        }
        AssistantMessage {
            content: Some(Content::Blocks(self.parts.into_iter().filter_map(Part::into_block).collect())),
            api: Some(self.api.to_owned()),
            provider: Some(self.provider),
            model: Some(self.model),
            usage: Some(usage),
            stop_reason: Some(stop_reason.to_owned()),
            error_message,
            timestamp: Some(self.now_ms),
            extra,
        }
    }
}

impl Part {
    fn into_block(self) -> Option<Block> {
        match self {
            Self::Text(text) => Some(Block::text(text)),
            Self::Thinking { text, signature, .. } if text.is_empty() && signature.is_empty() => None,
            Self::Thinking { text, signature, redacted } => {
                let mut extra = Extra::default();
                if redacted {
                    extra.set("redacted", Json::parse("true").expect("true is JSON"));
                }
                Some(Block::Thinking { thinking: text, signature: Some(signature).filter(|text| !text.is_empty()), extra })
            }
            Self::Call { id, name, arguments } => {
                Some(Block::ToolCall(ToolCall { id, name, arguments: arguments_json(&arguments), extra: Extra::default() }))
            }
        }
    }
}

/// Arguments as they are stored: what came if it is JSON, nothing as the empty object, anything else as a string.
fn arguments_json(text: &str) -> Json {
    match text.trim() {
        "" => Json::empty_object(),
        text => match Json::parse(&well_formed(text.as_bytes())) {
            Ok(json) => Json::parse(&compact(json.as_str())).unwrap_or(json),
            Err(_) => json_string(text),
        },
    }
}

/// Well-formed JSON text without white space between its tokens. Models like to write arguments over several lines, and a message
/// is stored in one.
fn compact(text: &str) -> String {
    let (mut is_string, mut is_escape) = (false, false);
    let kept = text.chars().filter(|c| {
        let is_kept = is_string || !matches!(c, ' ' | '\t' | '\n' | '\r');
        match c {
            '"' if !is_escape => is_string = !is_string,
            _ => {}
        }
        is_escape = is_string && *c == '\\' && !is_escape;
        is_kept
    });
    kept.collect()
}

/// Arguments as an object, which is all that servers take: what a model got wrong goes back in a field of its own.
pub(crate) fn arguments_object(arguments: &Json) -> Json {
    let text = well_formed(arguments.as_str().as_bytes());
    match arguments.as_str().starts_with('{') {
        true => Json::parse(&text).unwrap_or_else(|_| Json::empty_object()),
        false => Json::parse(&format!("{{\"unreadable_arguments\":{text}}}")).unwrap_or_else(|_| Json::empty_object()),
    }
}

/// `text` as a JSON string.
pub(crate) fn json_string(text: &str) -> Json {
    Json::of(text).expect("a string is JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_over_several_lines_are_stored_in_one() {
        let text = "{\n\t\"a\\\\\" : [ 1,\r\n 2 ],\n \"b \\\" c\": \" d  e\\n\"\n}";
        assert_eq!(arguments_json(text).as_str(), r#"{"a\\":[1,2],"b \" c":" d  e\n"}"#);
        // Two numbers must not become one.
        assert_eq!(arguments_json("[1 2]").as_str(), r#""[1 2]""#);
    }

    #[test]
    fn arguments_that_are_not_json_are_kept_as_a_string() {
        assert_eq!(arguments_json(" {\"a\": 1.50} ").as_str(), "{\"a\":1.50}");
        assert_eq!(arguments_json("").as_str(), "{}");
        assert_eq!(arguments_json("{\"a\":").as_str(), r#""{\"a\":""#);
        assert_eq!(arguments_json(r#"{"a":"\ud83d"}"#).as_str(), r#"{"a":"\ufffd"}"#);
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(arguments_json(&deep).as_str(), deep);
    }
}
