//! All output: data on standard output, notes, questions, progress and errors on standard error.
//!
//! # Invariants
//! - Without a terminal there is no colour (unless asked for), nothing is cut, and no progress is shown.
//! - Notes and errors are made fit for a terminal here; whoever prints data of a session does it with
//!   [`text`](super::text).

use std::ffi::OsString;
use std::fmt;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read, Write};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::cli::error::{CliError, ErrorKind};
use crate::cli::surroundings::{Input, Output, Surroundings};
use crate::cli::text;
use crate::cli::view::size;
use crate::storage::cores::write_on_all_cores;

/// The columns of help that no terminal shows.
const HELP_COLUMNS: usize = 100;

/// When output is coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ColorWhen {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl ColorWhen {
    /// What `--color` asks for, in arguments that are not parsed yet.
    pub(super) fn find<'a>(args: impl Iterator<Item = &'a OsString>) -> Self {
        let mut found = Self::Auto;
        let mut expected = false;
        for arg in args {
            let Some(arg) = arg.to_str() else { continue };
            let value = if std::mem::take(&mut expected) { Some(arg) } else { arg.strip_prefix("--color=") };
            match value {
                Some("always") => found = Self::Always,
                Some("never") => found = Self::Never,
                Some(_) => found = Self::Auto,
                None => expected = arg == "--color",
            }
        }
        found
    }
}

/// How things look, where colours are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Headings, and the one thing that matters in a line.
    Strong,
    /// What is less important.
    Dim,
    /// Ids.
    Id,
    /// Labels and names.
    Name,
    /// What was searched for.
    Hit,
    /// What is current or active.
    Active,
    /// Errors and damage.
    Bad,
    /// Notes that ask for attention.
    Warn,
}

impl Look {
    fn style(self) -> Style {
        match self {
            Self::Strong => Style::new().bold(),
            Self::Dim => Style::new().dimmed(),
            Self::Id => AnsiColor::Yellow.on_default(),
            Self::Name => AnsiColor::Cyan.on_default(),
            Self::Hit => AnsiColor::Red.on_default().bold(),
            Self::Active => AnsiColor::Green.on_default().bold(),
            Self::Bad => AnsiColor::Red.on_default().bold(),
            Self::Warn => AnsiColor::Yellow.on_default().bold(),
        }
    }
}

type ErrStream = Arc<Mutex<Box<dyn Write + Send>>>;

/// Where a command prints and asks.
pub struct Ui {
    out: BufWriter<Box<dyn Write + Send>>,
    err: ErrStream,
    input: Input,
    out_columns: Option<usize>,
    err_columns: Option<usize>,
    out_colored: bool,
    err_colored: bool,
    json: bool,
    verbose: bool,
    /// Whether a line of [`Ui::status`] is on the terminal.
    has_status: bool,
}

impl fmt::Debug for Ui {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ui").field("json", &self.json).field("out_columns", &self.out_columns).finish_non_exhaustive()
    }
}

impl Ui {
    /// Takes the streams of the surroundings.
    pub(super) fn new(mut surroundings: Surroundings, json: bool, color: ColorWhen) -> (Self, Surroundings) {
        let plain = surroundings.var("NO_COLOR").is_some() || surroundings.var("TERM").is_some_and(|term| term == "dumb");
        let take = |output: &mut Output| {
            let columns = output.columns.take();
            (std::mem::replace(&mut output.writer, Box::new(io::sink())), columns)
        };
        let (out, out_columns) = take(&mut surroundings.stdout);
        let (err, err_columns) = take(&mut surroundings.stderr);
        let input = std::mem::replace(
            &mut surroundings.stdin,
            Input { reader: Box::new(io::empty()), is_terminal: false, is_process: false },
        );
        let colored = |columns: Option<usize>| match color {
            ColorWhen::Auto => columns.is_some() && !plain,
            ColorWhen::Always => true,
            ColorWhen::Never => false,
        };
        let ui = Self {
            out: BufWriter::with_capacity(64 * 1024, out),
            err: Arc::new(Mutex::new(err)),
            input,
            out_columns,
            err_columns,
            out_colored: colored(out_columns),
            err_colored: colored(err_columns),
            json,
            verbose: false,
            has_status: false,
        };
        (ui, surroundings)
    }

    pub(super) fn set_verbose(&mut self, verbose: bool) {
        self.verbose = verbose;
    }

    /// Whether data is printed as JSON.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Whether more is told than usual.
    pub fn is_verbose(&self) -> bool {
        self.verbose
    }

