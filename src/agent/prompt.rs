//! The system prompt: who the model is, its tools, what the project says, and the skills.
//!
//! # Invariants
//! - The same parts give the same text, so that providers can cache it.

use std::path::{Path, PathBuf};

use super::AgentError;
use super::skill::Skill;
use super::tools::Env;
use crate::llm::ToolDeclaration;
use crate::session::json::well_formed;

/// The files that a project tells agents something in; the first that a folder has counts.
pub const CONTEXT_FILE_NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// The text that a prompt begins with, unless configured.
pub const BASE: &str = "You are a coding agent. You work in the user's folder with the tools that you are given, and you \
answer in plain text that is read in a terminal.

- Look before you change: read the files that matter, and find things out with the tools instead of guessing.
- Do what was asked, completely, and no more. Keep to the style of the code around you.
- Check your work with what the project has for it: its tests, its build, its linters.
- If something fails, say so and say why. If a request can mean different things and the difference matters, ask.
- Be brief. Name files by their paths.";

/// What a project says to agents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextFile {
    /// The file.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
}

/// The parts of a system prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SystemPrompt {
    /// What it begins with; [`BASE`] where there is none.
    pub base: Option<String>,
    /// What is added behind the tools.
    pub addition: Option<String>,
    /// What the project says, the outermost folder first.
    pub context_files: Vec<ContextFile>,
    /// The skills.
    pub skills: Vec<Skill>,
    /// The folder that the tools work in; not mentioned where there is none.
    pub cwd: Option<PathBuf>,
}

impl SystemPrompt {
    /// A prompt of this text, with nothing but the tools added.
    pub fn of(text: impl Into<String>) -> Self {
        Self { base: Some(text.into()), ..Self::default() }
    }

    /// The prompt for the folder of `env`: its context files and those of the folders above it, those of `more_folders`
    /// before them, and the skills in `skill_folders`. What does not exist is left out.
    ///
    /// # Errors
    /// When a context file exists and cannot be read.
    pub async fn load(env: &Env, more_folders: &[PathBuf], skill_folders: &[PathBuf]) -> Result<Self, AgentError> {
        let mut folders: Vec<&Path> = more_folders.iter().map(PathBuf::as_path).collect();
        let mut above: Vec<_> = env.cwd().ancestors().collect();
        above.reverse();
        folders.extend(above);
        let mut context_files: Vec<ContextFile> = Vec::new();
        for folder in folders {
            for name in CONTEXT_FILE_NAMES {
                let path = folder.join(name);
                match env.read(&path).await {
                    Ok(bytes) => {
                        if context_files.iter().all(|file| file.path != path) {
                            context_files.push(ContextFile { path, text: well_formed(&bytes).into_owned() });
                        }
                        break;
                    }
                    Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {}
                    Err(source) => return Err(AgentError::File { path, source }),
                }
            }
        }
        let skills = Skill::find(env, skill_folders).await;
        Ok(Self { context_files, skills, cwd: Some(env.cwd().to_owned()), ..Self::default() })
    }

    /// The text, for a model that has these tools.
    pub fn text(&self, tools: &[ToolDeclaration]) -> String {
        let mut parts = vec![self.base.as_deref().unwrap_or(BASE).trim_end().to_owned()];
        if !tools.is_empty() {
            let lines = tools.iter().map(|tool| format!("\n- {}: {}", tool.name, tool.description));
            parts.push(format!("Your tools:{}", lines.collect::<String>()));
        }
        parts.extend(self.addition.iter().map(|addition| addition.trim_end().to_owned()));
        if !self.context_files.is_empty() {
            let intro = "The project says this to agents; where files differ, the later one decides:";
            let files = self.context_files.iter().map(|file| {
                format!("\n\n<context-file path=\"{}\">\n{}\n</context-file>", file.path.display(), file.text.trim_end())
            });
            parts.push(format!("{intro}{}", files.collect::<String>()));
        }
        if !self.skills.is_empty() {
            let intro = "There are skills. When a task is what one is for, read its file first and follow it:";
            let lines =
                self.skills.iter().map(|skill| format!("\n- {}: {} ({})", skill.name, skill.description, skill.path.display()));
            parts.push(format!("{intro}{}", lines.collect::<String>()));
        }
        parts.extend(self.cwd.iter().map(|cwd| format!("The working folder: {}", cwd.display())));
        parts.join("\n\n")
    }

    /// The skill of this name.
    pub fn skill(&self, name: &str) -> Option<&Skill> {
        self.skills.iter().find(|skill| skill.name == name)
    }
}
