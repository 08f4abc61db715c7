//! The chunks of a streamed chat completion.
//!
//! # Invariants
//! - A field of another type than expected is as if it were absent; only data that is no object is malformed.
//! - A piece of a call goes to the call that its index and its id name; some servers give only one of them.

use std::collections::VecDeque;

use crate::llm::StreamEvent;
use crate::llm::answer::{Answer, Stop};
use crate::llm::talk::{Decode, Fault, Progress};
use crate::session::json::{Fields, Json};
use crate::session::message::Usage;

use super::wire::THINKING_FIELDS;

/// Reads chunks.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    slots: Vec<Slot>,
    stop: Option<Stop>,
}

/// A tool call that is being received.
#[derive(Debug)]
struct Slot {
    index: Option<u64>,
    id: String,
    block: usize,
}

impl Decode for Chunks {
    fn decode(&mut self, data: &str, answer: &mut Answer, out: &mut VecDeque<StreamEvent>) -> Result<Progress, Fault> {
        if data.trim() == "[DONE]" {
            return Ok(match self.stop {
                Some(stop) => Progress::Complete(stop),
                // Some servers never say why they stopped; but an answer of nothing at all is none.
                None if answer.is_empty() => Progress::Going,
                None => Progress::Complete(Stop::Ended),
            });
        }
        let chunk = Fields::parse(data).map_err(|_| Fault::Malformed("an event that is no JSON object"))?;
        if chunk.has("error") {
            return Err(Fault::Complaint(data.to_owned()));
        }
        if answer.response_id.is_none() {
            answer.response_id = chunk.get("id");
        }
        let choices = chunk.get::<Vec<Json>>("choices").unwrap_or_default();
        let choice = choices.first().and_then(Json::fields).unwrap_or_default();
        for holder in [&choice, &chunk] {
            if let Some(usage) = holder.text("usage").and_then(|text| Fields::parse(text).ok()) {
                answer.usage = read_usage(&usage);
            }
        }
        if let Some(delta) = choice.text("delta").and_then(|text| Fields::parse(text).ok()) {
            self.delta(&delta, answer, out);
        }
        match choice.get::<String>("finish_reason").as_deref() {
            Some("length" | "model_length") => self.stop = Some(Stop::Length),
            Some("tool_calls" | "function_call") => self.stop = Some(Stop::ToolUse),
            Some("content_filter") => return Err(Fault::Withheld("content_filter".to_owned())),
            Some("error") => return Err(Fault::Complaint(data.to_owned())),
            Some("") | None => {}
            Some(_) => self.stop = Some(Stop::Ended),
        }
        Ok(Progress::Going)
    }

    fn stop(&self) -> Option<Stop> {
        self.stop
    }
}

impl Chunks {
    fn delta(&mut self, delta: &Fields<'_>, answer: &mut Answer, out: &mut VecDeque<StreamEvent>) {
        // Some servers send the same thinking in two fields, so only the first counts.
        let thinking = THINKING_FIELDS.iter().find_map(|field| {
            let text = delta.get::<String>(field).filter(|text| !text.is_empty())?;
            Some((*field, text))
        });
        if let Some((field, text)) = thinking {
            out.extend(answer.append_thinking(&text, field));
        }
        for field in ["content", "refusal"] {
            if let Some(text) = delta.get::<String>(field) {
                out.extend(answer.append_text(&text));
            }
        }
        for piece in delta.get::<Vec<Json>>("tool_calls").unwrap_or_default() {
            if let Some(piece) = piece.fields() {
                self.call(&piece, answer, out);
            }
        }
    }