    /// The columns that a line of data may take; `None` for a pipe, where nothing is cut and times are absolute.
    pub fn columns(&self) -> Option<usize> {
        self.out_columns
    }

    pub(super) fn help_width(&self) -> usize {
        self.out_columns.unwrap_or(HELP_COLUMNS)
    }

    pub(super) fn out_is_colored(&self) -> bool {
        self.out_colored
    }

    pub(super) fn err_is_colored(&self) -> bool {
        self.err_colored
    }

    /// `text` for standard output with a look.
    pub fn paint(&self, look: Look, text: &str) -> String {
        paint(self.out_colored, look, text)
    }

    /// As [`Ui::paint`], for other threads.
    pub(super) fn painter(&self) -> impl Fn(Look, &str) -> String + Copy + Sync + use<> {
        let is_colored = self.out_colored;
        move |look, text| paint(is_colored, look, text)
    }

    /// Prints data as it is.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn data(&mut self, text: &str) -> Result<(), CliError> {
        self.clear_status();
        self.bytes(text.as_bytes())
    }

    /// Prints bytes as they are.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        self.out.write_all(bytes).map_err(output_error)
    }

    /// Prints a line of data.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn line(&mut self, line: &str) -> Result<(), CliError> {
        self.data(line)?;
        self.bytes(b"\n")
    }

    /// Prints one line of a session file: byte for byte, but for what would reach into a terminal.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn record(&mut self, line: &[u8]) -> Result<(), CliError> {
        match self.out_columns {
            None => {
                self.bytes(line)?;
                self.bytes(b"\n")
            }
            Some(_) => self.line(&text::escape_json(&text::lines(&String::from_utf8_lossy(line)))),
        }
    }

    /// Prints one object as a line of JSON.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn json(&mut self, value: &impl Serialize) -> Result<(), CliError> {
        self.clear_status();
        serde_json::to_writer(text::EscapedJson(&mut self.out), value).map_err(|error| match error.is_io() {
            true => output_error(error.into()),
            false => CliError::bug("a value cannot be shown as JSON").because(error),
        })?;
        self.bytes(b"\n")
    }

    /// As [`Ui::lines`], of JSON.
    ///
    /// # Errors
    /// When they cannot be written.
    pub(super) fn json_lines(
        &mut self,
        count: usize,
        json: &(dyn Fn(Range<usize>, &mut Vec<u8>) + Sync),
    ) -> Result<(), CliError> {
        self.lines(count, &|range, lines| {
            json(range, lines);
            if text::may_have_bare_in_json(lines) {
                let escaped = text::escape_json(&String::from_utf8_lossy(lines)).into_owned();
                *lines = escaped.into_bytes();
            }
        })
    }

    /// Prints lines for the positions up to `count`, in their order. `lines` writes those of a few positions into an empty
    /// buffer, and is called on all cores.
    ///
    /// # Errors
    /// When they cannot be written.
    pub(super) fn lines(&mut self, count: usize, lines: &(dyn Fn(Range<usize>, &mut Vec<u8>) + Sync)) -> Result<(), CliError> {
        // So many that a thread's buffer stays in its cache.
        const LINES_A_PART: usize = 256;
        self.clear_status();
        let parts: Vec<usize> = (0..count).step_by(LINES_A_PART).collect();
        let make = |from: &usize, out: &mut Vec<u8>| lines(*from..count.min(from + LINES_A_PART), out);
        write_on_all_cores(&parts, &make, &mut |lines| self.out.write_all(lines)).map_err(output_error)
    }

    /// Tells something beside the data.
    pub fn note(&mut self, message: &str) {
        let head = paint(self.err_colored, Look::Dim, "note:");
        self.tell(&format!("{head} {}", text::one_line(message)));
    }

    /// Tells something that asks for attention.
    pub fn warn(&mut self, message: &str) {
        let head = paint(self.err_colored, Look::Warn, "warning:");
        self.tell(&format!("{head} {}", text::one_line(message)));
    }

    /// Says what was done.
    pub fn done(&mut self, message: &str) {
        self.tell(&text::one_line(message));
    }

    /// Tells of a call of a tool: what was called, then what came of it.
    pub fn tool(&mut self, called: &str, result: &str, is_error: bool) {
        let (mark, look) = if is_error { ("x", Look::Bad) } else { ("*", Look::Active) };
        let mark = paint(self.err_colored, look, mark);
        let result = paint(self.err_colored, if is_error { Look::Warn } else { Look::Dim }, &text::one_line(result));
        self.tell(&format!("{mark} {} {result}", text::one_line(called)));
    }

    /// Tells something of little weight.
    pub fn aside_dim(&mut self, message: &str) {
        let line = paint(self.err_colored, Look::Dim, &text::one_line(message));
        self.tell(&line);
    }

    /// Prints text beside the data, several lines of it.
    pub fn aside(&mut self, message: &str) {
        self.tell(text::lines(message).trim_end_matches('\n'));
    }

    fn tell(&mut self, line: &str) {
        // So that both streams come in order where they end in one place.
        let _ = self.out.flush();
        self.clear_status();
        let mut err = self.err.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = writeln!(err, "{line}");
    }

    /// Shows what is going on, in a line that what is printed next replaces; silent without a terminal.
    pub fn status(&mut self, message: &str) {
        let Some(columns) = self.err_columns.filter(|_| !self.json) else { return };
        let _ = self.out.flush();
        self.clear_status();
        let line = text::one_line_start(message, columns);
        let line = paint(self.err_colored, Look::Dim, &text::cut(&line, Some(columns.saturating_sub(1))));
        let mut err = self.err.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = write!(err, "{line}");
        let _ = err.flush();
        self.has_status = true;
    }

    /// Takes the line of [`Ui::status`] away.
    pub fn clear_status(&mut self) {
        if std::mem::take(&mut self.has_status) {
            let mut err = self.err.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = write!(err, "\r\u{1b}[K");
            let _ = err.flush();
        }
    }

    /// Shows an error, as JSON where that was asked for.
    pub(super) fn error(&mut self, error: &CliError) {
        if error.kind == ErrorKind::ClosedPipe {
            return;
        }
        if self.json {
            let view = ErrorView { kind: error.kind.as_str(), message: &error.to_string(), hints: error.hints() };
            let json = serde_json::to_string(&ErrorLine { error: view }).unwrap_or_default();
            self.tell(&text::escape_json(&json));
            return;
        }
        if let Some(rendered) = error.rendered() {
            self.tell(rendered.trim_end_matches('\n'));
            return;
        }
        let chain = error.chain();
        for (at, message) in chain.iter().enumerate() {
            let head = if at == 0 { paint(self.err_colored, Look::Bad, "error:") } else { "Caused by:".to_owned() };
            self.tell(&format!("{head} {}", text::one_line(message)));
        }
        for hint in error.hints() {
            let head = paint(self.err_colored, Look::Strong, "Hint:");
            self.tell(&format!("{head} {}", text::one_line(hint)));
        }
    }

    /// Whether a person can be asked.
    pub fn can_ask(&self) -> bool {
        self.input.is_terminal && self.err_columns.is_some()
    }

    /// Asks a question that is answered by yes or no; anything else is no.
    ///
    /// # Errors
    /// When the answer cannot be read.
    pub fn ask(&mut self, question: &str) -> Result<bool, CliError> {
        let _ = self.out.flush();
        {
            let mut err = self.err.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = write!(err, "{} [y/N] ", text::one_line(question));
            let _ = err.flush();
        }
        let mut answer = String::new();
        let read = BufReader::new(&mut self.input.reader).read_line(&mut answer);
        read.map_err(|error| CliError::new(ErrorKind::Io, "cannot read the answer").because(error))?;
        Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
    }

    /// Whether a line editor may take the terminal over.
    pub fn can_edit_lines(&self) -> bool {
        self.input.is_terminal && self.input.is_process
    }

    /// Asks for one line; `None` at the end of the input. Nothing behind the line is read.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn ask_line(&mut self, question: &str) -> Result<Option<String>, CliError> {
        let _ = self.out.flush();
        self.clear_status();
        {
            let mut err = self.err.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = write!(err, "{question}");
            let _ = err.flush();
        }
        let mut line = Vec::new();
        let mut byte = [0];
        loop {
            let read = match self.input.reader.read(&mut byte) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(CliError::new(ErrorKind::Io, "cannot read the answer").because(error)),
                Ok(read) => read,
            };
            match (read, byte[0]) {
                (0, _) if line.is_empty() => return Ok(None),
                (0, _) | (_, b'\n') => return Ok(Some(String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned())),
                (_, byte) => line.push(byte),
            }
        }
    }

    /// Whether a person would have to type what is read from standard input.
    pub fn input_is_terminal(&self) -> bool {
        self.input.is_terminal
    }

    /// Reads all of standard input.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read_input(&mut self) -> Result<Vec<u8>, CliError> {
        let mut bytes = Vec::new();
        let read = self.input.reader.read_to_end(&mut bytes);
        read.map_err(|error| CliError::new(ErrorKind::Io, "cannot read standard input").because(error))?;
        Ok(bytes)
    }

    /// A line on the terminal that tells how far something is; silent without a terminal.
    pub fn progress(&self) -> Progress {
        let shown = self.err_columns.is_some() && !self.json;
        Progress { err: shown.then(|| self.err.clone()), shown: Mutex::new(0) }
    }

    /// Sees that all data is out.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn flush(&mut self) -> Result<(), CliError> {
        self.out.flush().map_err(output_error)
    }
}

