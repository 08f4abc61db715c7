//! Ctrl-C: a command that does not handle it itself ends at once, with exit code 130.
//!
//! # Invariants
//! - Ending at once is safe: an append is one write, and a rewrite ends with a rename.

/// The exit code of a command that was interrupted.
pub(super) const EXIT_INTERRUPTED: u8 = 130;

/// Waits for Ctrl-C on a thread of its own and ends the process. Where the system gives no such thread or signal, the
/// system's own way of ending stays.
pub(super) fn exit_on_interrupt() {
    let wait = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        let Ok(runtime) = runtime else { return };
        if runtime.block_on(tokio::signal::ctrl_c()).is_ok() {
            std::process::exit(i32::from(EXIT_INTERRUPTED));
        }
    };
    let _ = std::thread::Builder::new().name("interrupt".to_owned()).spawn(wait);
}
