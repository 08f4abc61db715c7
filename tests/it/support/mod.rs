//! What several tests share.

pub mod cli;
pub mod counting_fs;
pub mod exercise;
pub mod exported;
pub mod fault_fs;
pub mod fixed;
pub mod jq;
pub mod json;
pub mod messy_root;
pub mod model_server;
pub mod plain_session;
#[cfg(unix)]
pub mod pty;
pub mod screen;
pub mod slow_reader;

/// Says how much a test tried; shown with `--nocapture`.
#[expect(clippy::print_stdout, reason = "for people who ask for it")]
pub fn told(tries: &str) {
    println!("{}: {tries}", std::thread::current().name().unwrap_or_default());
}