#[derive(Serialize)]
struct ErrorLine<'a> {
    error: ErrorView<'a>,
}

#[derive(Serialize)]
struct ErrorView<'a> {
    kind: &'a str,
    message: &'a str,
    hints: &'a [String],
}

fn paint(colored: bool, look: Look, text: &str) -> String {
    if !colored || text.is_empty() {
        return text.to_owned();
    }
    let style = look.style();
    format!("{style}{text}{style:#}")
}

fn output_error(error: io::Error) -> CliError {
    match error.kind() {
        io::ErrorKind::BrokenPipe => CliError::new(ErrorKind::ClosedPipe, "the output was closed"),
        _ => CliError::new(ErrorKind::Io, "cannot write the output").because(error),
    }
}

/// Shows how far something is. Dropping it clears the line.
pub struct Progress {
    err: Option<ErrStream>,
    /// The hundredth shown last, plus one; 0 before the first.
    shown: Mutex<u64>,
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").field("is_shown", &self.err.is_some()).finish()
    }
}

impl Progress {
    /// Fewer steps than this are done before a line could be read.
    const MIN_TOTAL: u64 = 500;

    /// Fewer bytes than this are read before a line could be read.
    const MIN_BYTES: u64 = 8_000_000;

    /// Tells that `done` of `total` are done.
    pub fn show(&self, what: &str, done: u64, total: u64) {
        if total >= Self::MIN_TOTAL {
            self.tell(done, total, &|| format!("{what} {done} of {total}"));
        }
    }

