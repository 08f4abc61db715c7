//! Session files.
mod codec;
mod recovery;
mod scan;
