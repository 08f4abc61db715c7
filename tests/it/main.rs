//! The integration tests, in one binary.

mod llm;
mod support;
