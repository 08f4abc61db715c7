//! The integration tests, one binary.

mod golden;
mod properties;
mod support;
