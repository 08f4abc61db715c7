//! Text of a session inside a Markdown document, so that it stays where it was put.
//!
//! # Invariants
//! - A fence is longer than any run of its character inside.
//! - Markdown that went through [`nested`] holds no HTML, no link with an unsafe scheme, no open fence, and no heading above
//!   the fourth level.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag};

use crate::export::escape::safe_link;

/// From this many bytes on a text is put into a fence.
const MAX_MARKDOWN_BYTES: usize = 256 * 1024;
/// How often a text is looked at: taking HTML apart can bring links to light.
const MAX_PASSES: usize = 4;

/// The text as code in a language; empty for plain text.
pub(super) fn fenced(language: &str, text: &str) -> String {
    let fence = "`".repeat(longest_run(text, '`').max(2) + 1);
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{fence}{language}\n{text}{end}{fence}\n")
}

/// The length of the longest run of `char`.
fn longest_run(text: &str, char: char) -> usize {
    text.split(|other| other != char).map(str::len).max().unwrap_or(0)
}

/// The text as words of one line: nothing in it means anything to Markdown or HTML.
pub(super) fn inline(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 8);
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' => escaped.extend(['\\', char]),
            '\n' | '\r' => escaped.push(' '),
            _ => escaped.push(char),
        }
    }
    escaped
}

/// A Markdown text to stand inside the document.
pub(super) fn nested(text: &str) -> String {
    let mut text = text.trim_end().to_owned();
    if text.len() > MAX_MARKDOWN_BYTES {
        return fenced("", &text);
    }
    // Headings first and once; the passes after it would lower them again.
    text = apply(&text, heading_edits(&text));
    for _ in 0..MAX_PASSES {
        let edits = unsafe_edits(&text);
        if edits.is_empty() {
            return close_fence(text);
        }
        text = apply(&text, edits);
    }
    fenced("", &text)
}

/// At a place, how many bytes go and what comes instead.
type Edit = (usize, usize, &'static str);

fn apply(text: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_unstable();
    edits.dedup();
    let mut output = String::with_capacity(text.len() + edits.len() * 4);
    let mut copied = 0;
    for (at, len, replacement) in edits {
        if at >= copied {
            output.push_str(&text[copied..at]);
            output.push_str(replacement);
            copied = at + len;
        }
    }
    output.push_str(&text[copied..]);
    output
}

fn events(text: &str) -> impl Iterator<Item = (Event<'_>, std::ops::Range<usize>)> {
    Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS).into_offset_iter()
}

fn heading_edits(text: &str) -> Vec<Edit> {
    let lower = |(event, range): (Event<'_>, std::ops::Range<usize>)| match event {
        Event::Start(Tag::Heading { level, .. }) if text[range.start..].starts_with('#') => {
            Some((range.start, 0, ["###", "###", "###", "##", "#", ""][level as usize - 1]))
        }
        _ => None,
    };
    events(text).filter_map(lower).collect()
}

fn unsafe_edits(text: &str) -> Vec<Edit> {
    let mut edits = Vec::new();
    let mut replace = |range: std::ops::Range<usize>, what: char, by: &'static str| {
        edits.extend(text[range.clone()].match_indices(what).map(|(at, found)| (range.start + at, found.len(), by)));
    };
    for (event, range) in events(text) {
        match event {
            Event::Html(_) | Event::InlineHtml(_) => replace(range, '<', "&lt;"),
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) if safe_link(&dest_url).is_none() => {
                // As written, an autolink begins with `<`, every other link holds brackets.
                if text[range.start..].starts_with('<') {
                    replace(range.start..range.start + 1, '<', "&lt;");
                } else {
                    replace(range, '[', "\\[");
                }
            }
            _ => {}
        }
    }
    edits
}

/// Ends a fence that the text left open.
fn close_fence(mut text: String) -> String {
    let last = events(&text)
        .filter_map(|(event, range)| match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_))) => Some(range),
            _ => None,
        })
        .last();
    if let Some(range) = last.filter(|range| range.end == text.len()) {
        let block = &text[range];
        let mark = block.chars().next().unwrap_or('`');
        let len = block.chars().take_while(|char| *char == mark).count();
        let closing = block.lines().skip(1).last().map(str::trim).unwrap_or_default();
        if closing.chars().count() < len || !closing.chars().all(|char| char == mark) {
            let fence: String = std::iter::repeat_n(mark, len).collect();
            text.push('\n');
            text.push_str(&fence);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_are_longer_than_any_inside() {
        assert_eq!(fenced("rust", "a"), "```rust\na\n```\n");
        assert_eq!(fenced("", "```\nx\n````\n"), "`````\n```\nx\n````\n`````\n");
    }

    #[test]
    fn words_stay_words() {
        assert_eq!(inline("a|b <i> [x](y) `c`\n#1"), "a\\|b &lt;i&gt; \\[x\\](y) \\`c\\` \\#1");
    }

    #[test]
    fn html_in_messages_is_text() {
        assert_eq!(nested("a <b>c</b>"), "a &lt;b>c&lt;/b>");
        assert_eq!(nested("</details>\n\n<!-- x"), "&lt;/details>\n\n&lt;!-- x");
        assert_eq!(nested("`<b>`\n\n    <i>"), "`<b>`\n\n    <i>");
    }

    #[test]
    fn unsafe_links_are_text_also_those_inside_html() {
        assert_eq!(nested("[x](javascript:alert(1))"), "\\[x](javascript:alert(1))");
        assert_eq!(nested("[x][y]\n\n[y]: vbscript:1"), "\\[x]\\[y]\n\n[y]: vbscript:1");
        assert_eq!(nested("<javascript:x>"), "&lt;javascript:x>");
        assert_eq!(nested("<div>\n[x](javascript:1)\n</div>"), "&lt;div>\n\\[x](javascript:1)\n&lt;/div>");
        assert_eq!(nested("[x](https://a)"), "[x](https://a)");
    }

    #[test]
    fn headings_go_below_those_of_the_document() {
        assert_eq!(nested("# a\n\n### b\n\n#### c\n\n###### d"), "#### a\n\n###### b\n\n###### c\n\n###### d");
    }

    #[test]
    fn an_open_fence_is_closed() {
        assert_eq!(nested("```rust\nx"), "```rust\nx\n```");
        assert_eq!(nested("~~~~\n~~~"), "~~~~\n~~~\n~~~~");
        assert_eq!(nested("```\nx\n```"), "```\nx\n```");
        assert_eq!(nested("```"), "```\n```");
    }
}
