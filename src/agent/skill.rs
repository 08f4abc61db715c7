//! Skills: folders with a `SKILL.md` that tells how to do something.
//!
//! # Invariants
//! - The model is told name, description and path; it reads the rest with a tool when it needs it. A skill that the user
//!   invokes by name is sent whole.

use std::path::{Path, PathBuf};

use super::AgentError;
use super::tools::Env;
use crate::session::json::well_formed;

/// The file that makes a folder a skill.
pub const FILE_NAME: &str = "SKILL.md";

/// A skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// Its name.
    pub name: String,
    /// What it is for, in a sentence.
    pub description: String,
    /// Its `SKILL.md`.
    pub path: PathBuf,
}

impl Skill {
    /// Takes the text of a `SKILL.md`; `None` when it has no description. Without a name it has that of its folder.
    pub fn parse(path: &Path, text: &str) -> Option<Self> {
        let (front, _) = split_front(text);
        let folder = path.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let name = front_value(front, "name").or(folder).filter(|name| !name.is_empty())?;
        let description = front_value(front, "description").filter(|description| !description.is_empty())?;
        Some(Self { name, description, path: path.to_owned() })
    }

    /// The skills in `folders`, each a folder of skills. Of skills with one name the first counts. What cannot be read is
    /// left out.
    pub async fn find(env: &Env, folders: &[PathBuf]) -> Vec<Self> {
        let mut skills: Vec<Self> = Vec::new();
        for folder in folders {
            for skill_folder in env.folders_in(folder).await.unwrap_or_default() {
                let path = skill_folder.join(FILE_NAME);
                let Ok(bytes) = env.read(&path).await else { continue };
                if let Some(skill) = Self::parse(&path, &well_formed(&bytes))
                    && skills.iter().all(|known| known.name != skill.name)
                {
                    skills.push(skill);
                }
            }
        }
        skills
    }

    /// The prompt that invokes the skill: its text, then what the user adds.
    ///
    /// # Errors
    /// When its file cannot be read.
    pub async fn invocation(&self, env: &Env, request: &str) -> Result<String, AgentError> {
        let bytes = env.read(&self.path).await.map_err(|source| AgentError::File { path: self.path.clone(), source })?;
        let text = well_formed(&bytes);
        let (_, body) = split_front(&text);
        let folder = self.path.parent().unwrap_or(&self.path).display();
        let mut prompt = format!(
            "Use the skill \"{}\". Its files are in {folder}, and its instructions are:\n\n<skill>\n{}\n</skill>",
            self.name,
            body.trim()
        );
        if !request.trim().is_empty() {
            prompt.push_str(&format!("\n\n{}", request.trim()));
        }
        Ok(prompt)
    }
}

/// The lines between the two `---` at the beginning, and what follows.
fn split_front(text: &str) -> (&str, &str) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Some(rest) = text.strip_prefix("---").and_then(|rest| rest.split_once('\n').map(|(_, rest)| rest)) else {
        return ("", text);
    };
    let mut end = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return (&rest[..end], &rest[end + line.len()..]);
        }
        end += line.len();
    }
    ("", text)
}

/// The value of a key in front matter: plain, quoted, or on the indented lines that follow.
fn front_value(front: &str, key: &str) -> Option<String> {
    let mut lines = front.lines();
    let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(':').map(str::trim))?;
    if matches!(value, "" | ">" | "|" | ">-" | "|-" | ">+" | "|+") {
        let block = lines.take_while(|line| line.is_empty() || line.starts_with([' ', '\t']));
        return Some(block.map(str::trim).collect::<Vec<_>>().join(" ").trim().to_owned());
    }
    let quoted = ['"', '\''].into_iter().find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote));
    Some(quoted.unwrap_or(value).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn front_matter_gives_name_and_description() {
        let check = |text: &str, expect: Option<(&str, &str)>| {
            let skill = Skill::parse(Path::new("/skills/pdf/SKILL.md"), text);
            let found = skill.as_ref().map(|skill| (skill.name.as_str(), skill.description.as_str()));
            assert_eq!(found, expect, "{text:?}");
        };
        check("---\nname: a\ndescription: does it\n---\nbody", Some(("a", "does it")));
        check("---\r\ndescription: \"quoted: text\"\r\n---\r\nbody", Some(("pdf", "quoted: text")));
        check("---\nname: a\ndescription: >\n  two\n  lines\nother: x\n---\n", Some(("a", "two lines")));
        check("---\nname: a\n---\n", None);
        check("no front matter", None);
        check("---\nname: a\ndescription: never ends", None);
        assert_eq!(split_front("---\nname: a\n---\nbody\n").1, "body\n");
    }
}
