//! Bytes to context: any bytes as a session file, guided by coverage.
//!
//! ```sh
//! cargo install cargo-fuzz
//! mkdir -p target/fuzz-corpus
//! cargo fuzz run context -s none --fuzz-dir tests/fuzz --target-dir target/fuzz \
//!     target/fuzz-corpus tests/fuzz/seeds fixtures/context -- -dict=tests/fuzz/session.dict -timeout=20 -max_len=8192
//! ```
//!
//! Stable Rust will do. libFuzzer puts what it learns into the first folder and only reads the others. What it finds goes, made small by
//! `cargo fuzz tmin`, into `seeds`, and `cargo test` runs every file there.

#![no_main]

#[path = "../it/support"]
mod support {
    pub mod exercise;
    #[expect(dead_code, reason = "the tests use the rest of it")]
    pub mod fault_fs;
    pub mod fixed;
    pub mod slow_reader;
}

use libfuzzer_sys::fuzz_target;

use support::exercise::{Effort, exercise};

fuzz_target!(|bytes: &[u8]| {
    // What writes is slower; a third of the inputs gets it.
    let effort = if bytes.len() % 3 == 0 { Effort::All } else { Effort::Reads };
    exercise(bytes, effort);
});
