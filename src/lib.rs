//! Coding-agent sessions as append-only JSONL trees, in the format of Pi.

pub mod session;

#[cfg(feature = "models")]
pub mod llm;
