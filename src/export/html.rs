//! A session as one HTML page that needs nothing else: read without JavaScript, and with it searched and switched.
//!
//! The active path is in the page. Other branches lie beside it in `<template>` elements, which a browser neither shows
//! nor lays out, so that a long session opens as fast as its active path. Code is coloured in the browser, when it is
//! first seen: coloured here it would be several times as long.
//!
//! # Invariants
//! - The page asks for nothing: its content security policy lets in its one style sheet and its one script, by their
//!   hashes, and images that it holds itself.
//! - The data for the script are numbers alone.

use std::io::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::export::escape::{escaped, fragment};
use crate::export::html::entry::{Row, render_segment};
use crate::export::plain::{count, dollars, one_line, time};
use crate::export::segments::{Segment, segments};
use crate::export::{ExportError, Format, Scope, View};

mod entry;
mod prose;

#[cfg(test)]
mod tests;

const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");
/// The page, with a `{{name}}` for each part.
const PAGE: &str = include_str!("html/page.html");

/// How far rows of the tree are indented at most.
const MAX_DEPTH: usize = 9;

/// The format `html`.
#[derive(Debug)]
pub(super) struct Html;

impl Format for Html {
    fn name(&self) -> &'static str {
        "html"
    }

    fn extension(&self) -> &'static str {
        "html"
    }

    fn default_scope(&self) -> Scope {
        Scope::All
    }

    fn write(&self, view: &View<'_>, out: &mut dyn Write) -> Result<(), ExportError> {
        let segments = match view.scope() {
            Scope::All => segments(view.tree(), view.leaf(), |index| view.is_on_path(index)),
            Scope::Path if view.path().is_empty() => Vec::new(),
            Scope::Path => vec![Segment { parent: None, entries: view.path().to_vec(), depth: 0, on_path: true }],
        };
        let mut rows: Vec<Vec<Row>> = vec![Vec::new(); segments.len()];
        let title = view.title()?;
        let parts = Parts { title: &title, segments: &segments };
        // The page in turn: what stands before a mark, then what the mark stands for.
        let mut rest = PAGE;
        while let Some((before, after)) = rest.split_once("{{") {
            let (mark, after) = after.split_once("}}").expect("every mark of page.html is closed");
            out.write_all(before.as_bytes())?;
            match mark {
                "policy" => out.write_all(policy().as_bytes())?,
                "title" => out.write_all(escaped(&one_line(&title, 200)).as_bytes())?,
                "style" => out.write_all(STYLE.as_bytes())?,
                "script" => out.write_all(SCRIPT.as_bytes())?,
                "facts" => out.write_all(parts.facts(view)?.as_bytes())?,
                "damage" => out.write_all(damage(view).as_bytes())?,
                "path" => parts.write_segments(view, out, &mut rows, OnPath::Yes)?,
                "others" => parts.write_segments(view, out, &mut rows, OnPath::No)?,
                "rows" => parts.write_rows(view, out, &rows)?,
                "data" => out.write_all(parts.data().as_bytes())?,
                "redactions" => out.write_all(redactions(view).as_bytes())?,
                other => unreachable!("page.html has no mark {other}, as a test checks"),
            }
            rest = after;
        }
        out.write_all(rest.as_bytes())?;
        Ok(())
    }
}

/// Which segments are meant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OnPath {
    Yes,
    No,
}

struct Parts<'a> {
    title: &'a str,
    segments: &'a [Segment],
}

