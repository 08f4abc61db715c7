//! `tree`.
