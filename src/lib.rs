//! Coding-agent sessions as append-only JSONL trees, in the format of Pi.

pub mod compaction;
pub mod session;
pub mod storage;

#[cfg(feature = "models")]
pub mod agent;
#[cfg(feature = "models")]
pub mod llm;