impl Parts<'_> {
    fn write_segments(
        &self,
        view: &View<'_>,
        out: &mut dyn Write,
        rows: &mut [Vec<Row>],
        which: OnPath,
    ) -> Result<(), ExportError> {
        let chosen = self.segments.iter().enumerate().filter(|(_, segment)| segment.on_path == (which == OnPath::Yes));
        for (at, segment) in chosen {
            let mut html = String::new();
            rows[at] = render_segment(&mut html, view, &segment.entries)?;
            match which {
                OnPath::Yes => write!(out, "<section data-s=\"{at}\">\n{html}</section>\n")?,
                OnPath::No => write!(out, "<template data-s=\"{at}\"><section data-s=\"{at}\">\n{html}</section></template>\n")?,
            }
        }
        Ok(())
    }

    fn write_rows(&self, view: &View<'_>, out: &mut dyn Write, rows: &[Vec<Row>]) -> Result<(), ExportError> {
        let mut html = String::new();
        for (at, (segment, rows)) in self.segments.iter().zip(rows).enumerate() {
            // Where a branch begins, but for what stands between messages: that is rarely shown.
            let start = rows.iter().position(|row| row.class != "note").filter(|_| segment.depth > 0);
            for (place, (index, row)) in segment.entries.iter().zip(rows).enumerate() {
                let is_start = start == Some(place);
                html.push_str(&format!(
                    "<a class=\"r {} d{}{}{}{}\" data-s=\"{at}\" href=\"{}\">",
                    row.class,
                    segment.depth.min(MAX_DEPTH),
                    if segment.on_path { "" } else { " off" },
                    if is_start { " start" } else { "" },
                    if view.leaf() == Some(*index) { " leaf" } else { "" },
                    fragment(view.id(*index).as_str()),
                ));
                if let Some(label) = view.label(*index) {
                    html.push_str(&format!("<span class=\"label\">{}</span>", escaped(&one_line(label, 40))));
                }
                html.push_str(&format!("{}</a>\n", escaped(&row.text)));
            }
            out.write_all(html.as_bytes())?;
            html.clear();
        }
        Ok(())
    }

    /// Numbers for the script: the parent of each segment, -1 for none, and the segments of the active path.
    fn data(&self) -> String {
        let list = |numbers: Vec<String>| format!("[{}]", numbers.join(","));
        let parents = self.segments.iter().map(|segment| segment.parent.map_or("-1".to_owned(), |parent| parent.to_string()));
        let path = self.segments.iter().enumerate().filter(|(_, segment)| segment.on_path).map(|(at, _)| at.to_string());
        format!("{{\"parents\":{},\"path\":{}}}", list(parents.collect()), list(path.collect()))
    }

    /// What stands at the top: the title, and what there is to know about the session.
    fn facts(&self, view: &View<'_>) -> Result<String, ExportError> {
        let (header, stats) = (view.header(), view.stats());
        let mut html = format!("<h1>{}</h1>\n<dl class=\"facts\">", escaped(&one_line(self.title, 200)));
        let mut fact = |name: &str, value: &str| {
            if !value.is_empty() {
                html.push_str(&format!("<div><dt>{name}</dt><dd>{}</dd></div>", escaped(&one_line(value, 400))));
            }
        };
        fact("Folder", &header.cwd);
        fact("Model", &view.model()?.unwrap_or_default());
        fact("Started", &time(&header.timestamp));
        let plural = |n: u64, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
        let branches = view.tree().branch_count() as u64;
        let mut counts = vec![plural(stats.messages, "message"), plural(stats.tool_calls, "tool call")];
        counts.extend((branches > 1).then(|| format!("{branches} branches")));
        counts.extend((stats.compactions > 0).then(|| plural(stats.compactions, "compaction")));
        fact("Content", &counts.join(" · "));
        let tokens = stats.tokens;
        if tokens.total() > 0 {
            fact(
                "Tokens",
                &format!(
                    "{} (input {}, output {}, cache read {}, cache write {})",
                    count(tokens.total()),
                    count(tokens.input),
                    count(tokens.output),
                    count(tokens.cache_read),
                    count(tokens.cache_write)
                ),
            );
            fact("Cost", &dollars(stats.cost));
        }
        fact("Forked from", header.parent_session.as_deref().unwrap_or_default());
        fact("Session", &header.id);
        html.push_str("</dl>");
        Ok(html)
    }
}

fn damage(view: &View<'_>) -> String {
    let notes = view.damage();
    if notes.is_empty() {
        return String::new();
    }
    let lines = if notes.len() == 1 {
        "1 line of this session is".to_owned()
    } else {
        format!("{} lines of this session are", notes.len())
    };
    let mut html = format!("<details class=\"damage\"><summary>{lines} damaged</summary><ul>");
    for note in &notes {
        html.push_str(&format!("<li>line {}, byte {}: {}</li>", note.line, note.byte_offset, escaped(&note.text)));
    }
    html.push_str("</ul></details>");
    html
}

fn redactions(view: &View<'_>) -> String {
    match view.redactions() {
        Some(taken) => format!("<p>Taken out of this page: {}.</p>", escaped(&taken.to_string())),
        None => String::new(),
    }
}

/// The content security policy.
fn policy() -> String {
    let hash = |text: &str| STANDARD.encode(Sha256::digest(text.as_bytes()));
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; base-uri 'none'; form-action 'none'",
        hash(SCRIPT),
        hash(STYLE)
    )
}
