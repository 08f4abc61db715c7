//! x
pub mod cut;
pub mod tokens;
