//! The command as a process: what only a real one shows.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::support::cli::{DEMO, TestEnv};

/// The command with nothing of the machine around it.
fn command(env: &TestEnv) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pi-sessions"));
    command.env_clear().env("HOME", env.home()).env("PI_SESSIONS_ROOT", env.root()).current_dir(env.path());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn stderr(child: &mut Child) -> String {
    let mut text = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut text).expect("text");
    text
}

#[test]
fn the_command_works_in_its_folder_and_prints_plainly_in_a_pipe() {
    let env = TestEnv::new();
    let run = |args: &[&str]| command(&env).args(args).output().expect("the command");
    let new = run(&["new", "--name", "real"]);
    let path = String::from_utf8(new.stdout).expect("text");
    assert!(new.status.success() && Path::new(path.trim()).is_file(), "{path}");
    let list = String::from_utf8(run(&["list", "--empty"]).stdout).expect("text");
    assert!(list.contains("real") && !list.contains('\u{1b}'), "{list}");
    assert_eq!(run(&["show", "nothing"]).status.code(), Some(2));
}

#[test]
#[cfg(unix)]
fn a_new_session_works_in_the_folder_as_the_shell_names_it() {
    let env = TestEnv::new();
    let (real, link) = (env.path().join("real"), env.path().join("link"));
    std::fs::create_dir(&real).expect("a folder");
    std::os::unix::fs::symlink(&real, &link).expect("a link");
    let cwd = |pwd: &Path| {
        let mut command = command(&env);
        command.args(["new", "--json"]).current_dir(&link).env("PWD", pwd);
        let made: serde_json::Value = serde_json::from_slice(&command.output().expect("the command").stdout).expect("JSON");
        let text = std::fs::read_to_string(made["path"].as_str().expect("a path")).expect("the file");
        serde_json::from_str::<serde_json::Value>(&text).expect("a header")["cwd"].as_str().expect("a cwd").to_owned()
    };
    assert_eq!(cwd(&link), link.to_string_lossy());
    // A PWD that is another folder, or none, says nothing.
    let real = std::fs::canonicalize(&real).expect("a folder");
    assert_eq!(cwd(env.path()), real.to_string_lossy());
    assert_eq!(cwd(Path::new("nonsense")), real.to_string_lossy());
}

#[test]
fn a_closed_pipe_is_no_error() {
    let env = TestEnv::new();
    let line = r#"{"type":"message","id":"u","parentId":null,"message":{"role":"user","content":"TEXT"}}"#;
    // More than a pipe holds.
    env.session("long", &line.replace("TEXT", &"x".repeat(1 << 20)));
    let mut child = command(&env).args(["path", "long"]).spawn().expect("the command");
    drop(child.stdout.take());
    assert_eq!(stderr(&mut child), "");
    assert_eq!(child.wait().expect("an end").code(), Some(0));
}

#[test]
#[cfg(unix)]
fn ctrl_c_ends_a_command_with_130() {
    let env = TestEnv::new();
    let path = env.session("demo", DEMO);
    let mut child = command(&env).args(["append", "demo", "-v"]).stdin(Stdio::piped()).spawn().expect("the command");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(b"{\"role\":\"user\",\"content\":\"x\"}\n").expect("it reads");
    // The first note comes after Ctrl-C is taken care of.
    let mut note = String::new();
    BufReader::new(child.stderr.take().expect("a pipe")).read_line(&mut note).expect("a note");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill").success());
    assert_eq!(child.wait().expect("an end").code(), Some(130), "{note}");
    assert_eq!(std::fs::read_to_string(path).expect("the file").lines().count(), 12);
}

#[test]
#[cfg(target_os = "linux")]
fn output_that_cannot_be_written_is_an_error() {
    let env = TestEnv::new();
    env.session("demo", DEMO);
    let full = std::fs::File::options().write(true).open("/dev/full").expect("a full device");
    let mut child = command(&env).args(["path", "demo"]).stdout(full).spawn().expect("the command");
    assert!(stderr(&mut child).starts_with("error: cannot write the output\nCaused by: "));
    assert_eq!(child.wait().expect("an end").code(), Some(1));
}

#[test]
fn a_panic_is_our_bug_and_says_so() {
    let env = TestEnv::new();
    env.session("demo", DEMO);
    env.trash().panics = true;
    let run = env.run("delete demo --yes");
    assert_eq!(run.code, 255);
    assert_eq!(
        run.stderr,
        "error: the trash is on fire\nHint: this is a bug in pi-sessions; please report it with the command that you ran\n"
    );
    assert!(env.run("delete demo --yes --json").stderr.starts_with(r#"{"error":{"kind":"bug","#));
}
