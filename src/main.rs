//! The command: hands the arguments to [`pi_sessions::cli`] and turns the result into an exit code.
//!
//! # Invariants
//! - Nothing is decided here.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(pi_sessions::cli::main())
}
