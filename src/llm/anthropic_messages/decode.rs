//! The events of a streamed message.
//!
//! # Invariants
//! - Events, blocks and deltas of unknown types are passed over: the protocol says that there will be new ones.
//! - A block is found by the index that the server gave it, which need not be its place in the message.

use std::collections::{HashMap, VecDeque};

use crate::llm::StreamEvent;
use crate::llm::answer::{Answer, Part, Stop};
use crate::llm::talk::{Decode, Fault, Progress};
use crate::session::json::Fields;

/// Reads events.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    blocks: HashMap<u64, Open>,
    stop: Option<Stop>,
}

/// A block that is being received.
#[derive(Debug)]
enum Open {
    /// A text that is still empty, and so no block yet.
    EmptyText,
    /// A block of the message.
    Block(usize),
    /// A call, with the input that its beginning held, which counts if no other follows.
    Call { block: usize, input: Option<String> },
}

impl Decode for Blocks {
    fn decode(&mut self, data: &str, answer: &mut Answer, out: &mut VecDeque<StreamEvent>) -> Result<Progress, Fault> {
        let event = Fields::parse(data).map_err(|_| Fault::Malformed("an event that is no JSON object"))?;
        let part = |key: &str| event.text(key).and_then(|text| Fields::parse(text).ok()).unwrap_or_default();
        let index = event.get::<u64>("index").unwrap_or(0);
        match event.get::<String>("type").as_deref() {
            Some("message_start") => {
                let message = part("message");
                answer.response_id = message.get("id");
                if let Some(usage) = message.text("usage").and_then(|text| Fields::parse(text).ok()) {
                    count(&usage, answer);
                }
            }
            Some("content_block_start") => self.start(index, &part("content_block"), answer, out),
            Some("content_block_delta") => self.delta(index, &part("delta"), answer, out),
            Some("content_block_stop") => {
                if let Some(Open::Call { block, input: Some(input) }) = self.blocks.remove(&index) {
                    out.extend(answer.append(block, &input));
                }
            }
            Some("message_delta") => {
                count(&part("usage"), answer);
                let delta = part("delta");
                match delta.get::<String>("stop_reason").as_deref() {
                    Some("max_tokens" | "model_context_window_exceeded") => self.stop = Some(Stop::Length),
                    Some("tool_use") => self.stop = Some(Stop::ToolUse),
                    Some("refusal") => return Err(Fault::Withheld("refusal".to_owned())),
                    Some(_) => self.stop = Some(Stop::Ended),
                    None => {}
                }
            }
            Some("message_stop") => return Ok(Progress::Complete(self.stop.unwrap_or(Stop::Ended))),
            Some("error") => return Err(Fault::Complaint(data.to_owned())),
            Some(_) => {}
            None if event.has("error") => return Err(Fault::Complaint(data.to_owned())),
            None => return Err(Fault::Malformed("an event without a type")),
        }
        Ok(Progress::Going)
    }

    fn stop(&self) -> Option<Stop> {
        self.stop
    }
}

impl Blocks {
    fn start(&mut self, index: u64, block: &Fields<'_>, answer: &mut Answer, out: &mut VecDeque<StreamEvent>) {
        let text = |key: &str| block.get::<String>(key).unwrap_or_default();
        let open = match text("type").as_str() {
            "text" => Open::EmptyText,
            "thinking" => {
                Open::Block(answer.push(Part::Thinking { text: String::new(), signature: text("signature"), redacted: false }))
            }
            "redacted_thinking" => {
                Open::Block(answer.push(Part::Thinking { text: String::new(), signature: text("data"), redacted: true }))
            }
            "tool_use" => {
                let (block_index, event) = answer.push_call(&text("id"), &text("name"));
                out.push_back(event);
                let input = block.text("input").filter(|input| !matches!(*input, "{}" | "null" | "\"\""));
                Open::Call { block: block_index, input: input.map(str::to_owned) }
            }
            _ => return,
        };
        self.blocks.insert(index, open);
        // A beginning may already hold text.
        for key in ["text", "thinking"] {
            self.append(index, &text(key), answer, out);
        }
    }

    fn delta(&mut self, index: u64, delta: &Fields<'_>, answer: &mut Answer, out: &mut VecDeque<StreamEvent>) {
        let text = |key: &str| delta.get::<String>(key).unwrap_or_default();
        match text("type").as_str() {
            "text_delta" => self.append(index, &text("text"), answer, out),
            "thinking_delta" => self.append(index, &text("thinking"), answer, out),
            "input_json_delta" => self.append(index, &text("partial_json"), answer, out),
            "signature_delta" => {
                if let Some(Open::Block(block)) = self.blocks.get(&index) {
                    answer.sign(*block, &text("signature"));
                }
            }
            _ => {}
        }
    }

    fn append(&mut self, index: u64, more: &str, answer: &mut Answer, out: &mut VecDeque<StreamEvent>) {
        if more.is_empty() {
            return;
        }
        let block = match self.blocks.get_mut(&index) {
            Some(Open::Block(block)) => *block,
            Some(Open::Call { block, input }) => {
                *input = None;
                *block
            }
            Some(open @ Open::EmptyText) => {
                let block = answer.push(Part::Text(String::new()));
                *open = Open::Block(block);
                block
            }
            None => return,
        };
        out.extend(answer.append(block, more));
    }
}

