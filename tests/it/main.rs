//! The integration tests, in one binary.

mod export;
mod golden;
mod llm;
mod properties;
mod support;
mod tidy;
