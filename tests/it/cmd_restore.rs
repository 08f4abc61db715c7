//! `restore`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use insta::assert_snapshot;

use crate::support::cli::{DEMO, TestEnv};

#[test]
fn what_was_deleted_is_listed_and_comes_back_whole() {
    let env = TestEnv::new();
    let path = env.session("demo", DEMO);
    let backup = path.with_extension("jsonl.bak");
    fs::write(&backup, "old").expect("a backup");
    let bytes = fs::read(&path).expect("the file");
    env.session_of("other", "/home/me/other", "");
    env.run("delete demo other --yes");
    assert!(!path.exists() && !backup.exists());
    assert_snapshot!(env.run("restore"), @r#"
$ pi-sessions restore
ID    DELETED                   MSGS  NAME OR FIRST MESSAGE
demo  2026-11-30T12:00:01.000Z     8  Login bug
--- stderr
note: 1 session of another folder is in the trash (--all shows them)
"#);
    assert_snapshot!(env.run("restore --all"), @r#"
$ pi-sessions restore --all
ID     DELETED                   MSGS  FOLDER            NAME OR FIRST MESSAGE
other  2026-11-30T12:00:01.000Z     0  /home/me/other    (no user message)
demo   2026-11-30T12:00:01.000Z     8  /home/me/project  Login bug
"#);
    assert_snapshot!(env.run("restore --all --json"), @r#"
$ pi-sessions restore --all --json
{"path":"[TMP]/data/sessions/--home-me-other--/2026-11-30T09-00-00-000Z_other.jsonl","id":"other","cwd":"/home/me/other","name":null,"firstMessage":null,"messageCount":0,"sizeBytes":106,"deleted":"2026-11-30T12:00:01.000Z"}
{"path":"[TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_demo.jsonl","id":"demo","cwd":"/home/me/project","name":"Login bug","firstMessage":"Fix the login bug","messageCount":8,"sizeBytes":3073,"deleted":"2026-11-30T12:00:01.000Z"}
"#);
    assert_snapshot!(env.run("restore dem"), @r#"
$ pi-sessions restore dem
--- stderr
brought back [TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_demo.jsonl
"#);
    assert_eq!(fs::read(&path).expect("it is back"), bytes);
    assert_eq!(fs::read_to_string(&backup).expect("it is back"), "old");
    assert_snapshot!(env.run("restore other --json"), @r#"
$ pi-sessions restore other --json
{"id":"other","path":"[TMP]/data/sessions/--home-me-other--/2026-11-30T09-00-00-000Z_other.jsonl"}
"#);
    assert_snapshot!(env.run("restore"), @r#"
$ pi-sessions restore
--- stderr
note: there is no session in the trash
"#);
}

#[test]
fn a_terminal_shows_short_ids_and_ages() {
    let env = TestEnv::new().terminal(80).var("NO_COLOR", "1");
    env.session("019ad3c5-2f10-7a41-8c52-0d6b3e9f7a10", "");
    env.session("019ad8f0-6b3c-7d02-9e11-5a7f20c4b6d3", r#"{"type":"message","id":"u","parentId":null,"message":{"role":"user","content":"a\u001b[31m long question that does not fit in the line of a terminal with eighty columns"}}"#);
    env.run("delete --yes 019ad3c5 019ad8f0");
    assert_snapshot!(env.run("restore"), @r#"
$ pi-sessions restore
ID        DELETED   MSGS  NAME OR FIRST MESSAGE
019ad3c5  just now     0  (no user message)
019ad8f0  just now     1  a long question that does not fit in the line of a te…
"#);
    assert_snapshot!(env.run("restore --all"), @r#"
$ pi-sessions restore --all
ID        DELETED   MSGS  FOLDER            NAME OR FIRST MESSAGE
019ad3c5  just now     0  /home/me/project  (no user message)
019ad8f0  just now     1  /home/me/project  a long question that does not fit i…
"#);
}

#[test]
fn sessions_are_named_by_id_name_path_or_as_the_last() {
    let env = TestEnv::new();
    let path = env.session("demo", DEMO);
    let other = env.session_of("other", "/home/me/other", "");
    for (name, expect) in [("demo", &path), ("'Login bug'", &path), ("de", &path), ("@last", &other), ("oth", &other)] {
        env.run("delete demo --yes");
        env.run("delete other --yes");
        assert_eq!(env.run(&format!("restore {name}")).code, 0, "{name}");
        assert!(expect.exists(), "{name}");
        env.run("restore demo");
        env.run("restore other");
    }
    env.run("delete demo --yes");
    assert_eq!(env.run(&format!("restore {}", path.display())).code, 0);
    assert!(path.exists());
}

#[test]
fn all_are_found_before_one_comes_back() {
    let env = TestEnv::new();
    let path = env.session("demo", DEMO);
    assert_snapshot!(env.run("restore demo"), @r#"
$ pi-sessions restore demo
--- stderr
error: there is no session in the trash
Hint: pi-sessions list --all shows what is not deleted
--- exit code 2
"#);
    env.run("delete demo --yes");
    assert_snapshot!(env.run("restore demo nothing"), @r#"
$ pi-sessions restore demo nothing
--- stderr
error: there is no session "nothing" in the trash
Hint: pi-sessions restore --all
--- exit code 2
"#);
    assert_snapshot!(env.run("restore ./x.jsonl"), @r#"
$ pi-sessions restore ./x.jsonl
--- stderr
error: no session in the trash was at /home/me/project/x.jsonl
Hint: pi-sessions restore --all
--- exit code 2
"#);
    assert!(!path.exists());
    assert_eq!(env.run("restore demo demo").code, 0);
    assert!(path.exists());
}

#[test]
fn no_file_is_written_over() {
    let env = TestEnv::new();
    let path = env.session("demo", DEMO);
    fs::write(path.with_extension("jsonl.bak"), "old").expect("a backup");
    env.run("delete demo --yes");
    env.write("data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_demo.jsonl.bak", "mine");
    assert_snapshot!(env.run("restore demo"), @r#"
$ pi-sessions restore demo
--- stderr
error: there is a file already: [TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_demo.jsonl.bak
Hint: --to DIR brings it back to another folder
--- exit code 1
"#);
    assert!(!path.exists(), "all or nothing");
    fs::remove_file(path.with_extension("jsonl.bak")).expect("a file");
    fs::write(&path, "mine").expect("a file");
    assert_eq!(env.run("restore demo").code, 1);
    assert!(!path.with_extension("jsonl.bak").exists(), "all or nothing");
    assert_eq!(fs::read_to_string(&path).expect("a file"), "mine");
    let to = env.path().join("new/folder");
    assert_snapshot!(env.run(&format!("restore demo --to {}", to.display())), @r#"
$ pi-sessions restore demo --to [TMP]/new/folder
--- stderr
brought back [TMP]/new/folder/2026-11-30T09-00-00-000Z_demo.jsonl
"#);
    assert_eq!(fs::read_to_string(to.join("2026-11-30T09-00-00-000Z_demo.jsonl.bak")).expect("it is back"), "old");
    assert!(to.join("2026-11-30T09-00-00-000Z_demo.jsonl").exists());
}

#[test]
fn a_folder_that_is_gone_is_made_again_for_its_owner_alone() {
    let env = TestEnv::new();
    let path = env.session("demo", DEMO);
    env.run("delete demo --yes");
    let folder = path.parent().expect("a folder");
    fs::remove_dir(folder).expect("an empty folder");
    assert_eq!(env.run("restore demo").code, 0);
    assert!(path.exists());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(folder).expect("the folder").permissions().mode() & 0o777, 0o700);
    }
}

#[test]
fn what_went_wrong_halfway_can_be_tried_again() {
    let env = TestEnv::new();
    let path = env.session("demo", DEMO);
    let backup = path.with_extension("jsonl.bak");
    fs::write(&backup, "old").expect("a backup");
    env.run("delete demo --yes");
    env.trash().refuses = Some("no space".to_owned());
    assert_snapshot!(env.run("restore demo"), @r#"
$ pi-sessions restore demo
--- stderr
error: cannot bring back from the trash [TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_demo.jsonl
Caused by: no space
--- exit code 1
"#);
    assert!(backup.exists() && !path.exists());
    env.trash().refuses = None;
    assert_eq!(env.run("restore demo").code, 0);
    assert!(backup.exists() && path.exists());
}

#[test]
fn a_name_that_went_there_twice_is_the_latter_and_then_the_former() {
    let env = TestEnv::new();
    let path = env.session("demo", DEMO);
    env.run("delete demo --yes");
    env.session("demo", "");
    env.run("delete demo --yes");
    let to = env.path().join("to");
    assert_eq!(env.run(&format!("restore demo --to {}", to.display())).code, 0);
    assert_eq!(fs::read_to_string(to.join(path.file_name().expect("a name"))).expect("the latter").lines().count(), 1);
    assert_eq!(env.run("restore demo").code, 0);
    assert!(fs::read_to_string(&path).expect("the former").lines().count() > 1);
}

#[test]
fn a_trash_that_does_not_tell_is_said_to_be_so() {
    let env = TestEnv::new();
    env.trash().is_silent = true;
    assert_snapshot!(env.run("restore"), @r#"
$ pi-sessions restore
--- stderr
error: cannot read the trash
Caused by: this system does not tell what lies in its trash
Hint: open the trash of the desktop and put the session's file back from there
--- exit code 1
"#);
}

/// The real trash of a freedesktop system, in a folder of the test.
#[test]
#[cfg(all(unix, not(target_os = "macos")))]
fn the_trash_of_the_desktop_gives_back_what_it_got() {
    let env = TestEnv::new();
    let path = env.session("demo", DEMO);
    fs::write(path.with_extension("jsonl.bak"), "old").expect("a backup");
    let bytes = fs::read(&path).expect("the file");
    let data = env.path().join("xdg");
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pi-sessions"));
        command.env_clear().env("HOME", env.home()).env("XDG_DATA_HOME", &data).env("PI_SESSIONS_ROOT", env.root());
        command.args(args).current_dir(env.path()).stdin(Stdio::null());
        let output = command.output().expect("the command");
        (output.status.code(), String::from_utf8(output.stdout).expect("text"), String::from_utf8(output.stderr).expect("text"))
    };
    assert_eq!(run(&["delete", "demo", "--yes"]).0, Some(0));
    assert!(data.join("Trash/files").join(path.file_name().expect("a name")).exists(), "not in the trash of the machine");
    let listed: serde_json::Value = serde_json::from_str(&run(&["restore", "--all", "--json"]).1).expect("one object");
    assert_eq!((&listed["id"], &listed["name"]), (&"demo".into(), &"Login bug".into()));
    assert!(listed["deleted"].as_str().is_some_and(|time| time.ends_with('Z')), "{listed}");
    fs::remove_dir(path.parent().expect("a folder")).expect("an empty folder");
    let (code, _, stderr) = run(&["restore", "demo"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(fs::read(&path).expect("it is back"), bytes);
    assert!(path.with_extension("jsonl.bak").exists());
    let left = |folder: &str| fs::read_dir(data.join("Trash").join(folder)).expect("a folder").count();
    assert_eq!((left("files"), left("info")), (0, 0));
    // A place that is taken.
    run(&["delete", "demo", "--yes"]);
    env.session("demo", "");
    let (code, _, stderr) = run(&["restore", Path::new(&path).to_str().expect("text")]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("there is a file already") && stderr.contains("--to DIR"), "{stderr}");
    assert_eq!(fs::read_to_string(&path).expect("the new one").lines().count(), 1);
}
