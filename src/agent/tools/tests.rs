//! The built-in tools on a real folder.

use std::path::Path;
use std::sync::{Arc, Mutex};

use tokio_util::sync::CancellationToken;

use super::*;
use crate::agent::prompt::SystemPrompt;

/// A folder with a cwd in it.
struct Place {
    folder: tempfile::TempDir,
    env: Arc<Env>,
}

impl Place {
    fn new(write_paths: WritePaths) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let cwd = folder.path().join("cwd");
        put(&cwd.join("a.txt"), "one\ntwo\nthree\n");
        let env = Arc::new(Env::new(cwd, folder.path().join("out"), write_paths));
        Self { folder, env }
    }

    async fn run(&self, name: &str, arguments: &str) -> ToolOutput {
        self.run_until(name, arguments, &CancellationToken::new()).await
    }

    async fn run_until(&self, name: &str, arguments: &str, abort: &CancellationToken) -> ToolOutput {
        let tools = builtin(&self.env);
        let tool = tools.iter().find(|tool| tool.declaration().name == name).expect("a tool");
        let arguments = Json::parse(arguments).expect("JSON");
        let update = |_: &str| {};
        tool.run(ToolInvocation { call_id: "c", arguments: &arguments, abort, update: &update }).await
    }

    fn text(&self, name: &str) -> String {
        get(&self.env.cwd().join(name))
    }
}

#[expect(clippy::disallowed_methods, reason = "tests make their files")]
fn put(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    std::fs::write(path, text).expect("a file");
}

#[expect(clippy::disallowed_methods, reason = "tests look at what is on disk")]
fn get(path: &Path) -> String {
    std::fs::read_to_string(path).expect("a file")
}

fn said(output: &ToolOutput) -> (bool, String) {
    (output.is_error, output.content.joined_text())
}

#[test]
fn the_built_in_tools_declare_themselves() {
    let env = Arc::new(Env::new("/", "/tmp", WritePaths::InsideCwd));
    let declared: Vec<_> = builtin(&env).iter().map(|tool| tool.declaration()).collect();
    assert_eq!(declared.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), BUILTIN_NAMES);
    assert!(declared.iter().all(|tool| tool.parameters.fields().is_some_and(|fields| fields.has("properties"))));
}

