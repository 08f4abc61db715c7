//! What several tests share.

pub mod exported;
pub mod json;
pub mod model_server;
pub mod plain_session;
