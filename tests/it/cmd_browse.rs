//! `browse`: what the screen shows after keys, and the real command on a terminal.

use std::fs;
use std::path::{Path, PathBuf};

use insta::assert_snapshot;

use crate::support::cli::{CWD, DEMO, TestEnv};
use crate::support::screen::Screen;

fn user(id: &str, parent: &str, text: &str) -> String {
    let parent = if parent.is_empty() { "null".to_owned() } else { format!("{parent:?}") };
    let text = serde_json::to_string(text).expect("text");
    format!(
        r#"{{"type":"message","id":"{id}","parentId":{parent},"timestamp":"2026-11-30T10:00:00.000Z","message":{{"role":"user","content":{text},"timestamp":1796032800000}}}}"#
    )
}

fn answer(id: &str, parent: &str, text: &str) -> String {
    let text = serde_json::to_string(text).expect("text");
    format!(
        r#"{{"type":"message","id":"{id}","parentId":"{parent}","timestamp":"2026-11-30T10:00:01.000Z","message":{{"role":"assistant","content":[{{"type":"text","text":{text}}}],"api":"x","provider":"mock","model":"mock-1","usage":{{"input":1,"output":1,"cacheRead":0,"cacheWrite":0,"totalTokens":2,"cost":{{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}}},"stopReason":"stop","timestamp":1796032801000}}}}"#
    )
}

/// A conversation of as many turns as there are words, the first entry `u1`.
fn turns(words: &[&str]) -> String {
    let mut lines = Vec::new();
    let mut parent = String::new();
    for (at, word) in words.iter().enumerate() {
        let (u, a) = (format!("u{}", at + 1), format!("a{}", at + 1));
        lines.push(user(&u, &parent, &format!("Ask about {word}")));
        lines.push(answer(&a, &u, &format!("About {word}.")));
        parent = a;
    }
    lines.join("\n")
}

const DEMO_ID: &str = "019ad3c5-aaaa-7000-8000-000000000001";

/// Three sessions of this folder and one of another.
fn several() -> TestEnv {
    let env = TestEnv::new();
    env.session(DEMO_ID, DEMO);
    env.session("019ad3c6-bbbb-7000-8000-000000000002", &turns(&["parsers", "lexers"]));
    env.session("019ad3c6-cccc-7000-8000-000000000003", &turns(&["日本語の質問です。とても長いので切られます。"]));
    env.session_of("other", "/home/me/other", &turns(&["zebras"]));
    env
}

fn demo() -> (TestEnv, Screen) {
    let env = several();
    let mut screen = Screen::open(env.browser(80, 24));
    screen.press("Down Down");
    (env, screen)
}

