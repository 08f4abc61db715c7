//! `completions`.

use crate::support::cli::TestEnv;

#[test]
fn every_shell_gets_a_script_that_knows_the_commands() {
    let env = TestEnv::new().var("PI_SESSIONS_CONFIG", "/nowhere/config.toml");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let run = env.run(&format!("completions {shell}"));
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{shell}");
        // The first three ask the program, which knows the sessions too; see cmd_complete.
        let words: &[&str] = match shell {
            "bash" | "zsh" | "fish" => &["command pi-sessions complete", shell],
            _ => &["goto", "summary", "pi-sessions"],
        };
        for word in words {
            assert!(run.stdout.contains(word), "{shell}: {word}");
        }
    }
    assert_eq!(env.run("completions tcsh").code, 2);
}