#[tokio::test]
async fn read_gives_parts_and_says_how_to_go_on() {
    let place = Place::new(WritePaths::InsideCwd);
    let lines: String = (1..=2_500).map(|n| format!("{n}\n")).collect();
    put(&place.env.cwd().join("long.txt"), &lines);
    put(&place.env.cwd().join("wide.txt"), &"x".repeat(60_000));
    put(&place.env.cwd().join("binary"), "a\0b");
    put(&place.env.cwd().join("empty"), "");
    let check = async |arguments: &str, expect: (bool, &str)| {
        let (is_error, text) = said(&place.run("read", arguments).await);
        assert_eq!((is_error, text.as_str()), expect, "{arguments}");
    };
    check(r#"{"path":"a.txt"}"#, (false, "one\ntwo\nthree\n")).await;
    check(r#"{"path":"a.txt","offset":2,"limit":1}"#, (false, "two\n\n[lines 2 to 2 of 3; go on with offset 3]")).await;
    check(r#"{"path":"a.txt","offset":9}"#, (true, "a.txt has 3 lines, so none from line 9 on")).await;
    check(r#"{"path":"empty"}"#, (false, "")).await;
    check(r#"{"path":"binary"}"#, (true, "binary is not a text file (3 bytes)")).await;
    check(r#"{"path":"."}"#, (true, "cannot read .: it is a folder")).await;
    check(r#"{}"#, (true, "the arguments cannot be used: missing field `path` at line 1 column 2")).await;
    assert!(said(&place.run("read", r#"{"path":"gone"}"#).await).0);
    let (_, long) = said(&place.run("read", r#"{"path":"long.txt"}"#).await);
    assert!(long.ends_with("2000\n\n[lines 1 to 2000 of 2500; go on with offset 2001]"), "{}", &long[long.len() - 80..]);
    let (_, wide) = said(&place.run("read", r#"{"path":"wide.txt"}"#).await);
    assert!(wide.len() < MAX_BYTES + 100 && wide.contains("is cut here"));
}

#[tokio::test]
async fn write_and_edit_change_files_in_the_cwd() {
    let place = Place::new(WritePaths::InsideCwd);
    assert!(!place.run("write", r#"{"path":"new/b.txt","content":"hello"}"#).await.is_error);
    assert_eq!(place.text("new/b.txt"), "hello");
    assert!(!place.run("edit", r#"{"path":"a.txt","oldText":"two","newText":"2"}"#).await.is_error);
    assert_eq!(place.text("a.txt"), "one\n2\nthree\n");
    assert!(place.run("edit", r#"{"path":"a.txt","oldText":"gone","newText":"x"}"#).await.is_error);
    assert!(place.run("edit", r#"{"path":"none.txt","oldText":"gone","newText":"x"}"#).await.is_error);
    assert!(place.run("write", r#"{"path":"new","content":"x"}"#).await.is_error);
}

#[cfg(unix)]
#[tokio::test]
async fn paths_that_lead_out_of_the_cwd_are_refused() {
    use std::os::unix::fs::symlink;
    let place = Place::new(WritePaths::InsideCwd);
    let (outside, cwd) = (place.folder.path().join("outside"), place.env.cwd());
    put(&outside.join("secret"), "keep");
    symlink(&outside, cwd.join("link")).expect("a link");
    symlink(outside.join("secret"), cwd.join("file-link")).expect("a link");
    symlink(outside.join("not-yet"), cwd.join("dangling")).expect("a link");
    symlink(cwd.join("a.txt"), cwd.join("inner")).expect("a link");
    let absolute = outside.join("secret").display().to_string();
    for path in [
        "../outside/secret",
        &absolute,
        "link/secret",
        "link/new",
        "link/../outside/secret",
        "file-link",
        "dangling",
        "no/such/../../../outside/secret",
        "no/../../outside/new",
        "..",
        "",
    ] {
        let arguments = format!(r#"{{"path":"{path}","content":"x","oldText":"keep","newText":"x"}}"#);
        for tool in ["write", "edit"] {
            let (is_error, text) = said(&place.run(tool, &arguments).await);
            assert!(is_error, "{tool} {path}: {text}");
        }
    }
    assert_eq!(get(&outside.join("secret")), "keep");
    assert!(!outside.join("new").exists() && !outside.join("not-yet").exists());
    assert!(!place.run("write", r#"{"path":"inner","content":"x"}"#).await.is_error);
    assert_eq!((place.text("a.txt"), cwd.join("inner").is_symlink()), ("x".to_owned(), true));

    let place = Place::new(WritePaths::Anywhere);
    assert!(!place.run("write", r#"{"path":"../free","content":"x"}"#).await.is_error);
    assert_eq!(get(&place.folder.path().join("free")), "x");
}

#[cfg(unix)]
#[tokio::test]
async fn bash_gives_output_exit_code_and_the_cwd() {
    let place = Place::new(WritePaths::InsideCwd);
    let check = async |command: &str, expect: (bool, &str)| {
        let arguments = format!(r#"{{"command":"{command}"}}"#);
        let (is_error, text) = said(&place.run("bash", &arguments).await);
        assert_eq!((is_error, text.as_str()), expect, "{command}");
    };
    check("cat a.txt", (false, "one\ntwo\nthree\n")).await;
    check("true", (false, "[no output]")).await;
    check("echo no >&2; exit 4", (true, "no\n[exit code 4]")).await;
    check("kill -9 $$", (true, "[ended by a signal]")).await;
    // Reads of standard input end at once.
    check("cat; echo end", (false, "end\n")).await;
    // What stays in the background keeps the pipe open and is not waited for.
    check("sleep 30 & echo started", (false, "started\n")).await;
    let seen = Mutex::new(String::new());
    let update = |text: &str| seen.lock().unwrap().push_str(text);
    let arguments = Json::parse(r#"{"command":"echo shown"}"#).expect("JSON");
    let abort = CancellationToken::new();
    let call = ToolInvocation { call_id: "c", arguments: &arguments, abort: &abort, update: &update };
    Bash::new(place.env.clone()).run(call).await;
    assert_eq!(*seen.lock().unwrap(), "shown\n");
}

#[cfg(unix)]
#[tokio::test]
async fn long_output_is_cut_and_kept_in_a_private_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new(WritePaths::InsideCwd);
    for (command, end) in [("seq 3000", "3000\n"), ("head -c 300000 /dev/zero | tr '\\\\0' x; echo; echo end", "end\n")] {
        let output = place.run("bash", &format!(r#"{{"command":"{command}"}}"#)).await;
        let (is_error, text) = said(&output);
        assert!(!is_error && text.ends_with(end) && text.len() < MAX_BYTES + 300, "{} {}", text.len(), &text[..100]);
        assert!(text.lines().count() <= MAX_LINES + 1);
        let path: String = output.details.expect("details").fields().expect("an object").get("fullOutputPath").expect("a path");
        assert!(text.starts_with("[This is the end of the output") && text.contains(&path));
        let all = get(Path::new(&path));
        assert!(all.ends_with(end) && all.len() > 10_000, "{}", all.len());
        let mode = Path::new(&path).metadata().expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_time_limit_or_an_abort_kills_everything_that_was_started() {
    let place = Place::new(WritePaths::InsideCwd);
    // The grandchild holds the pipe: were it alive, its end would not be seen so soon.
    let output = place.run("bash", r#"{"command":"echo $$ > pid; (sleep 60; echo late) & sleep 60","timeout":0.2}"#).await;
    assert_eq!(said(&output), (true, "[killed after 0.2 seconds]".to_owned()));
    assert_group_is_gone(&place);

    let abort = CancellationToken::new();
    let (output, ()) = tokio::join!(
        place.run_until("bash", r#"{"command":"echo $$ > pid; echo begun; mkfifo wait; (cat wait) & cat wait"}"#, &abort),
        async {
            while !place.env.cwd().join("wait").exists() {
                tokio::task::yield_now().await;
            }
            abort.cancel();
        }
    );
    assert_eq!(said(&output), (true, "begun\n[aborted by the user]".to_owned()));
    assert_group_is_gone(&place);
}

#[cfg(unix)]
#[tokio::test]
async fn a_dropped_command_is_killed() {
    let place = Place::new(WritePaths::InsideCwd);
    let never = CancellationToken::new();
    let began = async {
        while !place.env.cwd().join("ready").exists() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = place.run_until("bash", r#"{"command":"echo $$ > pid; touch ready; sleep 60"}"#, &never) => panic!("it sleeps"),
        () = began => {}
    }
    assert_group_is_gone(&place);
}

/// No process of the group that `pid` names is alive; those that were killed may still be waited for by nobody.
#[cfg(unix)]
fn assert_group_is_gone(place: &Place) {
    let group = place.text("pid").trim().to_owned();
    let script = r#"ps -eo pgid=,stat= | awk -v group="$1" '$1 == group && $2 !~ /^Z/ { alive = 1 } END { exit !alive }'"#;
    let is_alive = || std::process::Command::new("sh").args(["-c", script, "sh", &group]).status().expect("ps").success();
    // A signal takes a moment to arrive.
    assert!((0..200).any(|_| !is_alive()), "something of group {group} is alive");
}

#[tokio::test]
async fn the_prompt_holds_tools_context_files_and_skills() {
    let place = Place::new(WritePaths::InsideCwd);
    let cwd = place.env.cwd();
    put(&place.folder.path().join("CLAUDE.md"), "outer words");
    put(&cwd.join("AGENTS.md"), "inner words\n");
    put(&cwd.join("CLAUDE.md"), "not these");
    put(&place.folder.path().join("skills/pdf/SKILL.md"), "---\nname: pdf\ndescription: Reads PDFs\n---\nCall pdftotext.\n");
    put(&place.folder.path().join("skills/broken/SKILL.md"), "nothing");
    let prompt = SystemPrompt::load(&place.env, &[], &[place.folder.path().join("skills")]).await.expect("a prompt");
    let tools: Vec<_> = builtin(&place.env).iter().map(|tool| tool.declaration()).collect();
    let text = prompt.text(&tools);
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} is not in {text}"));
    assert!(at("coding agent") < at("- bash: ") && at("- bash: ") < at("outer words"));
    assert!(at("outer words") < at("inner words") && at("inner words") < at("- pdf: Reads PDFs ("));
    assert!(!text.contains("not these"));
    let skill = prompt.skill("pdf").expect("a skill");
    let invoked = skill.invocation(&place.env, "the report").await.expect("its text");
    assert!(invoked.contains("<skill>\nCall pdftotext.\n</skill>") && invoked.ends_with("the report"), "{invoked}");
    assert!(prompt.skill("broken").is_none());
}
