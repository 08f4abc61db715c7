//! Exports of session files, and the tags of an HTML page.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pi_sessions::export::{DamageNote, ExportInput, ExportOptions, ExportSource, Exported, SourceError, export, find_format};
use pi_sessions::session::stats::StatsFold;
use pi_sessions::session::tree::EntryIndex;
use pi_sessions::storage::SessionRead;
use pi_sessions::storage::fs::StdFs;
use pi_sessions::storage::jsonl::JsonlStorage;

struct Lines<'a>(&'a dyn SessionRead);

impl ExportSource for Lines<'_> {
    fn line(&self, index: EntryIndex) -> Result<Vec<u8>, SourceError> {
        Ok(self.0.line(index)?)
    }
}

/// The session file of a fixture.
pub fn fixture(case: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(case).join("input.jsonl")
}

/// Exports a session file.
pub fn export_file(path: &Path, format: &str, options: &ExportOptions) -> (String, Exported) {
    let storage = JsonlStorage::open(Arc::new(StdFs), path).expect("a session");
    let mut stats = StatsFold::default();
    for index in storage.tree().iter_all() {
        storage.entry(index).expect("readable").iter().for_each(|entry| stats.add(entry));
    }
    let damage: Vec<_> = storage
        .damage()
        .iter()
        .map(|damage| DamageNote { line: damage.line, byte_offset: damage.byte_offset, text: damage.kind.describe().into() })
        .collect();
    let input = ExportInput {
        header: storage.header(),
        header_line: storage.header_line(),
        tree: storage.tree(),
        leaf: storage.tree().leaf(),
        source: &Lines(&storage),
        stats: stats.stats(),
        damage: &damage,
    };
    let mut out = Vec::new();
    let exported = export(input, find_format(format).expect(format), options, &mut out).expect("an export");
    (String::from_utf8(out).expect("UTF-8"), exported)
}

/// A tag of a page.
#[derive(Debug)]
pub struct PageTag {
    pub name: String,
    pub attributes: Vec<(String, String)>,
}

/// Reads the tags of a page as a browser would, as far as our pages go: attribute values stand in double quotes, and a
/// `<` that opens no tag is a mistake. What stands in `style` and `script` elements is passed over.
pub fn page_tags(page: &str) -> Vec<PageTag> {
    let mut tags = Vec::new();
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix("!doctype html>") {
            rest = after;
            continue;
        }
        let is_end = rest.starts_with('/');
        rest = rest.strip_prefix('/').unwrap_or(rest);
        let len = rest.find(|char: char| !char.is_ascii_alphanumeric()).expect("a tag ends");
        assert!(len > 0, "a lone < before {:?}", rest.chars().take(60).collect::<String>());
        let mut tag = PageTag { name: rest[..len].to_owned(), attributes: Vec::new() };
        rest = &rest[len..];
        loop {
            rest = rest.trim_start();
            if let Some(after) = rest.strip_prefix("/>").or(rest.strip_prefix('>')) {
                rest = after;
                break;
            }
            let len = rest.find(['=', ' ', '>', '/']).expect("an attribute ends");
            assert!(len > 0, "no attribute before {:?}", rest.chars().take(60).collect::<String>());
            let name = rest[..len].to_owned();
            rest = &rest[len..];
            let mut value = "";
            if let Some(after) = rest.strip_prefix("=\"") {
                let end = after.find('"').expect("a value ends");
                (value, rest) = (&after[..end], &after[end + 1..]);
            }
            tag.attributes.push((name, value.to_owned()));
        }
        if !is_end && (tag.name == "style" || tag.name == "script") {
            let end = rest.find(&format!("</{}>", tag.name)).unwrap_or(0);
            rest = &rest[end..];
        }
        tags.push(tag);
    }
    tags
}
