//! Markdown of messages as HTML.
//!
//! # Invariants
//! - HTML in the Markdown is shown as text. Images become links: a page loads nothing.
//! - A link with another scheme than the safe ones becomes plain text.

use pulldown_cmark::{CodeBlockKind, CowStr, Event, Options, Parser, Tag, TagEnd};

use crate::export::escape::{escape_into, escaped, safe_link};
use crate::export::plain::clean;

/// From this many bytes on a text is shown as it is.
const MAX_MARKDOWN_BYTES: usize = 256 * 1024;

/// What a line end inside a paragraph is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineEnds {
    /// A space, as in Markdown.
    Flow,
    /// A line end, as people type them.
    Break,
}

/// Adds the HTML of a Markdown text.
pub(super) fn markdown(html: &mut String, text: &str, line_ends: LineEnds) {
    let text = clean(text);
    if text.len() > MAX_MARKDOWN_BYTES {
        html.push_str("<pre class=\"plain\">");
        escape_into(html, &text);
        html.push_str("</pre>");
        return;
    }
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    // Which of the open links and images are shown as links.
    let mut open_links = Vec::new();
    let events = Parser::new_ext(&text, options).filter_map(|event| match event {
        // Written by our own escaping, which leaves no quotes either.
        Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => Some(Event::Html(escaped(&text).into())),
        Event::Code(text) => Some(Event::InlineHtml(format!("<code>{}</code>", escaped(&text)).into())),
        Event::Start(Tag::HtmlBlock) => Some(Event::Start(Tag::CodeBlock(CodeBlockKind::Indented))),
        Event::End(TagEnd::HtmlBlock) => Some(Event::End(TagEnd::CodeBlock)),
        Event::SoftBreak if line_ends == LineEnds::Break => Some(Event::HardBreak),
        Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
            let link = safe_link(&dest_url).map(|link| CowStr::from(link.to_owned()));
            open_links.push(link.is_some());
            link.map(|dest_url| Event::Start(Tag::Link { link_type, dest_url, title, id }))
        }
        Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
            // Inside a link there can be no second one.
            let link = safe_link(&dest_url).filter(|link| !link.is_empty() && !open_links.contains(&true));
            let link = link.map(|link| CowStr::from(link.to_owned()));
            open_links.push(link.is_some());
            link.map(|dest_url| Event::Start(Tag::Link { link_type, dest_url, title, id }))
        }
        Event::End(TagEnd::Link | TagEnd::Image) => open_links.pop().filter(|shown| *shown).map(|_| Event::End(TagEnd::Link)),
        Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
            Some(Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language(&info).into()))))
        }
        other => Some(other),
    });
    pulldown_cmark::html::push_html(html, events);
}

/// The language in the line that opens a code block, as far as it is a name.
fn language(info: &str) -> String {
    info.chars().take_while(|char| char.is_ascii_alphanumeric() || "+#-_.".contains(*char)).take(30).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &str) {
        let mut html = String::new();
        markdown(&mut html, text, LineEnds::Flow);
        assert_eq!(html.trim_end(), expect, "{text:?}");
    }

    #[test]
    fn raw_html_is_text() {
        check("a <img src=x onerror=alert(1)> b", "<p>a &lt;img src=x onerror=alert(1)&gt; b</p>");
        check("<script>alert(1)</script>", "<pre><code>&lt;script&gt;alert(1)&lt;/script&gt;</code></pre>");
        check("<!-- open", "<pre><code>&lt;!-- open</code></pre>");
    }

    #[test]
    fn links_with_other_schemes_are_text() {
        check("[x](javascript:alert(1))", "<p>x</p>");
        check("<vbscript:x>", "<p>vbscript:x</p>");
        check("[x][y]\n\n[y]: data:text/html,1", "<p>x</p>");
        check("[x](&#106;avascript:alert(1))", "<p>x</p>");
        check("[*x*](http://a \"t\")", "<p><a href=\"http://a\" title=\"t\"><em>x</em></a></p>");
    }

    #[test]
    fn quotes_stay_inside_attributes() {
        check(
            "![a\" onerror=\"alert(1)](http://x/y.png)",
            "<p><a href=\"http://x/y.png\">a&quot; onerror=&quot;alert(1)</a></p>",
        );
        check("[a](http://x '\"><b>')", "<p><a href=\"http://x\" title=\"&quot;&gt;&lt;b&gt;\">a</a></p>");
        check("`<b>\"` 'x'", "<p><code>&lt;b&gt;&quot;</code> &#39;x&#39;</p>");
        check("```\"><b>\nx\n```", "<pre><code>x\n</code></pre>");
    }

    #[test]
    fn images_are_links_and_no_link_stands_in_a_link() {
        check("[![b](http://b.png)](http://a)", "<p><a href=\"http://a\">b</a></p>");
        check("[![b](http://b.png)](javascript:1)", "<p><a href=\"http://b.png\">b</a></p>");
        check("![b](data:image/png;base64,x)", "<p>b</p>");
    }

    #[test]
    fn people_break_lines_where_they_mean_it() {
        let mut html = String::new();
        markdown(&mut html, "a\nb", LineEnds::Break);
        assert_eq!(html, "<p>a<br />\nb</p>\n");
    }
}