#[test]
fn the_screen_shows_sessions_the_tree_and_the_text() {
    let (_env, mut screen) = demo();
    assert_snapshot!(screen.text(), @r#"
═ Sessions this folder: 3 ══════│─ Login bug conversation ──────────────────────
  Ask about parsers     1h  1.3K│ its folder is gone · 8 messages · 2 branches…
  Ask about 日本語の…   1h  826B│ * user: Fix the login bug
> Login bug             2h  3.1K│ * assistant: The function is empt… [diagnosis]
                                │ ├─o user: Write it
                                │ │ o assistant: Written.
                                │ * user: Write a test first
                                │ * assistant: Here is a test.
                                │>* session_info: Login bug (leaf)
                                │
                                │
                                │
                                │
─ Text session_info n1 · 2026-11-30 09:32 · t unfolds > ────────────────────────
 > session_info Login bug  (JSON)







Enter resume  / search titles  w search all texts  Tab next pane  f fork
a all folders  m named  r rename  d delete  u undo delete  ? all keys  q quit
"#);
    screen.press("Tab Home Down Down");
    assert_snapshot!(screen.text(), @r#"
─ Sessions this folder: 3 ──────│═ Login bug conversation ══════════════════════
  Ask about parsers     1h  1.3K│ its folder is gone · 8 messages · 2 branches…
  Ask about 日本語の…   1h  826B│ * user: Fix the login bug
> Login bug             2h  3.1K│ * assistant: The function is empt… [diagnosis]
                                │>├─o user: Write it
                                │ │ o assistant: Written.
                                │ * user: Write a test first
                                │ * assistant: Here is a test.
                                │ * session_info: Login bug (leaf)
                                │
                                │
                                │
                                │
─ Text user u2 · 2026-11-30 09:00 ──────────────────────────────────────────────
 Write it







Enter resume here  / find in session  w search all texts  Tab next pane
b back a turn  g go here  s go with summary  f fork  l label  ? all keys  q quit
"#);
    assert!(!screen.has_colors());
}

#[test]
fn a_word_said_is_found_and_leads_back_three_turns_and_on() {
    let env = several();
    let words = ["one", "two", "three", "quagga", "five"];
    let path = env.session_of("long", "/home/me/other", &turns(&words));
    let mut screen = Screen::open(env.browser(80, 24));
    // The keys on the screen are all that is needed.
    assert!(screen.text().contains("w search all texts"));
    screen.press("w").write("quagga").press("Enter");
    assert!(screen.text().contains("nobody said \"quagga\" in this folder; a looks in all folders"), "{}", screen.text());
    screen.press("a");
    assert_snapshot!(screen.text(), @r#"
═ Said "quagga" all folders: 2 ═│─ Ask about one conversation ──────────────────
> Ask about one               1h│ its folder is gone · 10 messages · 2.9 KB · /…
  assistant: About «quagga».    │ * user: Ask about one
  Ask about one               2h│ * assistant: About one.
  user: Ask about «quagga»      │ * user: Ask about two
                                │ * assistant: About two.
                                │ * user: Ask about three
                                │ * assistant: About three.
                                │ * user: Ask about quagga
                                │>* assistant: About quagga.
                                │ * user: Ask about five
                                │ * assistant: About five. (leaf)
                                │
─ Text assistant a4 · 2026-11-30 10:00 · mock-1 · 2 tokens ─────────────────────
 About quagga.






2 entries with "quagga"; Esc shows the sessions again
Enter show in its tree  / search titles  w search all texts  Tab next pane
f fork  a all folders  m named  r rename  d delete  ? all keys  q quit
"#);
    screen.press("Enter");
    assert!(screen.row_with("│>").contains(">* assistant: About quagga."));
    screen.press("End b b b");
    assert!(screen.row_with("Ask about three").contains('>'), "{}", screen.text());
    // The folder of that session is gone; one is asked before another one is worked in.
    screen.press("Enter");
    assert!(screen.text().contains("The folder of the session is gone. Go on in /home/me/project?"), "{}", screen.text());
    screen.press("n");
    assert_eq!((screen.browser.take_outside(), screen.text().contains("not resumed")), (None, true));
    screen.press("Enter y");
    assert_eq!(screen.browser.take_outside(), Some(format!("resume {} u3 here", path.display())));
}

#[test]
fn enter_waits_for_a_session_that_is_not_open_yet() {
    let env = several();
    let mut screen = Screen::open(env.browser(80, 24));
    let gone = "The folder of the session is gone.";
    screen.press_at_once("Down Enter");
    assert_eq!(screen.browser.take_outside(), None);
    assert!(screen.text().contains(gone), "{}", screen.text());
    screen.press("n").press_at_once("Down Enter Up");
    assert!(!screen.text().contains(gone), "another one was selected: {}", screen.text());
    assert_eq!(screen.browser.take_outside(), None);
}

#[test]
fn typing_narrows_the_list_and_esc_shows_all_again() {
    let env = several();
    let mut screen = Screen::open(env.browser(80, 24));
    screen.press("/").write("lgn bug");
    assert_snapshot!(screen.text(), @r#"
─ Sessions "lgn bug": 1 ────────│─ Login bug conversation ──────────────────────
> Login bug             2h  3.1K│ its folder is gone · 8 messages · 2 branches…
                                │ * user: Fix the login bug
                                │ * assistant: The function is empt… [diagnosis]
                                │ ├─o user: Write it
                                │ │ o assistant: Written.
                                │ * user: Write a test first
                                │ * assistant: Here is a test.
                                │>* session_info: Login bug (leaf)
                                │
                                │
                                │
                                │
─ Text session_info n1 · 2026-11-30 09:32 · t unfolds > ────────────────────────
 > session_info Login bug  (JSON)






Search titles: lgn bug
type to search  Up Down select  Enter done  Tab see the tree  Esc show all
"#);
    screen.press("Esc");
    assert!(screen.text().contains("this folder: 3"));
    screen.press("a");
    assert!(screen.text().contains("all folders: 4") && screen.text().contains("zebras"));
    screen.press("m");
    assert!(screen.text().contains("all folders, named: 1"));
    // What no title says may have been said: Enter goes on with the same words.
    screen.press("/").write("zebras about");
    assert!(screen.text().contains("no title matches") && screen.text().contains("Enter search all that was said"));
    screen.press("m Enter");
    assert!(screen.text().contains("nobody said \"zebras aboutm\""), "{}", screen.text());
    screen.press("Enter");
    assert!(screen.text().contains("nothing was found; Esc shows the sessions again"));
    screen.press("Esc /").write("zebras tell").press("Backspace Backspace Backspace Backspace Enter");
}

#[test]
fn the_picker_types_at_once_and_enter_resumes() {
    let env = several();
    let mut screen = Screen::open(pi_sessions::cli::browse::BrowserOptions { is_picker: true, ..env.browser(80, 24) });
    screen.write("login").press("Enter y");
    let outside = screen.browser.take_outside().expect("a session");
    assert!(outside.starts_with("resume ") && outside.contains(DEMO_ID), "{outside}");
}

#[test]
fn the_tree_shows_what_one_wants_and_folds() {
    let (_env, mut screen) = demo();
    screen.press("Tab v");
    assert_snapshot!(screen.text(), @r#"
─ Sessions this folder: 3 ──────│═ Login bug all entries ═══════════════════════
  Ask about parsers     1h  1.3K│ its folder is gone · 8 messages · 2 branches…
  Ask about 日本語の…   1h  826B│ * model_change: mock/mock-1
> Login bug             2h  3.1K│ * user: Fix the login bug
                                │ * assistant: calls read
                                │ * toolResult read: fn login() { panic!() }
                                │ * assistant: The function is empt… [diagnosis]
                                │ ├─o user: Write it
                                │ │ o assistant: Written.
                                │ * user: Write a test first
                                │ * assistant: Here is a test.
                                │ * label: diagnosis
                                │>* session_info: Login bug (leaf)
─ Text session_info n1 · 2026-11-30 09:32 · t unfolds > ────────────────────────
 > session_info Login bug  (JSON)






the tree shows: all entries
Enter resume here  / find in session  w search all texts  Tab next pane
b back a turn  g go here  s go with summary  f fork  l label  ? all keys  q quit
"#);
    screen.press("v");
    let users = screen.text();
    assert!(users.contains("users only") && !users.contains("Here is a test") && users.contains("├─o user: Write it"), "{users}");
    screen.press("v");
    assert!(!screen.text().contains("Fix the login bug") && screen.row_with("[diagnosis]").contains("The function"));
    screen.press("v");
    assert!(screen.row_with("user: Write it").contains("├─o"));
    assert!(screen.text().contains("o assistant: Written."));
    screen.press("-");
    assert!(screen.row_with("user: Write it").contains("+1") && !screen.text().contains("Written."), "{}", screen.text());
    screen.press("Home Down Space");
    assert!(screen.text().contains("o assistant: Written."));
    // At the left end one comes to the sessions again.
    screen.press("Home Left");
    screen.press("d");
    assert!(screen.text().contains("Move to the trash? y yes, any other key no: Login bug"));
}

#[test]
fn tool_calls_are_one_line_until_they_are_unfolded() {
    let (_env, mut screen) = demo();
    screen.press("Tab v Home Down Down");
    assert!(screen.text().contains("> read login.rs  (3 lines)"), "{}", screen.text());
    assert!(screen.text().contains("> thought Look first.  (1 line)"));
    screen.press("t z Tab");
    assert_snapshot!(screen.text(), @r#"
═ Text assistant a1 · 2026-11-30 09:00 · mock-1 · 120 tokens · $0.0030 ═════════
 v thought Look first.  (1 line)
 Look first.
 v read login.rs  (3 lines)
   result:
   fn login() {
       panic!()
   }














Enter resume here  / find in session  w search all texts  Tab next pane
b back a turn  g go here  s go with summary  f fork  l label  ? all keys  q quit
"#);
}

#[test]
fn going_labelling_naming_and_forking_do_as_the_commands() {
    let (env, mut screen) = demo();
    let path = env.root().join(format!("--home-me-project--/2026-11-30T09-00-00-000Z_{DEMO_ID}.jsonl"));
    let lines = |path: &Path| fs::read_to_string(path).expect("the session").lines().count();
    screen.press("Tab l").write("a test").press("Enter");
    assert!(screen.text().contains("labelled: a test") && screen.row_with("[a test]").contains('>'), "{}", screen.text());
    screen.press("r Ctrl-U").write("Logging in").press("Enter");
    assert!(screen.text().contains("named: Logging in"));
    assert!(screen.row_with("conversation").contains("Logging in"), "{}", screen.text());
    assert_eq!(lines(&path), 14);
    screen.press("Home g");
    let told = "Enter edits this message and sends it again; the leaf is at m1, before it";
    assert!(screen.text().contains(told), "{}", screen.text());
    assert_eq!(env.run("show 019ad3c5 --json").stdout.matches(r#""leafId":"m1""#).count(), 1);
    assert_eq!(lines(&path), 15);
    screen.press("b f");
    assert!(screen.text().contains("forked"), "{}", screen.text());
    assert_eq!(env.run("list --json --empty").stdout.lines().count(), 4);
    // Nothing is changed by a line that was left.
    screen.press("r").write("x").press("Esc d n");
    assert_eq!(lines(&path), 15);
}

#[test]
fn what_is_deleted_after_a_yes_comes_back() {
    let (env, mut screen) = demo();
    screen.press("d x");
    assert!(screen.text().contains("not deleted: Login bug") && env.trash().names.is_empty());
    screen.press("d y");
    let gone = screen.text();
    assert!(gone.contains("in the trash; u brings it back: Login bug") && gone.contains("this folder: 2"), "{gone}");
    assert_eq!(env.trash().names.len(), 1);
    screen.press("u");
    let back = screen.text();
    assert!(back.contains("brought back from the trash") && back.contains("this folder: 3"), "{back}");
    assert!(screen.row_with("> Login bug").starts_with("> Login bug"));
    screen.press("u");
    assert!(screen.text().contains("nothing was deleted here yet"));
    env.trash().refuses = Some("the trash is full".into());
    screen.press("d y");
    assert!(screen.text().contains("! cannot move to the trash"), "{}", screen.text());
    assert!(screen.text().contains("this folder: 3"));
}

#[test]
fn text_ids_and_pages_go_out() {
    let (env, mut screen) = demo();
    screen.press("i");
    assert_eq!(screen.browser.take_copied().as_deref(), Some(DEMO_ID));
    screen.press("Tab Home y");
    assert_eq!(screen.browser.take_copied().as_deref(), Some("Fix the login bug"));
    let file = env.path().join("out.md");
    screen.press("e Ctrl-U").write(&file.to_string_lossy()).press("Enter");
    assert!(screen.text().contains("exported"), "{}", screen.text());
    assert!(fs::read_to_string(&file).expect("a file").contains("Fix the login bug"));
    screen.press("e Ctrl-U").write(&env.root().join("x.md").to_string_lossy()).press("Enter");
    assert!(screen.text().contains("! the folder of sessions is no place for exports"), "{}", screen.text());
}

#[test]
fn words_are_found_in_the_session() {
    let (_env, mut screen) = demo();
    screen.press("Tab /").write("TEST").press("Enter");
    assert!(screen.text().contains("1 of 2 with \"TEST\"") || screen.text().contains("2 of 2 with"), "{}", screen.text());
    assert!(screen.text().contains("? user: Write a test first"));
    screen.press("n");
    screen.press("/").write("nonsense").press("Enter");
    assert!(screen.text().contains("\"nonsense\" is not in this session; w looks in all"));
}

#[test]
fn turns_are_those_of_the_branch_that_one_is_in() {
    let (_env, mut screen) = demo();
    screen.press("Tab Home ]");
    assert!(screen.row_with("Write it").contains("│>"), "{}", screen.text());
    screen.press("]");
    assert!(screen.row_with("Write it").contains("│>") && screen.text().contains("this is the last turn here"));
    screen.press("End [");
    assert!(screen.row_with("Write a test first").contains("│>"), "{}", screen.text());
    screen.press("[");
    assert!(screen.row_with("user: Fix the login bug").contains("│>"), "{}", screen.text());
    screen.press("[");
    assert!(screen.text().contains("this is the first turn"));
}

#[test]
fn what_is_folded_stays_folded_when_others_write() {
    let (env, mut screen) = demo();
    let path = env.root().join(format!("--home-me-project--/2026-11-30T09-00-00-000Z_{DEMO_ID}.jsonl"));
    screen.press("Tab Home Down Down Left");
    assert!(!screen.text().contains("assistant: Written."), "{}", screen.text());
    let text = fs::read_to_string(&path).expect("the session");
    fs::write(&path, format!("{text}{}\n", user("u9", "n1", "And from elsewhere"))).expect("a file");
    screen.tick();
    assert!(screen.text().contains("And from elsewhere") && !screen.text().contains("assistant: Written."), "{}", screen.text());
}

#[test]
fn help_shows_every_key_and_small_screens_show_what_they_can() {
    let (_env, mut screen) = demo();
    screen.press("?");
    assert_snapshot!(screen.text(), @r#"
═ All keys rows 1 to 20 of 53, more below ══════════════════════════════════════
 Find a session by its name with /, or by a word said in it with w. Tab goes to
 its tree, b back turn by turn, and Enter goes on from there in a chat. Nothing
 is lost by going back.
 * is on the active path, o is not; + stands for folded branches, ? for what
 was found; the double line shows where the keys go. The leaf is the entry that
 the next message hangs from.

 Everywhere
  w                find words said in any session
  Tab              to the next pane: sessions, tree, text
  f                make a new session of the path to here
  r                rename the session; an empty name clears it
  d Del            move the session to the trash, after a question
  u                bring the session back that was deleted last
  e                write the session to a file: .html, .md, .json or .jsonl
  y                copy the entry's text, or the session's title
  i                copy the id of the entry or the session
  z                this pane on the whole screen, or all panes
  Up k             one up
  Down j           one down

Up Down scroll  any other key back
"#);
    screen.press("q");
    assert!(!screen.browser.has_ended());
    screen.resize(40, 12);
    assert_snapshot!(screen.text(), @r#"
═ Sessions this folder: 3 ══════════════
  Ask about parsers      1h  1.3K      -
  Ask about 日本語の…    1h  826B      -
> Login bug              2h  3.1K $0.005







Enter resume  ? all keys  q quit
"#);
    screen.press("Tab").resize(50, 20);
    assert_snapshot!(screen.text(), @r#"
═ Login bug conversation ═════════════════════════
 its folder is gone · 8 messages · 2 branches · 3…
 * user: Fix the login bug
 * assistant: The function is empty. [diagnosis]
 ├─o user: Write it
 │ o assistant: Written.
 * user: Write a test first
 * assistant: Here is a test.
>* session_info: Login bug (leaf)


─ Text session_info n1 · 2026-11-30 09:32 · t unf…
 > session_info Login bug  (JSON)





Enter resume here  / find in session
w search all texts  ? all keys  q quit
"#);
    for (columns, rows) in [(1, 1), (3, 2), (20, 3), (7, 40), (300, 4), (80, 24)] {
        screen.resize(columns, rows);
        for keys in ["? Esc", "Tab Down End Home", "/ x Esc", "d n", "z z", "v"] {
            screen.press(keys);
            screen.text();
        }
    }
    screen.press("q");
    assert!(screen.browser.has_ended());
}

#[test]
fn colours_add_to_the_signs_and_change_no_text() {
    let env = several();
    let mut plain = Screen::open(env.browser(80, 24));
    let mut colored = Screen::open(pi_sessions::cli::browse::BrowserOptions { is_colored: true, ..env.browser(80, 24) });
    for keys in ["Down Down", "Tab", "v Home Down Down", "t", "?"] {
        assert_eq!(plain.press(keys).text(), colored.press(keys).text(), "{keys}");
        assert!(!plain.has_colors() && colored.has_colors(), "{keys}");
    }
}

#[test]
fn hostile_text_reaches_no_screen() {
    let env = TestEnv::new();
    let evil = "a\u{1b}[31mred\u{1b}]0;title\u{7}\u{9b}2J\u{202e}b\tc\r\nd";
    let lines = format!(
        "{}\n{}\n{}",
        user("u\u{1b}[2J1", "", evil),
        answer("a1", "u\u{1b}[2J1", &format!("```\n{evil}\n```\n{evil}")),
        serde_json::json!({"type":"label","id":"l1","parentId":"a1","targetId":"a1","label":evil})
    );
    env.session("evil", &lines.replace('\u{1b}', "\\u001b"));
    let mut screen = Screen::open(env.browser(80, 24));
    for keys in ["Home", "Tab v", "Home", "Down", "t", "z Tab Tab", "w r e d Enter", "d"] {
        let text = screen.press(keys).text();
        let bad = text.chars().find(|char| (char.is_control() && *char != '\n') || *char == '\u{202e}');
        assert_eq!(bad, None, "{keys}: {text:?}");
    }
    assert!(screen.text().contains("red"));
}

#[test]
fn what_others_write_shows_as_it_comes() {
    let (env, mut screen) = demo();
    let path = env.root().join(format!("--home-me-project--/2026-11-30T09-00-00-000Z_{DEMO_ID}.jsonl"));
    screen.press("Tab");
    let append = |line: &str| {
        let text = fs::read_to_string(&path).expect("the session");
        fs::write(&path, format!("{text}{line}\n")).expect("a file");
    };
    append(&user("u9", "n1", "And from elsewhere"));
    screen.tick();
    // Who was at the leaf goes along.
    assert!(screen.row_with("And from elsewhere").contains(">* user: And from elsewhere (leaf)"), "{}", screen.text());
    screen.press("Up Up");
    let before = screen.text().lines().find(|row| row.contains("│>")).map(str::to_owned);
    append(&answer("a9", "u9", "More from elsewhere"));
    screen.tick();
    assert!(screen.text().contains("More from elsewhere"));
    assert_eq!(screen.text().lines().find(|row| row.contains("│>")).map(str::to_owned), before);
    fs::remove_file(&path).expect("a file");
    screen.tick();
    let gone = screen.text();
    assert!(gone.contains("! gone from the disk: Login bug") && gone.contains("this folder: 2"), "{gone}");
    screen.press("Tab Tab Tab Enter Enter g l d n");
}

#[test]
fn what_cannot_be_read_or_written_says_what_to_do() {
    let env = TestEnv::new();
    let path = env.session("new", &user("u1", "", "From tomorrow"));
    let text = fs::read_to_string(&path).expect("the session");
    fs::write(&path, text.replace(r#""version":3"#, r#""version":9"#)).expect("a file");
    env.session("torn", &format!("{}\n{{\"type\":\"mess", user("u1", "", "Torn")));
    env.write("data/sessions/--home-me-project--/zero.jsonl", "");
    let mut screen = Screen::open(env.browser(100, 24));
    screen.press("/").write("tomorrow").press("Enter Esc");
    let text = screen.press("/").write("tomorrow").press("Tab").text();
    assert!(text.contains("read only, version 9"), "{text}");
    screen.press("l").write("x").press("Enter");
    assert!(screen.text().contains("! "), "{}", screen.text());
    screen.press("Esc /").write("torn").press("Enter");
    assert!(screen.text().contains("1 damaged line"), "{}", screen.text());
    // An empty root, and one that is none.
    let mut empty = Screen::open(TestEnv::new().browser(80, 24));
    assert!(empty.text().contains("no sessions yet"), "{}", empty.text());
    empty.press("Enter g s f l r d u e y i n p b t v w x Enter a m Tab Tab Down Left");
    assert!(!empty.browser.has_ended());
}

#[test]
fn a_session_that_somebody_holds_is_not_moved_or_deleted() {
    let (env, mut screen) = demo();
    let path = env.root().join(format!("--home-me-project--/2026-11-30T09-00-00-000Z_{DEMO_ID}.jsonl"));
    let fs: std::sync::Arc<dyn pi_sessions::storage::fs::Fs> = std::sync::Arc::new(pi_sessions::storage::fs::StdFs);
    let owner = pi_sessions::storage::lock::OwnerLock::take(&fs, &path, "pid 9 on there").expect("nobody has it");
    screen.tick();
    assert!(screen.text().contains("in use by pid 9 on there"), "{}", screen.text());
    screen.press("Tab Home g");
    assert!(screen.text().contains("! ") && screen.text().contains("pid 9 on there"), "{}", screen.text());
    screen.press("d y");
    assert!(path.exists() && screen.text().contains("! "), "{}", screen.text());
    drop(owner);
    screen.press("Up").tick();
    assert!(!screen.text().contains("in use by"));
}

#[test]
fn a_first_look_reads_the_newest_files_by_name_and_little_of_them() {
    let env = TestEnv::new();
    let folder = "data/sessions/--home-me-project--";
    let header = |id: &str| format!(r#"{{"type":"session","version":3,"id":"{id}","timestamp":"t","cwd":"{CWD}"}}"#);
    let long = answer("a", "u1", &"x".repeat(200_000));
    for (at, id) in ["old", "mid", "new"].into_iter().enumerate() {
        let text = format!("{}\n{}\n{long}\n", header(id), user("u1", "", id));
        env.write(&format!("{folder}/2026-11-0{}T00-00-00-000Z_{id}.jsonl", at + 1), &text);
    }
    env.write(&format!("{folder}/2026-11-04T00-00-00-000Z_none.jsonl"), "{}\n");
    let repo = env.browser(80, 24).repo;
    let titles = |cwd, limit| {
        let mut newest = repo.newest(cwd, limit).expect("a root");
        newest.sort_by(|a, b| a.id.cmp(&b.id));
        newest.into_iter().map(|session| session.first_message.unwrap_or_default()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!([titles(None, 10), titles(Some(CWD), 3), titles(Some("/else"), 3)], ["mid new old", "mid new", ""]);
}

#[test]
fn the_cost_of_a_session_is_that_of_show() {
    let env = several();
    let path = env.root().join(format!("--home-me-project--/2026-11-30T09-00-00-000Z_{DEMO_ID}.jsonl"));
    let cost = pi_sessions::storage::usage::session_cost(&pi_sessions::storage::fs::StdFs, &path).expect("a session");
    let shown: serde_json::Value = serde_json::from_str(&env.run("show 019ad3c5 --json").stdout).expect("JSON");
    assert_eq!(Some(cost), shown["cost"].as_f64(), "{shown}");
    assert!(cost > 0.0);
}

#[test]
fn without_a_terminal_the_commands_that_print_are_named() {
    assert_snapshot!(several().run("browse"), @r#"
$ pi-sessions browse
--- stderr
error: browse needs a terminal with a full screen, to show and to type on
Hint: pi-sessions list --all
Hint: pi-sessions tree SESSION
--- exit code 2
"#);
    assert_eq!(several().terminal(80).run("browse --json").code, 2);
}

#[test]
fn a_label_is_refused_as_the_command_refuses_it() {
    let (env, mut screen) = demo();
    for (label, told) in [("m1", "something else has this name"), ("@leaf", "something else has this name")] {
        screen.press("Tab Home Down l Ctrl-U").write(label).press("Enter");
        let refused = env.run(&format!("label 019ad3c5 u1 {label}")).stderr;
        let message = refused.lines().next().expect("a message").trim_start_matches("error: ").to_owned();
        let shown = screen.text().replace('\n', " ");
        assert!(message.contains(told) && shown.contains(&format!("! {message}")), "{message}\n{shown}");
        screen.press("Esc Esc");
        screen = Screen::open(env.browser(80, 24));
        screen.press("Down Down");
    }
    // A label that two entries have says so here too.
    screen.press("Tab Home l").write("diagnosis").press("Enter");
    assert!(screen.text().contains("labelled: diagnosis (another entry has this label too"), "{}", screen.text());
}

#[test]
fn a_fork_from_before_the_first_message_is_there_to_be_seen() {
    let env = TestEnv::new();
    env.session("plain", &turns(&["one", "two"]));
    let mut screen = Screen::open(env.browser(100, 24));
    screen.press("Tab Home f");
    let text = screen.text();
    assert!(text.contains("forked before the first message, so nothing is in it yet; Enter begins it"), "{text}");
    assert!(text.contains("this folder: 2") && text.contains("nothing was said yet; Enter begins"), "{text}");
    assert!(screen.row_with("> (fork)").contains("(no user"), "{text}");
    screen.tick();
    assert!(screen.text().contains("this folder: 2"));
    // Who comes later sees what the list shows.
    assert!(Screen::open(env.browser(100, 24)).text().contains("this folder: 1"));
}

#[test]
fn several_that_were_deleted_come_back_one_after_the_other() {
    let (env, mut screen) = demo();
    screen.press("d y d y");
    assert_eq!(env.trash().names.len(), 2);
    assert!(screen.text().contains("this folder: 1"));
    screen.press("u");
    assert!(screen.text().contains("brought back from the trash: "), "{}", screen.text());
    screen.press("u");
    assert!(screen.text().contains("this folder: 3"), "{}", screen.text());
    screen.press("u");
    assert!(screen.text().contains("nothing was deleted here"));
}

#[test]
fn no_file_is_replaced_without_a_yes() {
    let (env, mut screen) = demo();
    let file = env.path().join("notes.md");
    fs::write(&file, "mine").expect("a file");
    let name = file.to_string_lossy().into_owned();
    screen.press("e Ctrl-U").write(&name).press("Enter");
    assert!(screen.text().contains("This file is there already. Replace it?"), "{}", screen.text());
    screen.press("n");
    assert!(screen.text().contains("not written: "));
    assert_eq!(fs::read_to_string(&file).expect("a file"), "mine");
    screen.press("e Ctrl-U").write(&name).press("Enter y");
    assert!(screen.text().contains("exported 9 entries: "), "{}", screen.text());
    assert!(fs::read_to_string(&file).expect("a file").contains("Fix the login bug"));
}

#[test]
fn a_name_without_text_is_cleared_as_the_command_clears_it() {
    let (env, mut screen) = demo();
    screen.press("r Ctrl-U Space Enter");
    assert!(screen.text().contains("the name is cleared") && screen.row_with("> ").contains("> Fix the login bug"));
    assert!(env.run("name 019ad3c5").stderr.contains("there is no name"));
}

#[test]
fn what_was_asked_for_is_done_before_the_end_and_told_where_it_fails() {
    let (env, mut screen) = demo();
    for key in ["r", "Ctrl-U", "x", "Enter", "q"] {
        screen.browser.press(key);
    }
    // Nothing was answered yet.
    assert!(!screen.browser.has_ended());
    screen.browser.settle();
    assert!(screen.browser.has_ended());
    assert_eq!(env.run("name 019ad3c5").stdout, "x\n");
    let (env, mut screen) = demo();
    env.trash().refuses = Some("the trash is full".into());
    for key in ["d", "y", "q"] {
        screen.browser.press(key);
    }
    screen.browser.settle();
    assert!(!screen.browser.has_ended() && screen.text().contains("! cannot move to the trash"), "{}", screen.text());
}

#[test]
fn a_session_that_was_found_and_is_gone_is_not_asked_for_again() {
    let (env, mut screen) = demo();
    let path = env.root().join(format!("--home-me-project--/2026-11-30T09-00-00-000Z_{DEMO_ID}.jsonl"));
    screen.press("w").write("test").press("Enter");
    assert!(screen.text().contains("\"test\" this folder: 2"), "{}", screen.text());
    fs::remove_file(&path).expect("a file");
    // This would never end if the session were asked for again and again.
    screen.tick();
    assert!(screen.text().contains("\"test\" this folder: 0") && screen.text().contains("! gone from the disk: Login bug"));
    screen.press("Enter Esc");
    assert!(screen.text().contains("this folder: 2"));
}

#[test]
fn a_newer_version_is_read_and_not_gone_on_with() {
    let env = TestEnv::new();
    let path = env.session("new", &user("u1", "", "From tomorrow"));
    let text = fs::read_to_string(&path).expect("the session");
    fs::write(&path, text.replace(r#""version":3"#, r#""version":9"#)).expect("a file");
    let bytes = fs::read(&path).expect("the session");
    let mut screen = Screen::open(env.browser(80, 24));
    for keys in ["Enter", "Tab Enter", "s", "g", "l x Enter", "r y Enter"] {
        screen.press(keys);
        let text = screen.text().replace('\n', " ");
        assert!(text.contains("! ") && text.contains("version 9"), "{keys}: {text}");
        assert_eq!(screen.browser.take_outside(), None, "{keys}");
    }
    assert_eq!(fs::read(&path).expect("the session"), bytes);
}

#[test]
fn what_is_told_is_whole_also_where_it_needs_several_rows() {
    let (_env, mut screen) = demo();
    screen.resize(40, 10);
    assert_snapshot!(screen.press("d").text(), @r#"
─ Sessions this folder: 3 ──────────────
  Ask about parsers      1h  1.3K      -
  Ask about 日本語の…    1h  826B      -
> Login bug              2h  3.1K $0.005



Move to the trash? y yes, any other key
no: Login bug
y move it to the trash
"#);
    screen.press("n");
    assert_snapshot!(screen.press("Tab Home Enter").text(), @r#"
─ Login bug conversation ───────────────
 its folder is gone · 8 messages · 2 br…
>* user: Fix the login bug
 * assistant: The function… [diagnosis]
 ├─o user: Write it
 │ o assistant: Written.
The folder of the session is gone. Go on
in /home/me/project? y yes, any other
key no; it was /home/me/project
y go on in this folder
"#);
    screen.press("n");
    assert_snapshot!(screen.press("?").text(), @r#"
═ All keys rows 1 to 7 of 57, more below
 Find a session by its name with /, or
 by a word said in it with w. Tab goes
 to its tree, b back turn by turn, and
 Enter goes on from there in a chat.
 Nothing is lost by going back.
 * is on the active path, o is not; +
 stands for folded branches, ? for what

Up Down scroll  any other key back
"#);
}

#[test]
fn without_colours_signs_tell_everything() {
    let (_env, mut screen) = demo();
    // What is found, folded, labelled, off the path, the leaf, where one is, and which pane has the keys.
    screen.press("Tab - /").write("test").press("Enter");
    assert!(!screen.has_colors());
    assert_snapshot!(screen.text(), @r#"
─ Sessions this folder: 3 ──────│═ Login bug conversation, "test": 2 ═══════════
  Ask about parsers     1h  1.3K│ its folder is gone · 8 messages · 2 branches…
  Ask about 日本語の…   1h  826B│ * user: Fix the login bug
> Login bug             2h  3.1K│ * assistant: The function is em… [diagnosis] +
                                │ ├─o user: Write it +1
                                │>* ? user: Write a test first
                                │ * ? assistant: Here is a test.
                                │ * session_info: Login bug (leaf)
                                │
                                │
                                │
                                │
                                │
─ Text user u3 · 2026-11-30 09:30 ──────────────────────────────────────────────
 Write a test first






1 of 2 with "test"; n next, p previous
Enter resume here  / find in session  w search all texts  Tab next pane
b back a turn  g go here  s go with summary  f fork  l label  ? all keys  q quit
"#);
}

#[cfg(unix)]
mod on_a_terminal {
    use super::*;
    use crate::support::pty::Pty;

    /// Sessions of a folder that exists.
    fn real() -> (TestEnv, PathBuf) {
        let env = TestEnv::new();
        let cwd = fs::canonicalize(env.path()).expect("a folder").join("project");
        fs::create_dir_all(&cwd).expect("a folder");
        let cwd_text = cwd.to_string_lossy().into_owned();
        env.session_of("long", &cwd_text, &turns(&["one", "two", "three", "quagga", "five"]));
        env.session_of("short", &cwd_text, &turns(&["something else"]));
        (env, cwd)
    }

    #[test]
    fn a_word_leads_to_its_session_back_three_turns_and_into_the_chat() {
        let (env, cwd) = real();
        let mut pty = Pty::run(&env, &cwd, &["browse"], 80, 24);
        pty.wait_for("this folder: 2").wait_for("w search all texts");
        pty.send("wquagga\r").wait_for("«quagga»").wait_for(">* assistant: About quagga.");
        pty.send("\r").wait_for("back a turn").send("\u{1b}[F").wait_for(">* assistant: About five.");
        pty.send("bbb").wait_for(">* user: Ask about three").send("\r");
        // The chat has the terminal, and the message to be edited stands there.
        pty.wait_until("the chat", |screen| !screen.alternate_screen() && screen.contents().contains("> Ask about three"));
        pty.send(" again\r").wait_for("You said: Ask about three again");
        let is_at_prompt = |screen: &vt100::Screen| screen.contents().trim_end().ends_with("\n>");
        pty.wait_until("the next line", is_at_prompt)
            .send("\u{4}")
            .wait_for("back from the chat")
            .wait_for("user: Ask about three again");
        pty.wait_for("├─o user: Ask about three").wait_for("12 messages · 2 branches").wait_for("\n about three again");
        assert_snapshot!(screen_of(&pty), @r#"
─ Said "quagga" this folder: 2 ─│═ Ask about one conversation ══════════════════
> Ask about one              AGE│ 12 messages · 2 branches · …
  assistant: About «quagga».    │ * assistant: About one.
  Ask about one              AGE│ * user: Ask about two
  user: Ask about «quagga»      │ * assistant: About two.
                                │ ├─o user: Ask about three
                                │ │ o assistant: About three.
                                │ │ o user: Ask about quagga
                                │ │ o assistant: About quagga.
                                │ │ o user: Ask about five
                                │ │ o assistant: About five.
                                │ * user: Ask about three again
                                │>* assistant: This is the built-in offl… (leaf)
─ Text assistant … · … … · echo · N tokens
 This is the built-in offline model; no provider is configured. You said: Ask
 about three again





back from the chat; q leaves
Enter resume here  / find in session  w search all texts  Tab next pane
b back a turn  g go here  s go with summary  f fork  l label  ? all keys  q quit
"#);
        pty.send("q");
        assert_eq!(pty.end(), 0);
        assert!(pty.is_restored(), "{}", pty.text());
    }

    /// The screen without what differs between machines and runs: ids, times, ages, sizes and the folder.
    fn screen_of(pty: &Pty) -> String {
        let mask = |row: &str| {
            // What is told of the session as a whole ends with its size and its folder.
            let row = row.split_once(" branches · ").map_or(row.to_owned(), |(before, _)| format!("{before} branches · …"));
            let mut words: Vec<String> = row.split(' ').map(str::to_owned).collect();
            for at in 0..words.len() {
                let word = &words[at];
                let digits = word.chars().filter(char::is_ascii_digit).count();
                let (is_id, is_day) = (word.len() == 8 && word.bytes().all(|byte| byte.is_ascii_hexdigit()), digits == 8);
                if is_id || is_day || (word.len() == 5 && word.contains(':') && digits == 4) {
                    words[at] = "…".into();
                } else if words.get(at + 1).is_some_and(|next| next == "tokens") {
                    words[at] = "N".into();
                }
            }
            let row = words.join(" ");
            let row = match row.split_once('│') {
                Some((left, right)) if left.ends_with(|last: char| last.is_ascii_lowercase()) => {
                    format!("{} AGE│{right}", &left[..left.len() - 4])
                }
                _ => row,
            };
            row.trim_end_matches(['─', ' ']).to_owned() + "\n"
        };
        pty.text().lines().map(mask).collect()
    }

    #[test]
    fn resume_picks_a_session_and_ends_with_its_chat() {
        let (env, cwd) = real();
        let mut pty = Pty::run(&env, &cwd, &["resume"], 80, 24);
        pty.wait_for("Search titles:").wait_for("this folder: 2").send("some").wait_for("\"some\": 1");
        let is_in_chat = |screen: &vt100::Screen| {
            !screen.alternate_screen()
                && screen.contents().contains("going on with")
                && screen.contents().trim_end().ends_with("\n>")
        };
        pty.send("\r").wait_until("the chat", is_in_chat).send("\u{4}");
        assert_eq!(pty.end(), 0);
        let mut pty = Pty::run(&env, &cwd, &["resume"], 80, 24);
        pty.wait_for("this folder: 2").send("\u{3}");
        assert_eq!(pty.end(), 1);
        assert!(pty.is_restored(), "{}", pty.text());
    }

    #[test]
    fn it_survives_resizing_deletes_and_brings_back() {
        let (env, cwd) = real();
        let mut pty = Pty::run(&env, &cwd, &["browse"], 80, 24);
        pty.wait_for("this folder: 2").wait_for("About").resize(120, 40).wait_for("copy id");
        pty.resize(30, 8).wait_until("one pane", |screen| screen.contents().contains("> Ask about"));
        pty.resize(80, 24).wait_for("q quit");
        pty.send("d").wait_for("Move to the trash?").send("y").wait_for("this folder: 1").wait_for("u brings it back");
        pty.send("u").wait_for("brought back from the trash").wait_for("this folder: 2");
        pty.send("q");
        assert_eq!(pty.end(), 0);
        assert!(pty.is_restored(), "{}", pty.text());
    }

    #[test]
    fn a_signal_gives_the_terminal_back() {
        let (env, cwd) = real();
        for (signal, code) in [("-INT", Some(130)), ("-TERM", None)] {
            let mut pty = Pty::run(&env, &cwd, &["browse"], 80, 24);
            pty.wait_for("this folder: 2");
            assert!(std::process::Command::new("kill").args([signal, &pty.pid().to_string()]).status().expect("kill").success());
            let ended = pty.end();
            assert!(code.is_none_or(|code| code == ended) && ended != 0, "{signal}: {ended}");
            assert!(pty.is_restored(), "{signal}: {}", pty.text());
        }
    }

    #[test]
    fn hostile_text_moves_nothing_on_a_terminal() {
        let (env, cwd) = real();
        let evil = "a\u{1b}]0;title\u{7}\u{9b}2J\u{1b}[31mb";
        let line = user("u1", "", evil);
        env.session_of("evil", &cwd.to_string_lossy(), &line.replace('\u{1b}', "\\u001b"));
        let mut pty = Pty::run(&env, &cwd, &["browse"], 80, 24);
        pty.wait_for("this folder: 3").send("/evil").wait_for("\"evil\": 1").send("\t").wait_for(">* user: ab").send("q");
        assert_eq!(pty.end(), 0);
        let text = String::from_utf8_lossy(&pty.bytes);
        assert!(!text.contains("]0;") && !text.contains('\u{9b}') && !text.contains("[31m"), "{text:?}");
    }
}
