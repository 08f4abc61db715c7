//! `--help`, `--version`, and command lines that cannot be understood.

use insta::assert_snapshot;

use crate::support::cli::TestEnv;

/// The commands, as the help of the whole lists them.
fn commands() -> Vec<String> {
    let help = TestEnv::new().run("-h").stdout;
    let list = help.split("Commands:\n").nth(1).expect("a list of commands");
    let lines = list.lines().take_while(|line| !line.is_empty());
    lines.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

#[test]
fn the_help_of_the_whole() {
    let env = TestEnv::new();
    assert_snapshot!(env.run("-h"), @r#"
$ pi-sessions -h
Keeps sessions of coding agents: append-only JSONL trees in the format of Pi

Usage: pi-sessions [OPTIONS] <COMMAND>

Commands:
  new          Creates a session and prints its path
  list         Lists the sessions of this folder, the latest activity first
  browse       Shows sessions and their trees on the full screen
  search       Finds what was said in the sessions of this folder, on every branch
  show         Describes a session: folder, model, leaf, counts, tokens, cost, parent and forks
  stats        Adds up tokens, cost, messages, tool calls and time, in all or in groups
  tree         Draws the tree, the active path marked, with labels and summaries
  diff         Compares two branches: where they part, what each cost and touched, and what was said
  watch        Follows a session: prints entries as they are appended [alias: tail]
  path         Prints the entries from the root to the leaf as JSON lines
  context      Shows what the model would see: the active path, compaction applied, as messages
  append       Appends messages or entries, JSON lines on standard input, and prints their ids
  chat         Talks to a model: a new session, or one that exists
  resume       Goes on with a session: chat on one that exists
  goto         Moves the leaf: the next entry hangs from there
  fork         Makes a new session of a path and prints the new file's path
  import       Imports sessions of Claude Code, Codex, opencode, or of Pi from elsewhere
  compact      Compacts the context: a summary takes the place of older messages
  name         Shows, sets or clears the name of a session
  label        Shows, sets or clears labels; a label names an entry
  model        Shows or sets the model that the session goes on with
  move         Gives a session another folder to work in, and moves its file there
  delete       Moves sessions to the trash
  restore      Brings sessions back from the trash; without SESSION lists what is there
  prune        Moves old or empty sessions to the trash
  export       Writes a session as an HTML page, Markdown or JSON
  check        Looks for faults in sessions, by default in all
  repair       Mends a damaged session and keeps the old bytes beside it
  completions  Prints a script that completes commands in a shell
  man          Prints a manual page, or writes them all
  config       Shows what is in force, and from where

Options:
  -h, --help     Print help (see more with '--help')
  -V, --version  Print version

Global options:
      --root <DIR>    The folder that holds the sessions
      --json          Print one JSON object a line
      --color <WHEN>  When to use colours: auto, always or never
  -v, --verbose       Tell more about what is done

pi-sessions --help tells how sessions and entries are named.
"#);
    assert_snapshot!(env.run("--help"), @r#"
$ pi-sessions --help
Keeps sessions of coding agents: append-only JSONL trees in the format of Pi

Usage: pi-sessions [OPTIONS] <COMMAND>

Commands:
  new          Creates a session and prints its path
  list         Lists the sessions of this folder, the latest activity first
  browse       Shows sessions and their trees on the full screen
  search       Finds what was said in the sessions of this folder, on every branch
  show         Describes a session: folder, model, leaf, counts, tokens, cost, parent and forks
  stats        Adds up tokens, cost, messages, tool calls and time, in all or in groups
  tree         Draws the tree, the active path marked, with labels and summaries
  diff         Compares two branches: where they part, what each cost and touched, and what was said
  watch        Follows a session: prints entries as they are appended [alias: tail]
  path         Prints the entries from the root to the leaf as JSON lines
  context      Shows what the model would see: the active path, compaction applied, as messages
  append       Appends messages or entries, JSON lines on standard input, and prints their ids
  chat         Talks to a model: a new session, or one that exists
  resume       Goes on with a session: chat on one that exists
  goto         Moves the leaf: the next entry hangs from there
  fork         Makes a new session of a path and prints the new file's path
  import       Imports sessions of Claude Code, Codex, opencode, or of Pi from elsewhere
  compact      Compacts the context: a summary takes the place of older messages
  name         Shows, sets or clears the name of a session
  label        Shows, sets or clears labels; a label names an entry
  model        Shows or sets the model that the session goes on with
  move         Gives a session another folder to work in, and moves its file there
  delete       Moves sessions to the trash
  restore      Brings sessions back from the trash; without SESSION lists what is there
  prune        Moves old or empty sessions to the trash
  export       Writes a session as an HTML page, Markdown or JSON
  check        Looks for faults in sessions, by default in all
  repair       Mends a damaged session and keeps the old bytes beside it
  completions  Prints a script that completes commands in a shell
  man          Prints a manual page, or writes them all
  config       Shows what is in force, and from where

Options:
  -h, --help
          Print help (see a summary with '-h')

  -V, --version
          Print version

Global options:
      --root <DIR>
          The folder that holds the sessions

      --json
          Print one JSON object a line

      --color <WHEN>
          When to use colours: auto, always or never

  -v, --verbose
          Tell more about what is done

SESSION is a path (with a slash, or ending in .jsonl), an id, a name, the beginning of an id, or
@last: the latest session of this folder that has a message. Sessions of this folder come first.

ENTRY is @leaf, @prev (the leaf before the last goto), an id, a label, tN (the N-th user message of
the active path), or the beginning of an id; ~K behind it goes K steps towards the root.

Exit codes: 0 done, 1 it failed, 2 wrong usage or no such session or entry, 3 damage found by check,
130 interrupted, 255 a bug.
"#);
}

#[test]
fn every_command_explains_itself_with_examples() {
    let env = TestEnv::new();
    let help: Vec<_> = commands().iter().map(|command| env.run(&format!("{command} --help"))).collect();
    for run in &help {
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{run}");
        let examples = run.stdout.split("Examples:\n").nth(1).unwrap_or_else(|| panic!("no examples in {run}"));
        assert!(examples.lines().count() >= 2, "{run}");
    }
    let all = help.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    assert_snapshot!("help", all);
}

#[test]
fn wrong_usage_says_what_is_wrong() {
    let env = TestEnv::new();
    assert_snapshot!(env.run("lst"), @r#"
$ pi-sessions lst
--- stderr
error: unrecognized subcommand 'lst'

  tip: a similar subcommand exists: 'list'

Usage: pi-sessions [OPTIONS] <COMMAND>

For more information, try '--help'.
--- exit code 2
"#);
    assert_snapshot!(env.run("list --nmed"), @r#"
$ pi-sessions list --nmed
--- stderr
error: unexpected argument '--nmed' found

  tip: a similar argument exists: '--named'

Usage: pi-sessions list --named

For more information, try '--help'.
--- exit code 2
"#);
    assert_snapshot!(env.run("goto one"), @r#"
$ pi-sessions goto one
--- stderr
error: the following required arguments were not provided:
  <ENTRY>

Usage: pi-sessions goto <SESSION> <ENTRY>

For more information, try '--help'.
--- exit code 2
"#);
    assert_snapshot!(env.run("--json goto one"), @r#"
$ pi-sessions --json goto one
--- stderr
{"error":{"kind":"usage","message":"the following required arguments were not provided: <ENTRY>","hints":["pi-sessions --help"]}}
--- exit code 2
"#);
    assert_snapshot!(env.run("list --limit many --json"), @r#"
$ pi-sessions list --limit many --json
--- stderr
{"error":{"kind":"usage","message":"invalid value 'many' for '--limit <N>': invalid digit found in string","hints":["pi-sessions --help"]}}
--- exit code 2
"#);
}

#[test]
fn without_a_command_the_help_is_shown_as_wrong_usage() {
    let run = TestEnv::new().run("");
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    assert!(run.stderr.contains("Commands:"), "{run}");
    let run = TestEnv::new().run("--json");
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    assert!(run.stderr.starts_with(r#"{"error":{"kind":"usage","#), "{run}");
}

#[test]
fn the_version_is_that_of_the_package() {
    let run = TestEnv::new().run("--version");
    assert_eq!((run.code, run.stdout), (0, format!("pi-sessions {}\n", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn global_options_stand_before_or_after_the_command() {
    let env = TestEnv::new();
    let at = env.path().join("elsewhere");
    let before = env.run(&format!("--root {} --json new", at.display()));
    let after = env.run(&format!("new --json --root {}", at.display()));
    for run in [before, after] {
        assert!(run.stdout.contains(r#""path":"[TMP]/elsewhere/--home-me-project--/"#), "{run}");
    }
}

#[test]
fn help_is_coloured_on_a_terminal_only() {
    assert!(TestEnv::new().terminal(80).run("list --help").stdout.contains('\u{1b}'));
    assert!(!TestEnv::new().terminal(80).var("NO_COLOR", "1").run("list --help").stdout.contains('\u{1b}'));
    assert!(!TestEnv::new().run("list --help").stdout.contains('\u{1b}'));
    assert!(TestEnv::new().run("--color always list --help").stdout.contains('\u{1b}'));
}