/// Takes the counts that are there; each is the whole so far.
fn count(usage: &Fields<'_>, answer: &mut Answer) {
    let read = |key: &str, count: &mut u64| {
        if let Some(tokens) = usage.get(key) {
            *count = tokens;
        }
    };
    read("input_tokens", &mut answer.usage.input);
    read("output_tokens", &mut answer.usage.output);
    read("cache_read_input_tokens", &mut answer.usage.cache_read);
    read("cache_creation_input_tokens", &mut answer.usage.cache_write);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::{Model, Prices, Request};
    use crate::session::json::Json;
    use crate::session::message::Message;

    fn decode(events: &[&str]) -> (Answer, Vec<StreamEvent>, Result<Progress, Fault>) {
        let model = Model {
            provider: "p".into(),
            id: "m".into(),
            api: super::super::API.into(),
            context_window: 1,
            max_tokens: None,
            prices: Prices { input: 1.0, output: 0.0, cache_read: 0.0, cache_write: 0.0 },
        };
        let mut answer = Answer::new(super::super::API, &Request::new(model, Vec::new(), 5));
        let (mut decoder, mut out, mut last) = (Blocks::default(), VecDeque::new(), Ok(Progress::Going));
        for event in events {
            last = decoder.decode(event, &mut answer, &mut out);
        }
        (answer, out.into(), last)
    }

    #[test]
    fn blocks_of_every_kind_become_a_message() {
        let (answer, events, last) = decode(&[
            r#"{"type":"message_start","message":{"id":"msg_1","usage":{"input_tokens":10,"cache_read_input_tokens":7,"cache_creation_input_tokens":3,"output_tokens":1}}}"#,
            r#"{"type":"ping"}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"si"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"gn"}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"xyz"}}"#,
            r#"{"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}"#,
            r#"{"type":"content_block_start","index":3,"content_block":{"type":"from_the_future"}}"#,
            r#"{"type":"content_block_start","index":4,"content_block":{"type":"text","text":""}}"#,
            r#"{"type":"content_block_delta","index":4,"delta":{"type":"text_delta","text":"Hi"}}"#,
            r#"{"type":"content_block_start","index":5,"content_block":{"type":"tool_use","id":"a","name":"read","input":{}}}"#,
            r#"{"type":"content_block_start","index":6,"content_block":{"type":"tool_use","id":"b","name":"ls","input":{"q":1}}}"#,
            r#"{"type":"content_block_delta","index":5,"delta":{"type":"input_json_delta","partial_json":"{\"p\":"}}"#,
            r#"{"type":"content_block_delta","index":5,"delta":{"type":"input_json_delta","partial_json":"1}"}}"#,
            r#"{"type":"content_block_stop","index":5}"#,
            r#"{"type":"content_block_stop","index":6}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":20}}"#,
            r#"{"type":"message_stop"}"#,
        ]);
        assert_eq!(last, Ok(Progress::Complete(Stop::ToolUse)));
        let message = Json::of(&Message::Assistant(Box::new(answer.finish(Stop::ToolUse)))).unwrap();
        assert_eq!(
            message.as_str(),
            concat!(
                r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm","thinkingSignature":"sign"},"#,
                r#"{"type":"thinking","thinking":"","thinkingSignature":"xyz","redacted":true},{"type":"text","text":"Hi"},"#,
                r#"{"type":"toolCall","id":"a","name":"read","arguments":{"p":1}},{"type":"toolCall","id":"b","name":"ls","arguments":{"q":1}}],"#,
                r#""api":"anthropic-messages","provider":"p","model":"m","usage":{"input":10,"output":20,"cacheRead":7,"cacheWrite":3,"totalTokens":40,"#,
                r#""cost":{"input":0.00001,"output":0,"cacheRead":0,"cacheWrite":0,"total":0.00001}},"stopReason":"toolUse","timestamp":5,"responseId":"msg_1"}"#
            )
        );
        assert_eq!(events[1], StreamEvent::TextDelta { index: 2, text: "Hi".into() });
    }

    #[test]
    fn the_input_of_a_beginning_gives_way_to_what_follows() {
        let (answer, _, _) = decode(&[
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"r","input":{"old":1}}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"new\":2}"}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
        ]);
        let message = answer.finish(Stop::ToolUse);
        assert_eq!(message.tool_calls().map(|call| call.arguments.as_str()).collect::<Vec<_>>(), [r#"{"new":2}"#]);
    }

    #[test]
    fn stop_reasons_are_mapped() {
        let stop = |reason: &str| {
            let delta = format!(r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}"}},"usage":{{}}}}"#);
            decode(&[&delta, r#"{"type":"message_stop"}"#]).2
        };
        assert_eq!(stop("end_turn"), Ok(Progress::Complete(Stop::Ended)));
        assert_eq!(stop("stop_sequence"), Ok(Progress::Complete(Stop::Ended)));
        assert_eq!(stop("max_tokens"), Ok(Progress::Complete(Stop::Length)));
        let refusal = r#"{"type":"message_delta","delta":{"stop_reason":"refusal"}}"#;
        assert_eq!(decode(&[refusal]).2, Err(Fault::Withheld("refusal".into())));
    }

    #[test]
    fn errors_and_junk_end_the_answer() {
        assert!(matches!(decode(&[r#"{"type":"error","error":{"type":"overloaded_error"}}"#]).2, Err(Fault::Complaint(_))));
        assert!(matches!(decode(&[r#"{"error":{"message":"m"}}"#]).2, Err(Fault::Complaint(_))));
        for junk in ["", "{", "[]", "{}", "data"] {
            assert!(matches!(decode(&[junk]).2, Err(Fault::Malformed(_))), "{junk}");
        }
    }
}
