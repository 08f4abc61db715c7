//! The inputs kept for the fuzz target: each does what it should, in the ordinary tests too.

use std::path::Path;

use crate::support::exercise::{Effort, exercise};

#[test]
fn every_kept_input_is_read_written_and_repaired() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/seeds");
    let mut count = 0;
    for item in std::fs::read_dir(&folder).expect("the kept inputs") {
        let path = item.expect("an input").path();
        let bytes = std::fs::read(&path).expect("an input");
        let outcome = std::panic::catch_unwind(|| exercise(&bytes, Effort::All));
        assert!(outcome.is_ok(), "{}", path.display());
        count += 1;
    }
    assert!(count >= 40, "{count}");
}
