//! Requests, from contexts written as JSON.

use super::*;

/// Builds the request for messages given as JSON lines and shows it as `role:text` words.
fn check(options: RequestOptions, lines: &[&str], expect: &str) {
    let context =
        lines.iter().map(|line| ProjectedMessage { message: Message::from_json(Json::parse(line).expect(line)), source: None });
    let request = build_request(context.collect(), options);
    let show = |projected: &ProjectedMessage| match &projected.message {
        Message::Assistant(message) => {
            format!("a({})", message.tool_calls().map(|call| call.id.as_str()).collect::<Vec<_>>().join(","))
        }
        Message::ToolResult(result) if result.is_error == Some(true) => format!("r!{}", result.tool_call_id),
        Message::ToolResult(result) => format!("r{}", result.tool_call_id),
        other => format!("{}:{}", other.role().as_wire(), other.text()),
    };
    assert_eq!(request.messages.iter().map(show).collect::<Vec<_>>().join(" "), expect);
}

const CALL_1: &str = r#"{"role":"assistant","content":[{"type":"toolCall","id":"1","name":"bash","arguments":{}}]}"#;
const CALL_1_2: &str = r#"{"role":"assistant","content":[{"type":"toolCall","id":"1","name":"bash","arguments":{}},{"type":"toolCall","id":"2","name":"bash","arguments":{}}]}"#;
const RESULT_1: &str = r#"{"role":"toolResult","toolCallId":"1","toolName":"bash","content":[]}"#;
const RESULT_2: &str = r#"{"role":"toolResult","toolCallId":"2","toolName":"bash","content":[]}"#;
const USER: &str = r#"{"role":"user","content":"u"}"#;

fn plain(lines: &[&str], expect: &str) {
    check(RequestOptions::default(), lines, expect);
}

#[test]
fn results_follow_their_calls() {
    plain(&[USER, CALL_1, RESULT_1], "user:u a(1) r1");
    plain(&[CALL_1, USER, RESULT_1], "a(1) r1 user:u");
    plain(&[CALL_1_2, RESULT_2, USER, RESULT_1], "a(1,2) r2 r1 user:u");
}

#[test]
fn orphan_and_second_results_go() {
    plain(&[RESULT_1, USER], "user:u");
    plain(&[CALL_1, RESULT_1, RESULT_1, USER], "a(1) r1 user:u");
    plain(&[USER, RESULT_2], "user:u");
}

#[test]
fn open_calls_are_answered() {
    plain(&[CALL_1_2, RESULT_2, USER], "a(1,2) r2 r!1 user:u");
    plain(&[CALL_1], "a(1) r!1");
}

#[test]
fn providers_that_reuse_call_ids_are_paired_too() {
    plain(&[CALL_1, RESULT_1, CALL_1, RESULT_1], "a(1) r1 a(1) r1");
    plain(&[CALL_1, CALL_1, RESULT_1], "a(1) r!1 a(1) r1");
}

#[test]
fn failed_answers_go_with_the_results_of_their_calls() {
    let failed = CALL_1.replace("\"content\"", "\"stopReason\":\"aborted\",\"content\"");
    plain(&[USER, &failed, RESULT_1], "user:u");
}
