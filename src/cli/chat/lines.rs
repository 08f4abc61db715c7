//! Lines that a person types: edited ones between turns, and plain ones while something runs.
//!
//! # Invariants
//! - The two never read at the same time.
//! - The history is a private file.

use std::path::PathBuf;

use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use crate::cli::error::{CliError, ErrorKind};
use crate::cli::surroundings::Surroundings;
use crate::cli::ui::Ui;

/// What stands before the line.
const PROMPT: &str = "> ";

/// The name of the file in the platform's folder for data.
const HISTORY_NAME: &str = "chat-history.txt";

/// The most lines that the history keeps.
const HISTORY_LINES: usize = 2000;

/// Something that was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Typed {
    /// A line.
    Line(String),
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D, or the end of the input.
    End,
}

/// Where lines come from.
#[derive(Debug)]
pub enum Lines {
    /// A line editor on the terminal.
    Editor(Box<Editor>),
    /// The input as it is.
    Plain,
}

/// A line editor and its history.
#[derive(Debug)]
pub struct Editor {
    editor: DefaultEditor,
    history: Option<PathBuf>,
}

impl Lines {
    /// The best that the terminal allows. Without a history file there is a history of this run.
    pub fn open(surroundings: &Surroundings, ui: &Ui) -> Self {
        if !ui.can_edit_lines() {
            return Self::Plain;
        }
        let config = rustyline::Config::builder().max_history_size(HISTORY_LINES);
        let config = config.and_then(|config| config.history_ignore_dups(true));
        let Ok(config) = config.map(|config| config.history_ignore_space(true).build()) else { return Self::Plain };
        let Ok(mut editor) = DefaultEditor::with_config(config) else { return Self::Plain };
        let folder = surroundings.data_dir.clone().filter(|folder| surroundings.fs.create_dir_all(folder).is_ok());
        let history = folder.map(|folder| folder.join(HISTORY_NAME));
        if let Some(history) = &history {
            // There may be none yet.
            let _ = editor.load_history(history);
        }
        Self::Editor(Box::new(Editor { editor, history }))
    }

    /// Reads a line; `initial` stands there already, to be edited. A line that ends with a backslash goes on in the next.
    ///
    /// # Errors
    /// When the terminal cannot be read.
    pub fn read(&mut self, initial: Option<String>, ui: &mut Ui) -> Result<Typed, CliError> {
        ui.flush()?;
        let mut text = String::new();
        let mut initial = initial;
        loop {
            let prompt = if text.is_empty() { PROMPT } else { ". " };
            let line = match self.read_one(prompt, initial.take(), ui)? {
                Typed::Line(line) => line,
                other => return Ok(other),
            };
            match line.strip_suffix('\\') {
                Some(more) => {
                    text.push_str(more);
                    text.push('\n');
                }
                None => {
                    text.push_str(&line);
                    self.remember(&text);
                    return Ok(Typed::Line(text));
                }
            }
        }
    }

    fn read_one(&mut self, prompt: &str, initial: Option<String>, ui: &mut Ui) -> Result<Typed, CliError> {
        let Self::Editor(editor) = self else {
            if let Some(initial) = initial {
                ui.aside(&format!("text to edit:\n{initial}"));
            }
            return Ok(ui.ask_line(prompt)?.map_or(Typed::End, Typed::Line));
        };
        let initial = initial.unwrap_or_default();
        match editor.editor.readline_with_initial(prompt, (&initial, "")) {
            Ok(line) => Ok(Typed::Line(line)),
            Err(ReadlineError::Interrupted) => Ok(Typed::Interrupt),
            Err(ReadlineError::Eof) => Ok(Typed::End),
            Err(error) => Err(CliError::new(ErrorKind::Io, "cannot read the terminal").because(error)),
        }
    }

    fn remember(&mut self, text: &str) {
        let Self::Editor(editor) = self else { return };
        if !text.trim().is_empty()
            && editor.editor.add_history_entry(text).is_ok_and(|added| added)
            && let Some(history) = &editor.history
        {
            // A history that cannot be kept is no reason to stop.
            let _ = editor.editor.append_history(history);
        }
    }
}

/// Lines that are typed while something runs. The terminal is in its usual mode then, and gives whole lines.
#[derive(Debug)]
pub struct TypedLines {
    is_open: bool,
}

impl TypedLines {
    /// Listens to the terminal of this process, or to nothing.
    pub fn new(is_open: bool) -> Self {
        Self { is_open }
    }

    /// Waits for the next line; for ever where there is none.
    pub async fn next(&mut self) -> String {
        while self.is_open {
            match read_terminal().await {
                Some(line) => return line,
                None => self.is_open = false,
            }
        }
        std::future::pending().await
    }
}

/// What the terminal gives next; `None` at the end of the input.
#[cfg(unix)]
async fn read_terminal() -> Option<String> {
    use std::os::fd::AsFd as _;

    use tokio::net::unix::pipe::Receiver;

    let terminal = std::io::stdin().as_fd().try_clone_to_owned().ok()?;
    // Made anew for each line: being ready is told once, and reading when nothing is there would block.
    let terminal = Receiver::from_file_unchecked(std::fs::File::from(terminal)).ok()?;
    terminal.readable().await.ok()?;
    let mut bytes = [0; 4096];
    let len = terminal.try_read(&mut bytes).ok().filter(|len| *len > 0)?;
    Some(String::from_utf8_lossy(&bytes[..len]).into_owned())
}

#[cfg(not(unix))]
async fn read_terminal() -> Option<String> {
    None
}
