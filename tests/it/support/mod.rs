//! What several tests share.

pub mod cli;
pub mod json;
pub mod model_server;
pub mod plain_session;
