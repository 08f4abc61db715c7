//! What commands that talk to models share: how a harness is set up, driven, shown and closed.
//!
//! # Invariants
//! - While something runs, everything that happens is shown as it happens, and Ctrl-C ends it.
//! - A session that was opened here is closed here, so that nothing that was said is lost.

pub mod conversation;
pub mod event_view;
pub mod lines;
pub mod printer;
pub mod rounds;
pub mod setup;
pub mod slash;
pub mod summarizing;
