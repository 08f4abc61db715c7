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