    /// Tells that `done` of `total` bytes are done.
    pub fn show_size(&self, what: &str, done: u64, total: u64) {
        if total >= Self::MIN_BYTES {
            self.tell(done, total, &|| format!("{what} {} of {}", size(done), size(total)));
        }
    }

    fn tell(&self, done: u64, total: u64, line: &dyn Fn() -> String) {
        let Some(err) = self.err.as_ref() else { return };
        let hundredth = done.saturating_mul(100) / total + 1;
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if hundredth > *shown {
            *shown = hundredth;
            let mut err = err.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = write!(err, "\r{}\u{1b}[K", line());
            let _ = err.flush();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let shown = *self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(err) = self.err.as_ref().filter(|_| shown > 0) {
            let mut err = err.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = write!(err, "\r\u{1b}[K");
            let _ = err.flush();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps what is written.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no writer panicked").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn progress_goes_on_by_hundredths_and_clears_its_line() {
        let shown = |tell: &dyn Fn(&Progress)| {
            let kept = Kept::default();
            let err: ErrStream = Arc::new(Mutex::new(Box::new(kept.clone())));
            let progress = Progress { err: Some(err), shown: Mutex::new(0) };
            tell(&progress);
            drop(progress);
            String::from_utf8(kept.0.lock().expect("no writer panicked").clone())
                .expect("text")
                .replace("\r", "|")
                .replace("\u{1b}[K", "")
        };
        assert_eq!(shown(&|progress| progress.show("reading", 5, 499)), "");
        assert_eq!(
            shown(&|progress| [0, 4, 10, 9, 1000].into_iter().for_each(|done| progress.show("reading", done, 1000))),
            "|reading 0 of 1000|reading 10 of 1000|reading 1000 of 1000|"
        );
        assert_eq!(shown(&|progress| progress.show_size("indexing", 5, 7_999_999)), "");
        assert_eq!(
            shown(&|progress| [999_999, 2_000_000, 2_000_001]
                .into_iter()
                .for_each(|done| progress.show_size("indexing", done, 10_000_000))),
            "|indexing 1.0 MB of 10.0 MB|indexing 2.0 MB of 10.0 MB|"
        );
    }
}