    fn call(&mut self, piece: &Fields<'_>, answer: &mut Answer, out: &mut VecDeque<StreamEvent>) {
        let index = piece.get::<u64>("index");
        let id = piece.get::<String>("id").unwrap_or_default();
        let function = piece.text("function").and_then(|text| Fields::parse(text).ok()).unwrap_or_default();
        let name = function.get::<String>("name").unwrap_or_default();
        let slot = self.slots.iter_mut().rev().find(|slot| {
            let is_index = index.is_none() || slot.index == index;
            let is_id = id.is_empty() || slot.id == id || (slot.id.is_empty() && index.is_some());
            is_index && is_id
        });
        // Without an index and an id a name begins a new call, and anything else goes on with the last.
        let slot = slot.filter(|_| index.is_some() || !id.is_empty() || name.is_empty());
        let block = match slot {
            Some(slot) => {
                if slot.id.is_empty() {
                    slot.id = id;
                }
                answer.name_call(slot.block, &name);
                slot.block
            }
            None => {
                let (block, event) = answer.push_call(&id, &name);
                out.push_back(event);
                self.slots.push(Slot { index, id, block });
                block
            }
        };
        // Arguments are JSON text; a few servers send the object itself.
        let arguments = match function.get::<String>("arguments") {
            Some(text) => text,
            None => function.text("arguments").filter(|text| text.starts_with('{')).unwrap_or_default().to_owned(),
        };
        out.extend(answer.append(block, &arguments));
    }
}

