//! Ctrl-C: a command that does not handle it itself ends at once, with exit code 130.
//!
//! # Invariants
//! - Ending at once is safe: an append is one write, and a rewrite ends with a rename.

use std::sync::{Mutex, PoisonError, mpsc};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The exit code of a command that was interrupted.
const EXIT_INTERRUPTED: i32 = 130;

/// Who handles interrupts instead.
static LISTENER: Mutex<Option<UnboundedSender<()>>> = Mutex::new(None);

/// The interrupts of a command that handles them itself, until this is dropped.
#[derive(Debug)]
pub(super) struct Interrupts(UnboundedReceiver<()>);

impl Interrupts {
    /// From now on an interrupt ends nothing but comes here.
    pub(super) fn listen() -> Self {
        let (sender, receiver) = unbounded_channel();
        *LISTENER.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        Self(receiver)
    }

    /// Waits for the next interrupt; for ever where there is none.
    pub(super) async fn next(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        LISTENER.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// From when this returns, Ctrl-C ends the process. Where the system gives no thread or no such signal, its own way of
/// ending stays.
pub(super) fn exit_on_interrupt() {
    let (ready, is_ready) = mpsc::channel();
    let wait = move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build() else { return };
        runtime.block_on(async {
            let Ok(mut interrupts) = interrupts() else { return };
            let _ = ready.send(());
            while interrupts.recv().await.is_some() {
                let listener = LISTENER.lock().unwrap_or_else(PoisonError::into_inner);
                if listener.as_ref().is_none_or(|listener| listener.send(()).is_err()) {
                    crate::cli::browse::restore_terminal();
                    std::process::exit(EXIT_INTERRUPTED);
                }
            }
        });
    };
    if std::thread::Builder::new().name("interrupt".to_owned()).spawn(wait).is_ok() {
        // It ends with an error where the thread gave up.
        let _ = is_ready.recv();
    }
}

#[cfg(unix)]
fn interrupts() -> std::io::Result<tokio::signal::unix::Signal> {
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())
}

#[cfg(windows)]
fn interrupts() -> std::io::Result<tokio::signal::windows::CtrlC> {
    tokio::signal::windows::ctrl_c()
}
