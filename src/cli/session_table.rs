//! A table of sessions: id, a time, a number, perhaps the folder, and the name or the first message.
//!
//! # Invariants
//! - Nothing in it reaches into a terminal. In a pipe ids are whole and times are dates.

use crate::cli::error::CliError;
use crate::cli::text::{cut, cut_start, one_line, one_line_start, pad, width};
use crate::cli::ui::{Look, Ui};
use crate::cli::view::{PIPE_COLUMNS, age};
use crate::storage::list::SessionSummary;

/// What the columns are.
#[derive(Clone, Copy, Debug)]
pub(super) struct SessionTable {
    /// The head of the times.
    pub(super) time: &'static str,
    /// The head of the numbers.
    pub(super) number: &'static str,
    /// How many characters of an id are shown on a terminal.
    pub(super) id_len: usize,
    /// Whether the folders are shown.
    pub(super) with_cwd: bool,
    /// Unix milliseconds.
    pub(super) now_ms: i64,
}

/// A line of the table.
#[derive(Clone, Debug)]
pub(super) struct SessionRow<'a> {
    /// The session.
    pub(super) session: &'a SessionSummary,
    /// Its time, in Unix milliseconds; `None` where nobody knows.
    pub(super) time_ms: Option<i64>,
    /// Its number.
    pub(super) number: String,
    /// What stands behind its name.
    pub(super) mark: &'a str,
}

impl SessionTable {
    /// Prints the table; nothing where there are no rows.
    pub(super) fn print(self, rows: &[SessionRow<'_>], ui: &mut Ui) -> Result<(), CliError> {
        if rows.is_empty() {
            return Ok(());
        }
        let columns = ui.columns();
        let head = ["ID", self.time, self.number, "FOLDER"].map(str::to_owned);
        let cells = rows.iter().map(|row| {
            let id = one_line(&row.session.id);
            let id = if columns.is_some() { id.chars().take(self.id_len).collect() } else { id };
            let time = row.time_ms.map_or_else(|| "unknown".to_owned(), |time_ms| age(time_ms, self.now_ms, columns.is_some()));
            [id, time, row.number.clone(), one_line(&row.session.cwd)]
        });
        let cells: Vec<_> = [head].into_iter().chain(cells).collect();
        let widest = |at: usize| cells.iter().map(|row| width(&row[at])).max().unwrap_or(0);
        let (id_columns, time_columns, number_columns) = (widest(0), widest(1), widest(2));
        // Long folders must not push the names out of sight.
        let cwd_columns = widest(3).min(columns.map_or(usize::MAX, |columns| (columns / 4).max(12)));
        let titles =
            [("NAME OR FIRST MESSAGE".to_owned(), "")].into_iter().chain(rows.iter().map(|row| (title(row.session), row.mark)));
        for (at, ([id, time, number, cwd], (title, mark))) in cells.iter().zip(titles).enumerate() {
            let mut line = format!("{}  {}  {number:>number_columns$}  ", pad(id, id_columns), pad(time, time_columns));
            if self.with_cwd {
                line.push_str(&format!("{}  ", pad(&cut_start(cwd, cwd_columns), cwd_columns)));
            }
            let left = columns.map_or(PIPE_COLUMNS, |columns| columns.saturating_sub(width(&line) + width(mark)).max(10));
            line.push_str(&cut(&title, Some(left)));
            line.push_str(mark);
            let line = line.trim_end();
            let line = if at == 0 { ui.paint(Look::Dim, line) } else { line.to_owned() };
            ui.line(&line)?;
        }
        Ok(())
    }
}

fn title(session: &SessionSummary) -> String {
    match (&session.name, &session.first_message) {
        (Some(name), _) => one_line(name),
        (None, Some(message)) => one_line_start(message, 200),
        (None, None) => "(no user message)".to_owned(),
    }
}