/// The counts of a chunk, with what came from and went to a cache taken out of the prompt.
fn read_usage(usage: &Fields<'_>) -> Usage {
    let count = |fields: &Fields<'_>, key: &str| fields.get::<u64>(key).unwrap_or(0);
    let details = |key: &str| usage.text(key).and_then(|text| Fields::parse(text).ok()).unwrap_or_default();
    let (prompt, completion) = (details("prompt_tokens_details"), details("completion_tokens_details"));
    let cache_read = match count(&prompt, "cached_tokens") {
        0 => count(usage, "prompt_cache_hit_tokens"),
        cached => cached,
    };
    let cache_write = count(&prompt, "cache_write_tokens");
    let mut read = Usage {
        input: count(usage, "prompt_tokens").saturating_sub(cache_read).saturating_sub(cache_write),
        output: count(usage, "completion_tokens"),
        cache_read,
        cache_write,
        total_tokens: usage.get("total_tokens"),
        ..Usage::default()
    };
    let reasoning = count(&completion, "reasoning_tokens");
    if reasoning > 0 {
        read.extra.set("reasoning", Json::of(&reasoning).expect("a number is JSON"));
    }
    read
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::{Model, Prices, Request};
    use crate::session::message::{AssistantMessage, Message};

    fn read(chunks: &[&str]) -> (AssistantMessage, Vec<StreamEvent>) {
        let model = Model {
            provider: "p".into(),
            id: "m".into(),
            api: super::super::API.into(),
            context_window: 1,
            max_tokens: None,
            prices: Prices { input: 1.0, output: 2.0, cache_read: 0.5, cache_write: 0.0 },
        };
        let mut answer = Answer::new(super::super::API, &Request::new(model, Vec::new(), 5));
        let (mut decoder, mut out) = (Chunks::default(), VecDeque::new());
        for chunk in chunks {
            if let Progress::Complete(stop) = decoder.decode(chunk, &mut answer, &mut out).expect(chunk) {
                return (answer.finish(stop), out.into());
            }
        }
        (answer.finish(decoder.stop().expect("a stop")), out.into())
    }

    fn json(message: AssistantMessage) -> String {
        Json::of(&Message::Assistant(Box::new(message))).unwrap().as_str().to_owned()
    }

    #[test]
    fn thinking_text_and_usage_become_a_message() {
        let (message, events) = read(&[
            r#"{"id":"r1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#,
            r#"{"choices":[{"delta":{"reasoning_content":"h"}}]}"#,
            r#"{"choices":[{"delta":{"reasoning_content":"m","content":null}}]}"#,
            r#"{"choices":[{"delta":{"content":"Hel"}}]}"#,
            r#"{"choices":[{"delta":{"content":"lo"}}]}"#,
            r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":10,"total_tokens":110,"prompt_tokens_details":{"cached_tokens":60},"completion_tokens_details":{"reasoning_tokens":4}}}"#,
            "[DONE]",
        ]);
        assert_eq!(
            json(message),
            concat!(
                r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm","thinkingSignature":"reasoning_content"},{"type":"text","text":"Hello"}],"#,
                r#""api":"openai-completions","provider":"p","model":"m","usage":{"input":40,"output":10,"cacheRead":60,"cacheWrite":0,"totalTokens":110,"#,
                r#""cost":{"input":0.00004,"output":0.00002,"cacheRead":0.00003,"cacheWrite":0,"total":0.00009},"reasoning":4},"stopReason":"stop","timestamp":5,"responseId":"r1"}"#
            )
        );
        let text = |index, text: &str| StreamEvent::TextDelta { index, text: text.into() };
        assert_eq!(events[2..], [text(1, "Hel"), text(1, "lo")]);
    }

    fn calls(chunks: &[&str]) -> Vec<(String, String, String)> {
        let (message, _) = read(chunks);
        assert_eq!(message.stop_reason.as_deref(), Some("toolUse"));
        message.tool_calls().map(|call| (call.id.clone(), call.name.clone(), call.arguments.as_str().to_owned())).collect()
    }

    fn call(id: &str, name: &str, arguments: &str) -> (String, String, String) {
        (id.to_owned(), name.to_owned(), arguments.to_owned())
    }

    #[test]
    fn parallel_calls_are_put_together_from_interleaved_pieces() {
        let got = calls(&[
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":""}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"ls","arguments":"{\"x\""}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"p\":1}"}},{"index":1,"function":{"arguments":":2}"}}]}}]}"#,
            r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
        ]);
        assert_eq!(got, [call("a", "read", r#"{"p":1}"#), call("b", "ls", r#"{"x":2}"#)]);
    }

    #[test]
    fn calls_of_servers_that_leave_out_ids_or_indices_are_told_apart() {
        let same_index = calls(&[
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"r","arguments":"{}"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"b","function":{"name":"r","arguments":"{}"}}]},"finish_reason":"stop"}]}"#,
        ]);
        assert_eq!(same_index, [call("a", "r", "{}"), call("b", "r", "{}")]);
        let late_id = calls(&[
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"r","arguments":"{"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"}"}}]},"finish_reason":"stop"}]}"#,
        ]);
        assert_eq!(late_id, [call("call_5_0", "r", "{}")]);
        let neither = calls(&[
            r#"{"choices":[{"delta":{"tool_calls":[{"function":{"name":"r","arguments":{"a":1}}},{"function":{"name":"r","arguments":"{\"a\":"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"2}"}}]},"finish_reason":"stop"}]}"#,
        ]);
        assert_eq!(neither, [call("call_5_0", "r", r#"{"a":1}"#), call("call_5_1", "r", r#"{"a":2}"#)]);
    }

    #[test]
    fn arguments_that_are_not_json_do_not_lose_the_call() {
        let got = calls(&[
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"r","arguments":"{oops"}}]},"finish_reason":"tool_calls"}]}"#,
        ]);
        assert_eq!(got, [call("a", "r", r#""{oops""#)]);
    }

    #[test]
    fn a_stop_for_length_stays_one_with_calls() {
        let (message, _) = read(&[
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"r","arguments":"{\"a"}}]},"finish_reason":"length"}]}"#,
        ]);
        assert_eq!(message.stop_reason.as_deref(), Some("length"));
    }

    #[test]
    fn errors_filters_and_junk_end_the_answer() {
        let fault = |data: &str| {
            let model = Model {
                provider: "p".into(),
                id: "m".into(),
                api: String::new(),
                context_window: 1,
                max_tokens: None,
                prices: Prices::default(),
            };
            let mut answer = Answer::new("x", &Request::new(model, Vec::new(), 0));
            Chunks::default().decode(data, &mut answer, &mut VecDeque::new()).expect_err(data)
        };
        assert!(matches!(fault(r#"{"error":{"message":"m"}}"#), Fault::Complaint(_)));
        assert!(matches!(fault(r#"{"choices":[{"delta":{},"finish_reason":"content_filter"}]}"#), Fault::Withheld(_)));
        for junk in ["", "{", "[]", "null", "<html>"] {
            assert!(matches!(fault(junk), Fault::Malformed(_)), "{junk}");
        }
    }
}
