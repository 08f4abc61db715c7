//! The integration tests, one binary.

mod golden;
mod support;
