//! `config`, the configuration file, and the root of sessions.

use insta::assert_snapshot;

use crate::support::cli::TestEnv;

#[test]
fn what_is_in_force_is_shown_with_its_origin() {
    let env = TestEnv::new();
    assert_snapshot!(env.run("config"), @r#"
$ pi-sessions config
config                          [TMP]/config/config.toml  (default, no such file)
root                            [TMP]/data/sessions  (default)
root.layout                     a folder for each cwd  (default)
model                           offline/echo  (default)
thinking                        off  (default)
max_turns                       50  (default)
flush                           turn  (default)
skills                          none  (default)
context.micro_compaction        false  (default)
context.truncation              false  (default)
compaction.auto                 true  (default)
compaction.reserve_tokens       16384  (default)
compaction.keep_recent_tokens   20000  (default)
compaction.summary_by           model  (default)
compaction.summary_model        none  (default)
compaction.fallback_extractive  false  (default)
cache.enabled                   true  (default)
tools.allowed                   read write edit bash  (default)
tools.write_anywhere            false  (default)
requests.timeout_ms             300000  (default)
requests.max_retries            3  (default)
"#);
    env.write("config/config.toml", "root = \"../kept\"\n[context]\ntruncation = true\n");
    assert_snapshot!(env.run("config"), @r#"
$ pi-sessions config
config                          [TMP]/config/config.toml  (default)
root                            [TMP]/kept  ([TMP]/config/config.toml)
root.layout                     a folder for each cwd  ([TMP]/config/config.toml)
model                           offline/echo  (default)
thinking                        off  (default)
max_turns                       50  (default)
flush                           turn  (default)
skills                          none  (default)
context.micro_compaction        false  (default)
context.truncation              true  ([TMP]/config/config.toml)
compaction.auto                 true  (default)
compaction.reserve_tokens       16384  (default)
compaction.keep_recent_tokens   20000  (default)
compaction.summary_by           model  (default)
compaction.summary_model        none  (default)
compaction.fallback_extractive  false  (default)
cache.enabled                   true  (default)
tools.allowed                   read write edit bash  (default)
tools.write_anywhere            false  (default)
requests.timeout_ms             300000  (default)
requests.max_retries            3  (default)
"#);
    assert_snapshot!(env.run("config --json"), @r#"
$ pi-sessions config --json
{"key":"config","value":"[TMP]/config/config.toml","origin":"default"}
{"key":"root","value":"[TMP]/kept","origin":"[TMP]/config/config.toml"}
{"key":"root.layout","value":"a folder for each cwd","origin":"[TMP]/config/config.toml"}
{"key":"model","value":"offline/echo","origin":"default"}
{"key":"thinking","value":"off","origin":"default"}
{"key":"max_turns","value":50,"origin":"default"}
{"key":"flush","value":"turn","origin":"default"}
{"key":"skills","value":[],"origin":"default"}
{"key":"context.micro_compaction","value":false,"origin":"default"}
{"key":"context.truncation","value":true,"origin":"[TMP]/config/config.toml"}
{"key":"compaction.auto","value":true,"origin":"default"}
{"key":"compaction.reserve_tokens","value":16384,"origin":"default"}
{"key":"compaction.keep_recent_tokens","value":20000,"origin":"default"}
{"key":"compaction.summary_by","value":"model","origin":"default"}
{"key":"compaction.summary_model","value":null,"origin":"default"}
{"key":"compaction.fallback_extractive","value":false,"origin":"default"}
{"key":"cache.enabled","value":true,"origin":"default"}
{"key":"tools.allowed","value":["read","write","edit","bash"],"origin":"default"}
{"key":"tools.write_anywhere","value":false,"origin":"default"}
{"key":"requests.timeout_ms","value":300000,"origin":"default"}
{"key":"requests.max_retries","value":3,"origin":"default"}
"#);
    assert_snapshot!(env.run("new"), @r#"
$ pi-sessions new
[TMP]/kept/--home-me-project--/2026-11-30T12-00-04-000Z_019ad3c5-0000-7000-8000-000000000001.jsonl
"#);
}

/// The root that is in force, where it comes from, and its layout.
fn root(env: &TestEnv, args: &str) -> String {
    let run = env.run(&format!("config --json {args}"));
    let value = |key: &str| {
        let lines = run.stdout.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
        lines.into_iter().find(|line| line["key"] == key).unwrap_or_else(|| panic!("{run}"))
    };
    format!("{} | {} | {}{}", value("root")["value"], value("root")["origin"], value("root.layout")["value"], run.stderr)
        .replace('"', "")
}

#[test]
fn the_root_is_found_in_its_order() {
    let project = |env: TestEnv| {
        let cwd = env.path().join("project");
        env.cwd(cwd)
    };
    let env = project(TestEnv::new());
    assert_snapshot!(root(&env, ""), @"[TMP]/data/sessions | default | a folder for each cwd");
    std::fs::create_dir_all(env.home().join(".pi/agent/sessions")).expect("a folder");
    assert_snapshot!(root(&env, ""), @"[TMP]/home/.pi/agent/sessions | default | a folder for each cwd");
    let env = env.var("PI_CODING_AGENT_DIR", "~/agent");
    assert_snapshot!(root(&env, ""), @"[TMP]/home/agent/sessions | PI_CODING_AGENT_DIR | a folder for each cwd");
    env.write("home/agent/settings.json", r#"{"sessionDir":"~/flat"}"#);
    assert_snapshot!(root(&env, ""), @"[TMP]/home/flat | [TMP]/home/agent/settings.json | flat");
    env.write("project/.pi/settings.json", r#"{"theme":"dark","sessionDir":".pi/sessions"}"#);
    assert_snapshot!(root(&env, ""), @"[TMP]/project/.pi/sessions | [TMP]/project/.pi/settings.json | flat");
    let env = env.var("PI_CODING_AGENT_SESSION_DIR", "/pi/sessions");
    assert_snapshot!(root(&env, ""), @"/pi/sessions | PI_CODING_AGENT_SESSION_DIR | flat");
    env.write("config/config.toml", "root = \"~/kept\"\n");
    assert_snapshot!(root(&env, ""), @"[TMP]/home/kept | [TMP]/config/config.toml | a folder for each cwd");
    let env = env.var("PI_SESSIONS_ROOT", "here");
    assert_snapshot!(root(&env, ""), @"[TMP]/project/here | PI_SESSIONS_ROOT | a folder for each cwd");
    assert_snapshot!(root(&env, "--root ../there"), @"[TMP]/there | --root | a folder for each cwd");
    assert_snapshot!(env.run("config --root ''"), @r#"
$ pi-sessions config --root ''
--- stderr
error: a value is required for '--root <DIR>' but none was supplied

For more information, try '--help'.
--- exit code 2
"#);
}

#[test]
fn settings_of_pi_that_cannot_be_read_are_told_and_left_out() {
    let env = TestEnv::new();
    env.write("home/.pi/agent/settings.json", "{ \"sessionDir\": 5 }");
    assert_snapshot!(root(&env, ""), @"[TMP]/data/sessions | default | a folder for each cwdwarning: ignoring settings that cannot be read (invalid type: integer `5`, expected a string at line 1 column 17): [TMP]/home/.pi/agent/settings.json");
}

#[test]
fn new_sessions_lie_flat_in_a_folder_of_pi_that_is_flat() {
    let env = TestEnv::new();
    let env = env.var("PI_CODING_AGENT_SESSION_DIR", "/x");
    assert!(root(&env, "").ends_with("flat"));
    let dir = env.path().join("flat");
    let env = env.var("PI_CODING_AGENT_SESSION_DIR", dir);
    assert_snapshot!(env.run("new"), @r#"
$ pi-sessions new
[TMP]/flat/2026-11-30T12-00-02-000Z_019ad3c5-0000-7000-8000-000000000001.jsonl
"#);
}

#[test]
fn a_wrong_field_is_named_with_file_and_line() {
    let env = TestEnv::new();
    env.write("config/config.toml", "root = \"x\"\n\n[context]\nmicro = true\n");
    assert_snapshot!(env.run("list"), @r#"
$ pi-sessions list
--- stderr
error: wrong configuration: unknown field `micro`, expected `micro_compaction` or `truncation`; field "micro", line 4 of [TMP]/config/config.toml
--- exit code 1
"#);
    env.write("config/config.toml", "root = 5\n");
    assert_snapshot!(env.run("list --json"), @r#"
$ pi-sessions list --json
--- stderr
{"error":{"kind":"config","message":"wrong configuration: invalid type: integer `5`, expected a string; field \"root\", line 1 of [TMP]/config/config.toml","hints":[]}}
--- exit code 1
"#);
    env.write("config/config.toml", "root = \n");
    assert_snapshot!(env.run("list"), @r#"
$ pi-sessions list
--- stderr
error: wrong configuration: string values must be quoted, expected literal string; field "root", line 1 of [TMP]/config/config.toml
--- exit code 1
"#);
    let env = TestEnv::new().var("PI_SESSIONS_CONFIG", "mine.toml");
    assert_snapshot!(env.run("list"), @r#"
$ pi-sessions list
--- stderr
error: cannot read the configuration /home/me/project/mine.toml
Caused by: No such file or directory (os error 2)
--- exit code 1
"#);
}

const PROVIDERS: &str = r#"
model = "cloud/big"
thinking = "high"
max_turns = 7
flush = "entry"
[compaction]
fallback_extractive = true
summary_model = "local/small"
[tools]
allowed = ["read"]
[hooks]
tool_call = ["ask", "--first"]
context = "shorten"
[providers.cloud]
api = "anthropic-messages"
base_url = "https://user:hush-url@example.com/x?key=hush-query"
api_key = "hush-key"
headers = { x-team = "hush-header" }
[[providers.cloud.models]]
id = "big"
context_window = 200000
max_tokens = 8192
prices = { input = 3, output = 15.5 }
compaction = { keep_recent_tokens = 9 }
[providers.local]
api = "openai-completions"
base_url = "http://127.0.0.1:1/v1"
api_key_env = "LOCAL_KEY"
[[providers.local.models]]
id = "small"
context_window = 8000
"#;

#[test]
fn everything_in_force_is_shown_and_no_secret() {
    let env = TestEnv::new();
    env.write("config/config.toml", PROVIDERS);
    let run = env.run("config");
    assert!(!format!("{run}{}", env.run("config --json")).contains("hush"), "{run}");
    assert_snapshot!(run);
    let env = env.var("LOCAL_KEY", "hush-variable");
    let run = env.run("config");
    let key = run.stdout.lines().find(|line| line.starts_with("providers.local.api_key")).expect("the key");
    assert!(key.ends_with("  ***  (LOCAL_KEY)") && !run.stdout.contains("hush"), "{run}");
}

#[test]
fn a_provider_file_names_the_model_of_its_folder() {
    let env = TestEnv::new();
    let env = {
        let cwd = env.path().join("project");
        env.cwd(cwd)
    };
    env.write("config/config.toml", PROVIDERS);
    let lines = |env: &TestEnv| {
        let run = env.run("config");
        let is_of_it = |line: &&str| line.starts_with("model ") || line.starts_with("provider.json");
        let lines: Vec<_> = run.stdout.lines().filter(is_of_it).map(str::to_owned).collect();
        format!("{}{}", lines.join("\n"), run.stderr)
    };
    assert_snapshot!(lines(&env), @"model                                                     cloud/big  ([TMP]/config/config.toml)");
    env.write("project/provider.json", r#"{"baseURL": "http://127.0.0.1:9/v1", "model": "m", "contextWindow": 100}"#);
    assert_snapshot!(lines(&env), @r#"
model                                                     127.0.0.1/m  ([TMP]/project/provider.json)
provider.json.api                                         openai-completions  ([TMP]/project/provider.json)
provider.json.baseURL                                     http://127.0.0.1:9/v1  ([TMP]/project/provider.json)
provider.json.model                                       m  ([TMP]/project/provider.json)
provider.json.contextWindow                               100  ([TMP]/project/provider.json)
provider.json.maxTokens                                   none  ([TMP]/project/provider.json)
provider.json.apiKey                                      none  (PI_SESSIONS_API_KEY is not set)
"#);
    let env = env.var("PI_SESSIONS_MODEL", "small");
    assert_snapshot!(lines(&env), @r#"
model                                                     local/small  (PI_SESSIONS_MODEL)
provider.json.api                                         openai-completions  ([TMP]/project/provider.json)
provider.json.baseURL                                     http://127.0.0.1:9/v1  ([TMP]/project/provider.json)
provider.json.model                                       m  ([TMP]/project/provider.json)
provider.json.contextWindow                               100  ([TMP]/project/provider.json)
provider.json.maxTokens                                   none  ([TMP]/project/provider.json)
provider.json.apiKey                                      none  (PI_SESSIONS_API_KEY is not set)
"#);
    for (text, field, line) in [
        ("{\n\"baseURL\": 5}", "baseURL", "line 2"),
        ("{\"baseURL\": \"ftp://x\", \"model\": \"m\", \"contextWindow\": 1}", "baseURL", "line 1"),
        ("{\"baseURL\": \"http://x\", \"model\": \"m\",\n \"contextWindow\": 0}", "contextWindow", "line 2"),
        ("{\"baseURL\": \"http://x\", \"model\": \"m\",\n \"contextWindow\": 1.5}", "contextWindow", "line 2"),
        ("{\"baseURL\": \"http://x\", \"model\": \"m\"}", "contextWindow", "missing"),
        ("{\"baseURL\": \"http://x\", \"contextWindow\": 1}", "model", "missing"),
        ("{\"baseUrl\": \"http://x\"}", "baseUrl", "baseURL, apiKey, model, contextWindow, api, maxTokens"),
        ("{\"baseURL\": \"http://x\", \"model\": \"m\", \"contextWindow\": 1, \"api\": \"x\"}", "api", "anthropic-messages"),
        ("{\"apiKey\": \"hush\n", "no JSON", "line 2"),
    ] {
        env.write("project/provider.json", text);
        let run = env.run("config");
        assert_eq!(run.code, 1, "{run}");
        let names_all = [field, line, "project/provider.json"].iter().all(|word| run.stderr.contains(word));
        assert!(names_all && !run.stderr.contains("hush"), "{run}");
    }
}

#[test]
fn what_no_type_refuses_is_refused_with_its_place() {
    let env = TestEnv::new();
    for (text, words) in [
        ("model = \"a/b\"\n", &["\"model\"", "line 1", "there is no model a/b"][..]),
        ("flush = \"never\"\n", &["unknown variant `never`", "`turn`", "line 1"]),
        ("\nthinking = \"much\"\n", &["unknown variant", "`xhigh`", "line 2"]),
        ("[tools]\nallowed = [\"rm\"]\n", &["`bash`", "line 2"]),
        ("[hooks]\ntool_calls = \"x\"\n", &["unknown field", "`tool_call`", "line 2"]),
        ("[hooks]\ntool_call = []\n", &["no program is named", "line 2"]),
        ("[providers.x]\napi = \"openai-completions\"\n", &["providers.x.base_url", "missing"]),
        ("[providers.x]\napi = \"openai-completions\"\nbase_url = \"hush\"\n", &["providers.x.base_url", "http://", "line 3"]),
        ("[providers.x]\nbase_url = \"http://x\"\n", &["missing field `api`"]),
        ("[providers.x]\napi = \"offline\"\n[[providers.x.models]]\nid = \"m\"\ncontext_window = 0\n", &["nonzero", "line 5"]),
        ("[providers.x]\napi = \"offline\"\nheaders = \"hush\"\n", &["expected a map", "headers", "line 3"]),
        ("[providers.offline]\napi = \"offline\"\n", &["a provider's name"]),
        ("max_turns = 0\n", &["max_turns", "line 1"]),
    ] {
        env.write("config/config.toml", text);
        let run = env.run("config");
        assert_eq!(run.code, 1, "{run}");
        assert!(words.iter().all(|word| run.stderr.contains(word)) && !run.stderr.contains("hush"), "{words:?} {run}");
    }
}

#[test]
fn the_example_names_every_field() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/.pi-sessions.example/config.toml")).expect("a file");
    let all: String = text
        .lines()
        .filter_map(|line| {
            // A field or a table that was switched off.
            let bare = line.strip_prefix("# ").unwrap_or(line);
            let is_field = bare.starts_with('[') || bare.split_once(" = ").is_some_and(|(name, _)| !name.contains(' '));
            is_field.then(|| format!("{bare}\n"))
        })
        .collect();
    let env = TestEnv::new();
    env.write("config/config.toml", &all.replace("openai/gpt-5-mini", "openai/gpt-5"));
    let run = env.run("config");
    assert_eq!(run.code, 0, "{run}");
    assert!(!run.stdout.lines().any(|line| line.contains("(default)") && !line.starts_with("config ")), "{run}");
}
