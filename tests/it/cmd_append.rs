//! `append`.
