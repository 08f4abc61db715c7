//! The integration tests, in one binary.

mod golden;
mod llm;
mod properties;
mod support;
mod tidy;
