//! What several tests share.

pub mod json;
pub mod plain_session;
