//! The integration tests, in one binary.

mod crash;
mod golden;
mod llm;
mod processes;
mod properties;
mod reading;
mod support;
mod tidy;
