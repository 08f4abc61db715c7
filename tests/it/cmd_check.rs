//! `check`.
