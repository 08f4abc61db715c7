//! Follows a session file: gives each entry when its line is whole, whoever appended it.
//!
//! # Invariants
//! - An entry is given once, also when the file is cut, replaced by a rewritten one, or gone for a while: lines that were
//!   given are known by a hash, until the file is that of another session.
//! - Of a line that is not whole nothing is given; its bytes wait for the rest. A whole last record without a newline is
//!   given.
//! - The file is read in blocks, from where the last look ended. What lies before is looked at no more, but for the few
//!   bytes that show that the file is the same.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::session::entry::{Entry, Header};
use crate::storage::StorageError;
use crate::storage::fs::{Fs, FsFile, OpenFor, open_regular, read_exact_at};
use crate::storage::jsonl::ANCHOR_BYTES;
use crate::storage::jsonl::codec::{decode_entry, decode_header};
use crate::storage::jsonl::scan::record_end;

/// How much is read at once.
const BLOCK_BYTES: usize = 64 * 1024;

/// What a look at a followed file finds.
#[derive(Debug)]
pub enum Followed<'a> {
    /// The file is not there, and was at the last look or was never looked for.
    Missing,
    /// The file was cut, or another one took its place; what follows is of the file as it is now.
    Replaced,
    /// The header of a session that was not followed yet.
    Header(&'a Header),
    /// An entry, and its line.
    Entry(&'a Entry, &'a [u8]),
    /// A line that is no entry.
    Damaged(&'a [u8]),
}

/// A session file that is followed.
#[derive(Debug)]
pub struct Follower {
    fs: Arc<dyn Fs>,
    path: PathBuf,
    place: Place,
    /// Hashes of the records that were given.
    given: HashSet<u64>,
    session_id: Option<String>,
}

#[derive(Debug)]
enum Place {
    /// Never looked for.
    Unknown,
    /// It was not there.
    Missing,
    /// It was read so far.
    At(Reached),
}

/// How far a file was read.
#[derive(Debug, Default)]
struct Reached {
    identity: (u64, u64),
    len: u64,
    /// The last bytes before `len`.
    anchor: Vec<u8>,
    /// The bytes of the last line, which has no newline yet.
    partial: Vec<u8>,
    /// Whether the first line is behind.
    has_header: bool,
}

impl Follower {
    /// Follows the file at `path`, which need not exist yet, from its beginning.
    pub fn new(fs: Arc<dyn Fs>, path: &Path) -> Self {
        Self { fs, path: path.to_owned(), place: Place::Unknown, given: HashSet::new(), session_id: None }
    }

    /// Looks at the file and gives what is new. `O(bytes that were appended)`.
    ///
    /// # Errors
    /// When the file is there and cannot be read, or is no regular file; the next look goes on where this one ended.
    pub fn poll(&mut self, give: &mut dyn FnMut(Followed<'_>)) -> Result<(), StorageError> {
        // Opened anew each time: a handle of before would go on reading a file that was replaced.
        let file = match open_regular(&*self.fs, &self.path, OpenFor::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if !matches!(self.place, Place::Missing) {
                    give(Followed::Missing);
                }
                self.place = Place::Missing;
                return Ok(());
            }
            Err(source) => return Err(StorageError::io("open", &self.path, source)),
        };
        let meta = file.metadata().map_err(|source| StorageError::io("read", &self.path, source))?;
        let mut reached = match std::mem::replace(&mut self.place, Place::Unknown) {
            Place::At(reached) if reached.identity == meta.identity && reached.is_in(&*file, meta.len) => reached,
            Place::At(_) => {
                give(Followed::Replaced);
                Reached::default()
            }
            Place::Unknown | Place::Missing => Reached::default(),
        };
        reached.identity = meta.identity;
        let result = self.read_on(&*file, &mut reached, give);
        self.place = Place::At(reached);
        result.map_err(|source| StorageError::io("read", &self.path, source))
    }

    fn read_on(&mut self, file: &dyn FsFile, reached: &mut Reached, give: &mut dyn FnMut(Followed<'_>)) -> io::Result<()> {
        let mut block = vec![0; BLOCK_BYTES];
        loop {
            let len = file.read_at(&mut block, reached.len)?;
            if len == 0 {
                break;
            }
            let bytes = &block[..len];
            reached.len += len as u64;
            reached.anchor.extend_from_slice(&bytes[len.saturating_sub(ANCHOR_BYTES)..]);
            let excess = reached.anchor.len().saturating_sub(ANCHOR_BYTES);
            reached.anchor.drain(..excess);
            let mut rest = bytes;
            while let Some(end) = memchr::memchr(b'\n', rest) {
                reached.partial.extend_from_slice(&rest[..end]);
                let line = std::mem::take(&mut reached.partial);
                self.take_line(&line, &mut reached.has_header, give);
                rest = &rest[end + 1..];
            }
            reached.partial.extend_from_slice(rest);
        }
        // A writer that ends files without a newline is done; one that is writing has not closed the last bracket. When
        // the newline comes, the line is known.
        let line = reached.partial.trim_ascii();
        if reached.has_header && record_end(line) == Some(line.len()) && decode_entry(line).is_some() {
            self.take_line(line, &mut true, give);
        }
        Ok(())
    }

    /// Gives the records of a line; several stand there after a newline was lost.
    fn take_line(&mut self, line: &[u8], has_header: &mut bool, give: &mut dyn FnMut(Followed<'_>)) {
        let mut rest = line.trim_ascii();
        while !rest.is_empty() {
            let record = record_end(rest).map_or(rest, |end| &rest[..end]);
            rest = rest[record.len()..].trim_ascii_start();
            if !*has_header {
                *has_header = true;
                if let Some(header) = decode_header(record) {
                    self.take_header(&header, give);
                    continue;
                }
            }
            let mut hasher = DefaultHasher::new();
            hasher.write(record);
            if !self.given.insert(hasher.finish()) {
                continue;
            }
            match decode_entry(record) {
                Some(entry) => give(Followed::Entry(&entry, record)),
                None => give(Followed::Damaged(record)),
            }
        }
    }

    fn take_header(&mut self, header: &Header, give: &mut dyn FnMut(Followed<'_>)) {
        if self.session_id.as_ref() != Some(&header.id) {
            self.session_id = Some(header.id.clone());
            self.given.clear();
            give(Followed::Header(header));
        }
    }
}

impl Reached {
    /// Whether what was read is still the beginning of the file.
    fn is_in(&self, file: &dyn FsFile, len: u64) -> bool {
        let mut anchor = vec![0; self.anchor.len()];
        let start = self.len.saturating_sub(self.anchor.len() as u64);
        len >= self.len && read_exact_at(file, &mut anchor, start).is_ok() && anchor == self.anchor
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::fs::StdFs;
    use crate::storage::testing::file;

    const HEADER: &str = "{\"type\":\"session\",\"version\":3,\"id\":\"s\",\"timestamp\":\"\",\"cwd\":\"/w\"}\n";

    fn entry(id: &str) -> String {
        format!("{{\"type\":\"custom\",\"id\":\"{id}\",\"parentId\":null,\"timestamp\":\"\",\"customType\":\"c\"}}\n")
    }

    fn append(path: &Path, text: &str) {
        let file = StdFs.open(path, OpenFor::Append).expect("it is there");
        assert_eq!(file.append(text.as_bytes()).expect("room"), text.len());
    }

    /// Puts another file in the place of this one.
    fn replace(path: &Path, text: &str) {
        let (_folder, new) = file("new.jsonl", text.as_bytes());
        StdFs.rename(&new, path).expect("it moves");
    }

    /// Looks once and shows what came.
    fn look(follower: &mut Follower) -> String {
        let mut seen = Vec::new();
        follower
            .poll(&mut |followed| {
                seen.push(match followed {
                    Followed::Missing => "missing".to_owned(),
                    Followed::Replaced => "replaced".to_owned(),
                    Followed::Header(header) => format!("header {}", header.id),
                    Followed::Entry(entry, line) => {
                        assert!(line.starts_with(b"{") && line.ends_with(b"}"));
                        entry.id.to_string()
                    }
                    Followed::Damaged(line) => format!("damaged {}", String::from_utf8_lossy(line)),
                });
            })
            .expect("it can be read");
        seen.join(" ")
    }

    fn follow(text: &str) -> (tempfile::TempDir, PathBuf, Follower) {
        let (folder, path) = file("s.jsonl", text.as_bytes());
        let follower = Follower::new(Arc::new(StdFs), &path);
        (folder, path, follower)
    }

    #[test]
    fn each_entry_comes_once_when_its_line_is_whole() {
        let (_folder, path, mut follower) = follow(&format!("{HEADER}{}", entry("a")));
        assert_eq!(look(&mut follower), "header s a");
        assert_eq!(look(&mut follower), "");
        let line = entry("b");
        append(&path, &line[..20]);
        assert_eq!(look(&mut follower), "");
        append(&path, &line[20..line.len() - 1]);
        assert_eq!(look(&mut follower), "b");
        append(&path, &format!("\n{}{}", entry("c"), entry("d")));
        assert_eq!(look(&mut follower), "c d");
    }

    #[test]
    fn lines_of_any_length_come_whole() {
        let long = entry("long").replace("\"c\"", &format!("\"{}\"", "x".repeat(3 * BLOCK_BYTES)));
        let (_folder, path, mut follower) = follow(HEADER);
        assert_eq!(look(&mut follower), "header s");
        append(&path, &format!("{long}{}", entry("b")));
        assert_eq!(look(&mut follower), "long b");
        assert_eq!(look(&mut follower), "");
    }

    #[test]
    fn a_file_that_is_cut_or_replaced_gives_only_what_is_new() {
        let (_folder, path, mut follower) = follow(&format!("{HEADER}{}{}", entry("a"), entry("b")));
        assert_eq!(look(&mut follower), "header s a b");
        replace(&path, &format!("{HEADER}{}{}", entry("a"), entry("c")));
        assert_eq!(look(&mut follower), "replaced c");
        StdFs.open(&path, OpenFor::Append).and_then(|file| file.set_len(HEADER.len() as u64)).expect("it can be cut");
        assert_eq!(look(&mut follower), "replaced");
        append(&path, &format!("{}{}", entry("a"), entry("d")));
        assert_eq!(look(&mut follower), "d");
        // Another session has all of its entries to show.
        replace(&path, &format!("{}{}", HEADER.replace("\"s\"", "\"t\""), entry("a")));
        assert_eq!(look(&mut follower), "replaced header t a");
    }

    #[test]
    fn a_file_may_come_late_and_go() {
        let (_folder, path, mut follower) = follow("");
        StdFs.remove_file(&path).expect("it goes");
        assert_eq!(look(&mut follower), "missing");
        assert_eq!(look(&mut follower), "");
        replace(&path, "");
        assert_eq!(look(&mut follower), "");
        append(&path, HEADER);
        assert_eq!(look(&mut follower), "header s");
        append(&path, &entry("a"));
        assert_eq!(look(&mut follower), "a");
        StdFs.remove_file(&path).expect("it goes");
        assert_eq!(look(&mut follower), "missing");
        replace(&path, &format!("{HEADER}{}{}", entry("a"), entry("b")));
        assert_eq!(look(&mut follower), "b");
    }

    #[test]
    fn damage_is_given_and_hides_nothing() {
        let fused = format!("{}{}", entry("a").trim_end(), entry("b"));
        let (_folder, _path, mut follower) = follow(&format!("{HEADER}{{\"torn\n\n{fused}nonsense\n{}", entry("c")));
        assert_eq!(look(&mut follower), "header s damaged {\"torn a b damaged nonsense c");
    }
}
