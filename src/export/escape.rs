//! Text as HTML text and attribute values, and links that may stand in a page.
//!
//! # Invariants
//! - What comes out of [`escaped`] is safe as text and inside either kind of quotes.
//! - A link that comes out of [`safe_link`] is `http`, `https`, `mailto` or relative, as a browser reads it.

/// The text with the five characters that mean something replaced, and without control characters.
pub(super) fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len() + text.len() / 16);
    escape_into(&mut html, text);
    html
}

/// [`escaped`], added to `html`.
pub(super) fn escape_into(html: &mut String, text: &str) {
    let mut plain = 0;
    for (at, byte) in text.bytes().enumerate() {
        let replacement = match byte {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'"' => "&quot;",
            b'\'' => "&#39;",
            b'\n' | b'\t' => continue,
            0..0x20 | 0x7f => "\u{fffd}",
            _ => continue,
        };
        html.push_str(&text[plain..at]);
        html.push_str(replacement);
        plain = at + 1;
    }
    html.push_str(&text[plain..]);
}

/// The link to an entry: `#` and its id, percent-encoded.
pub(super) fn fragment(id: &str) -> String {
    let mut link = String::from("#");
    for byte in id.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => link.push(char::from(byte)),
            _ => link.push_str(&format!("%{byte:02X}")),
        }
    }
    link
}

/// The link, if it may stand in a page.
pub(super) fn safe_link(link: &str) -> Option<&str> {
    let link = link.trim_matches(|char: char| char <= ' ');
    // A browser drops line ends and tabs inside a link before it looks for the scheme.
    if link.chars().any(|char| char.is_control()) {
        return None;
    }
    let before_path = link.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    match before_path.split_once(':') {
        None => Some(link),
        Some((scheme, _)) => ["http", "https", "mailto"].iter().any(|known| scheme.eq_ignore_ascii_case(known)).then_some(link),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_five_characters_and_controls_are_replaced() {
        assert_eq!(escaped("<a href=\"x\" b='y'>&\u{0}\n\t"), "&lt;a href=&quot;x&quot; b=&#39;y&#39;&gt;&amp;\u{fffd}\n\t");
    }

    #[test]
    fn only_web_mail_and_relative_links_pass() {
        for link in ["http://x", "HTTPS://x/y?z:1", "mailto:a@b", "a/b:c", "../x", "#frag:1", "?q=a:b", "//host/x", ""] {
            assert_eq!(safe_link(link), Some(link));
        }
        for link in [
            "javascript:alert(1)",
            " JavaScript:alert(1)",
            "java\nscript:alert(1)",
            "\u{1}javascript:alert(1)",
            "vbscript:x",
            "data:text/html,<script>",
            "file:///etc/passwd",
            "blob:x",
            "x y:z",
            ":",
        ] {
            assert_eq!(safe_link(link), None, "{link:?}");
        }
    }

    #[test]
    fn ids_become_fragments() {
        assert_eq!(fragment("0a1b"), "#0a1b");
        assert_eq!(fragment("\"><img é"), "#%22%3E%3Cimg%20%C3%A9");
    }
}
