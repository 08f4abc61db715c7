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

#[test]
fn a_result_belongs_to_the_latest_call_of_its_id_even_a_failed_one() {
    let failed = CALL_1.replace("\"content\"", "\"stopReason\":\"error\",\"content\"");
    plain(&[CALL_1, &failed, RESULT_1], "a(1) r!1");
}

#[test]
fn after_compaction_the_request_has_the_summary_at_least() {
    plain(&[r#"{"role":"compactionSummary","summary":""}"#, RESULT_1], &format!("user:{}", describe_compaction("")));
}

#[test]
fn what_no_provider_knows_is_dropped() {
    plain(&[r#"{"role":"martian","content":"x"}"#, "7", r#"{"role":"user","content":5}"#, USER], "user:u");
    plain(&[r#"{"role":"bashExecution","command":"ls","output":"o","excludeFromContext":true}"#, USER], "user:u");
}

/// What a provider gets of one message of the session's own kind, as text.
fn words(line: &str) -> String {
    let message = Message::from_json(Json::parse(line).expect(line));
    let Some(Message::User(user)) = to_request_message(message) else { panic!("{line} is for a provider one of the user") };
    assert_eq!(user.timestamp, Some(5), "{line}");
    match user.content.expect(line) {
        Content::Blocks(blocks) => blocks.iter().filter_map(Block::as_text).collect::<Vec<_>>().join("|"),
        Content::Text(text) => panic!("{text:?} is no block"),
    }
}

#[test]
fn custom_messages_are_those_of_the_user_as_they_are() {
    assert_eq!(words(r#"{"role":"custom","content":"c","display":false,"details":1,"timestamp":5}"#), "c");
    assert_eq!(
        words(
            r#"{"role":"custom","content":[{"type":"text","text":"a"},{"type":"image","data":"A","mimeType":"i/p"},{"type":"text","text":"b"}],"timestamp":5}"#
        ),
        "a|b"
    );
    assert_eq!(words(r#"{"role":"custom","timestamp":5}"#), "");
}

#[test]
fn summaries_stand_whole_in_words_that_say_what_they_are() {
    let branch = words(r#"{"role":"branchSummary","summary":"</summary> & <b>\n","timestamp":5}"#);
    assert!(branch.contains("another branch") && branch.contains("</summary> & <b>\n"), "{branch}");
    let compaction = words(r#"{"role":"compactionSummary","summary":"</summary> & <b>\n","timestamp":5}"#);
    assert!(compaction.contains("compacted") && compaction.contains("</summary> & <b>\n"), "{compaction}");
}

#[test]
fn commands_say_what_ran_and_how_it_ended() {
    let check = |fields: &str, expect: &str| {
        let run = words(&format!(r#"{{"role":"bashExecution","command":"make -j",{fields},"timestamp":5}}"#));
        let end = run.strip_prefix("The user ran this command:\n```\nmake -j\n```\n").expect(&run);
        assert_eq!(end, expect);
    };
    check(r#""output":"ok\n","exitCode":0"#, "It printed:\n```\nok\n\n```");
    check(r#""output":"""#, "It printed nothing.");
    check(r#""output":"","exitCode":2"#, "It printed nothing.\nIt ended with exit code 2.");
    check(r#""output":"","exitCode":2,"cancelled":true"#, "It printed nothing.\nThe user stopped it.");
    check(
        r#""output":"x","truncated":true,"fullOutputPath":"/t/o""#,
        "It printed:\n```\nx\n```\nThe output is cut here; all of it is in /t/o",
    );
    check(r#""output":"x","truncated":false,"fullOutputPath":"/t/o""#, "It printed:\n```\nx\n```");
}

/// A request for calls with these results, as `tool name, text`, made small in one way; shows their texts.
fn shrunk(options: RequestOptions, results: &[(&str, String)]) -> Vec<String> {
    let mut context = Vec::new();
    for (at, (tool, text)) in results.iter().enumerate() {
        let call = format!(r#"{{"role":"assistant","content":[{{"type":"toolCall","id":"{at}","name":"{tool}"}}]}}"#);
        let mut result = interrupted_result(&at.to_string(), tool, None);
        if let Message::ToolResult(result) = &mut result {
            let image = Json::parse(r#"{"type":"image","data":"A","mimeType":"i/p"}"#).expect("JSON");
            let image = Json::of(&[image]).expect("JSON").to::<Content>().expect("an image");
            result.content = Some(Content::Blocks([vec![Block::text(text.clone())], image.to_blocks()].concat()));
        }
        let call = Message::from_json(Json::parse(&call).expect("JSON"));
        context.extend([call, result].map(|message| ProjectedMessage { message, source: None }));
    }
    let request = build_request(context, options);
    let results = request.messages.iter().filter(|projected| result_call_id(&projected.message).is_some());
    results.map(|projected| projected.message.text()).collect()
}

#[test]
fn micro_compaction_leaves_the_latest_three_and_what_was_read() {
    let options = RequestOptions { micro_compaction: true, truncation: false };
    let (long, short) = ("é".repeat(101), "é".repeat(100));
    let results = [("bash", &long), ("read", &long), ("bash", &short), ("ls", &long), ("a", &long), ("b", &long), ("c", &long)];
    let results = results.map(|(tool, text)| (tool, text.clone()));
    let mut expect: Vec<_> = results.iter().map(|(_, text)| text.clone()).collect();
    assert_eq!(shrunk(RequestOptions::default(), &results), expect);
    expect[0] = "Previous: used bash".to_owned();
    expect[3] = "Previous: used ls".to_owned();
    assert_eq!(shrunk(options, &results), expect);
    assert_eq!(shrunk(options, &results[4..]), expect[4..]);
}

#[test]
fn truncation_keeps_both_ends_of_a_long_result() {
    let options = RequestOptions { micro_compaction: false, truncation: true };
    let whole = "é".repeat(8_000);
    assert_eq!(shrunk(options, &[("bash", whole.clone())]), [whole]);
    let long = format!("{}{}{}", "é".repeat(4_000), "x", "ü".repeat(4_000));
    let cut = format!("{}\n[1 characters cut from the middle of this result]\n{}", "é".repeat(4_000), "ü".repeat(4_000));
    let results = [("read", long.clone())];
    assert_eq!(shrunk(options, &results), std::slice::from_ref(&cut));
    assert_eq!(shrunk(RequestOptions::default(), &results), std::slice::from_ref(&long));
    // The image beside the text stays.
    let mut result = ToolResultMessage {
        content: Json::parse(&format!(r#"[{{"type":"text","text":"{long}"}},{{"type":"image","data":"A","mimeType":"i/p"}}]"#))
            .expect("JSON")
            .to(),
        ..ToolResultMessage::default()
    };
    truncate_result(&mut result);
    let content = result.content.expect("content");
    assert_eq!((content.blocks().len(), content.joined_text()), (2, cut));
}

/// Replays `system` messages and shows `prompt / tools`.
fn check_system(lines: &[&str], expect: &str) {
    let context =
        lines.iter().map(|line| ProjectedMessage { message: Message::from_json(Json::parse(line).expect(line)), source: None });
    let request = build_request(context.collect(), RequestOptions::default());
    assert!(request.messages.is_empty(), "the prompt stands apart");
    let show = |system: &SystemReplay| {
        let tools = system.tools().map(Json::as_str).collect::<Vec<_>>().join(" ");
        format!("{} / {tools}", system.prompt().unwrap_or("none".to_owned()))
    };
    assert_eq!(show(&request.system), expect, "{lines:?}");

    // One message that holds the state gives the same.
    let mut again = SystemReplay::default();
    if let Some(message) = request.system.to_message(0) {
        again.apply(&message);
    }
    assert_eq!(show(&again), expect, "{lines:?}");
}

#[test]
fn the_system_prompt_is_replayed() {
    let first = r#"{"role":"system","content":"one","sections":{"b":"B","a":"A"},"toolsAdded":[{"name":"x"},{"name":"y"}]}"#;
    check_system(&[], "none / ");
    check_system(&[r#"{"role":"system"}"#], "none / ");
    check_system(&[first], "one\n\nB\n\nA / {\"name\":\"x\"} {\"name\":\"y\"}");
    // Contents are added; sections are patched in place, and null removes one.
    check_system(
        &[first, r#"{"role":"system","content":"two","sections":{"c":"C","b":"B2"}}"#],
        "one\n\ntwo\n\nB2\n\nA\n\nC / {\"name\":\"x\"} {\"name\":\"y\"}",
    );
    check_system(
        &[first, r#"{"role":"system","content":"","sections":{"b":null}}"#],
        "one\n\nA / {\"name\":\"x\"} {\"name\":\"y\"}",
    );
    // One that was removed and comes again stands last; what is neither text nor null says nothing.
    check_system(
        &[first, r#"{"role":"system","sections":{"b":null,"c":null}}"#, r#"{"role":"system","sections":{"b":"B2","a":7}}"#],
        "one\n\nA\n\nB2 / {\"name\":\"x\"} {\"name\":\"y\"}",
    );
    // What is removed goes before what is added.
    check_system(
        &[
            first,
            r#"{"role":"system","toolsAdded":[{"name":"x","n":2},{"name":"z"}],"toolsRemoved":[{"name":"x"},{"name":"gone"}]}"#,
        ],
        "one\n\nB\n\nA / {\"name\":\"y\"} {\"name\":\"x\",\"n\":2} {\"name\":\"z\"}",
    );
}
