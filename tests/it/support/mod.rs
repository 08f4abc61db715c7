//! What several tests share.

pub mod counting_fs;
pub mod json;
pub mod messy_root;
pub mod model_server;
pub mod plain_session;
