//! `man`.

use std::fs;

use insta::assert_snapshot;

use crate::support::cli::TestEnv;

/// The heads of a page's sections.
fn sections(page: &str) -> Vec<String> {
    page.lines().filter_map(|line| line.strip_prefix(".SH ")).map(|head| head.trim_matches('"').to_owned()).collect()
}

#[test]
fn a_page_has_its_sections() {
    let env = TestEnv::new().var("PI_SESSIONS_CONFIG", "/nowhere/config.toml");
    let whole = env.run("man");
    assert_eq!((whole.code, whole.stderr.as_str()), (0, ""));
    assert_eq!(
        sections(&whole.stdout),
        [
            "NAME",
            "SYNOPSIS",
            "DESCRIPTION",
            "OPTIONS",
            "GLOBAL OPTIONS",
            "COMMANDS",
            "SESSIONS AND ENTRIES",
            "EXIT STATUS",
            "FILES",
            "ENVIRONMENT",
            "SEE ALSO"
        ]
    );
    for word in ["@leaf", r"pi\-sessions\-goto(1)", "PI_SESSIONS_ROOT", "config.toml", "check found damage"] {
        assert!(whole.stdout.contains(word), "{word}");
    }
    let goto = env.run("man goto").stdout;
    assert_eq!(
        sections(&goto),
        [
            "NAME",
            "SYNOPSIS",
            "DESCRIPTION",
            "OPTIONS",
            "GLOBAL OPTIONS",
            "EXAMPLES",
            "EXIT STATUS",
            "FILES",
            "ENVIRONMENT",
            "SEE ALSO"
        ]
    );
    let title = format!(r#".TH "pi-sessions-goto" 1 "" "pi-sessions {}" "pi-sessions""#, env!("CARGO_PKG_VERSION"));
    assert!(goto.starts_with(&title), "{goto}");
    assert!(goto.contains(".nf\npi\\-sessions goto"), "examples stand as they are: {goto}");
    // Another name of a command is that command.
    assert_eq!(env.run("man tail").stdout, env.run("man watch").stdout);
}

#[test]
fn all_pages_go_to_a_folder() {
    let env = TestEnv::new();
    let dir = env.path().join("man/man1");
    let run = env.run(&format!("man --dir {}", dir.display()));
    assert_eq!(run.code, 0, "{run}");
    let mut names: Vec<_> = fs::read_dir(&dir)
        .expect("the folder")
        .map(|item| item.expect("an item").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    let help = env.run("-h").stdout;
    let commands = help.split("Commands:\n").nth(1).expect("commands").lines().take_while(|line| !line.is_empty());
    let mut expect: Vec<_> =
        commands.map(|line| format!("pi-sessions-{}.1", line.split_whitespace().next().expect("a name"))).collect();
    expect.push("pi-sessions.1".to_owned());
    expect.sort();
    assert_eq!(names, expect);
    // Again, over the old ones.
    fs::write(dir.join("pi-sessions.1"), "old").expect("a file");
    assert_eq!(env.run(&format!("man --dir {}", dir.display())).code, 0);
    assert_eq!(fs::read_to_string(dir.join("pi-sessions.1")).expect("a page"), env.run("man").stdout);
}

#[test]
fn a_command_that_is_none_is_told() {
    let env = TestEnv::new();
    assert_snapshot!(env.run("man nothing"), @r#"
$ pi-sessions man nothing
--- stderr
error: there is no command "nothing"
Hint: pi-sessions --help
--- exit code 2
"#);
    assert_eq!(env.run("man goto --dir x").code, 2);
}
