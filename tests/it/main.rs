//! The integration tests, in one binary.

mod golden;
mod listing_cache;
mod llm;
mod properties;
mod search;
mod support;
mod tidy;
