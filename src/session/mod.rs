//! Sessions as values: entries, messages, the tree, the context, statistics.
//!
//! # Invariants
//! - No I/O, no clock, no random numbers, nothing async: the same input gives the same output.
//! - Nothing here recurses over a tree or over nested JSON.

#[cfg(feature = "search")]
pub(crate) mod bytes;
pub mod context;
pub mod entry;
pub(crate) mod hash;
pub mod incoming;
pub mod json;
pub mod labels;
pub mod message;
pub mod outline;
pub mod parting;
pub mod request;
pub mod stats;
pub mod tree;
pub mod usage;
pub mod usage_report;
