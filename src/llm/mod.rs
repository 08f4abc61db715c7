//! Model providers: one trait, one file per wire protocol.
