//! The terminal as a full screen, and its way back.
//!
//! # Invariants
//! - Whatever ends the browser (a key, an error, a panic, a signal), the terminal is as it was before: its own screen, its
//!   cursor, its line mode. [`restore`] does it, and doing it twice does no harm.
//! - While something else has the terminal, nothing is read from it here.

use std::io::{self, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste, Event as TerminalEvent, KeyEventKind};
use crossterm::terminal::{Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use crossterm::{cursor, execute};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;

use crate::cli::browse::event::Event;
use crate::cli::browse::keys::Key;
use crate::cli::error::{CliError, ErrorKind};

/// Whether the terminal is a full screen now.
static IS_FULL: AtomicBool = AtomicBool::new(false);

/// Longer texts some terminals do not take, in bytes.
const MAX_COPIED_BYTES: usize = 100_000;

/// Gives the terminal back, if it is a full screen. Safe to call from anywhere.
pub fn restore() {
    if IS_FULL.swap(false, Ordering::SeqCst) {
        // Nothing can be done about a terminal that is gone.
        let _ = disable_raw_mode();
        let _ = execute!(io::stdout(), DisableBracketedPaste, LeaveAlternateScreen, cursor::Show);
    }
}

/// The full screen; the terminal is as before when this is dropped.
pub struct FullScreen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl std::fmt::Debug for FullScreen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FullScreen").finish_non_exhaustive()
    }
}

impl FullScreen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// When it cannot be taken; then it is as before.
    pub fn enter(is_colored: bool) -> Result<Self, CliError> {
        // Whether there are colours was decided for all output alike.
        crossterm::style::force_color_output(is_colored);
        restore_on_signals();
        take()?;
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout())).map_err(|error| {
            restore();
            terminal_error(error)
        })?;
        Ok(Self { terminal })
    }

    /// Gives the terminal to something else.
    pub fn leave(&self) {
        restore();
    }

    /// Takes it back.
    ///
    /// # Errors
    /// When it cannot be taken.
    pub fn come_back(&mut self) -> Result<(), CliError> {
        take()?;
        // A new one draws everything; clearing the old one would ask the terminal where its cursor is.
        self.terminal = Terminal::new(CrosstermBackend::new(io::stdout())).map_err(terminal_error)?;
        Ok(())
    }

    /// The columns and rows.
    pub fn size(&self) -> (u16, u16) {
        self.terminal.size().map_or((80, 24), |size| (size.width, size.height))
    }

    /// Draws.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub fn draw(&mut self, draw: impl FnOnce(&mut ratatui::Frame<'_>)) -> Result<(), CliError> {
        self.terminal.draw(draw).map(drop).map_err(terminal_error)
    }

    /// The next event, if there is one within some time.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub fn next(&mut self, time: Duration) -> Result<Option<Event>, CliError> {
        if !crossterm::event::poll(time).map_err(terminal_error)? {
            return Ok(None);
        }
        Ok(match crossterm::event::read().map_err(terminal_error)? {
            TerminalEvent::Key(key) if key.kind != KeyEventKind::Release => match Key::of(&key) {
                Some(key) if key.name() == "Ctrl-Z" => {
                    self.suspend()?;
                    let (columns, rows) = self.size();
                    Some(Event::Resize(columns, rows))
                }
                key => key.map(Event::Key),
            },
            TerminalEvent::Paste(text) => Some(Event::Paste(text)),
            TerminalEvent::Resize(columns, rows) => Some(Event::Resize(columns, rows)),
            TerminalEvent::Key(_) | TerminalEvent::Mouse(_) | TerminalEvent::FocusGained | TerminalEvent::FocusLost => None,
        })
    }

    /// Stops the process as a shell's users expect, and takes the terminal when it goes on.
    fn suspend(&mut self) -> Result<(), CliError> {
        restore();
        #[cfg(unix)]
        let _ = signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGTSTP);
        self.come_back()
    }

    /// Puts text on the clipboard of the terminal (OSC 52).
    ///
    /// # Errors
    /// When the terminal is gone.
    pub fn copy(&mut self, text: &str) -> Result<(), CliError> {
        let mut end = text.len().min(MAX_COPIED_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let mut out = io::stdout();
        write!(out, "\u{1b}]52;c;{}\u{7}", STANDARD.encode(&text[..end])).map_err(terminal_error)?;
        out.flush().map_err(terminal_error)
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        restore();
    }
}

fn take() -> Result<(), CliError> {
    IS_FULL.store(true, Ordering::SeqCst);
    let taken = enable_raw_mode()
        .and_then(|()| execute!(io::stdout(), EnterAlternateScreen, Clear(ClearType::All), EnableBracketedPaste));
    taken.map_err(|error| {
        restore();
        terminal_error(error)
    })
}

/// From now on a signal that ends the process gives the terminal back before. Ctrl-C as a signal is seen to elsewhere.
#[cfg(unix)]
fn restore_on_signals() {
    use signal_hook::consts::{SIGHUP, SIGQUIT, SIGTERM};

    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        // Without the thread the signals end the process in their own way.
        let Ok(mut signals) = signal_hook::iterator::Signals::new([SIGTERM, SIGHUP, SIGQUIT]) else { return };
        let wait = move || {
            for signal in signals.forever() {
                restore();
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        };
        let _ = std::thread::Builder::new().name("signals".to_owned()).spawn(wait);
    });
}

#[cfg(not(unix))]
fn restore_on_signals() {}

fn terminal_error(error: io::Error) -> CliError {
    CliError::new(ErrorKind::Io, "the terminal cannot be used").because(error)
}
