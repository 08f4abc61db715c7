//! What the integration tests share.

pub mod model_server;
