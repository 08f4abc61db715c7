//! A command line that somebody is typing in bash: its words, and how what completes the last one has to be written.
//!
//! # Invariants
//! - Nothing is expanded: no variable, no pattern, no `~`.
//! - What [`TypedLine::reply`] gives is read by the shell as exactly the value that was given, whatever is in it.

/// A line up to the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TypedLine {
    /// The words of the last command in it, without their quotes; the last is the one that is being typed.
    pub(super) words: Vec<String>,
    /// The quote that is open at the end.
    quote: Option<char>,
    /// How the last word begins that the shell does not replace: up to its last break or its open quote.
    kept: String,
}

impl TypedLine {
    /// Reads a line; `breaks` are the characters at which bash breaks words for completion.
    pub(super) fn parse(line: &str, breaks: &str) -> Self {
        let mut words = vec![String::new()];
        let mut quote: Option<char> = None;
        let mut kept_len = 0;
        let mut is_word = false;
        let mut chars = line.chars();
        while let Some(char) = chars.next() {
            let Some(word) = words.last_mut() else { break };
            match (quote, char) {
                (None, '\\') => {
                    word.extend(chars.next());
                    is_word = true;
                }
                (Some('"'), '\\') => match chars.next() {
                    Some(next @ ('"' | '\\' | '$' | '`')) => word.push(next),
                    Some(next) => word.extend(['\\', next]),
                    None => {}
                },
                (None, '\'' | '"') => {
                    quote = Some(char);
                    kept_len = word.len();
                    is_word = true;
                }
                (Some(open), char) if open == char => {
                    quote = None;
                    // Before the quote opened there may have been a break; nobody types that.
                    kept_len = 0;
                }
                (Some(_), char) => word.push(char),
                // What follows is another command.
                (None, ';' | '|' | '&' | '(' | '\n') => {
                    words = vec![String::new()];
                    (is_word, kept_len) = (false, 0);
                }
                (None, ' ' | '\t') => {
                    if is_word {
                        words.push(String::new());
                    }
                    (is_word, kept_len) = (false, 0);
                }
                (None, char) => {
                    word.push(char);
                    is_word = true;
                    if breaks.contains(char) {
                        // Bash keeps these two with the word that they begin.
                        kept_len = if matches!(char, '@' | '$') { word.len() - 1 } else { word.len() };
                    }
                }
            }
        }
        let kept = words.last().map(|word| word[..kept_len].to_owned()).unwrap_or_default();
        Self { words, quote, kept }
    }

    /// What takes the place of the word that is being typed, so that the whole word means `value`. `None` if it cannot.
    pub(super) fn reply(&self, value: &str) -> Option<String> {
        let rest = value.strip_prefix(&*self.kept)?;
        match self.quote {
            None => Some(escape(rest)),
            // In double quotes a `!` may be history, and no backslash helps.
            Some('"') if rest.contains('!') => None,
            Some('"') => Some(escape_all(rest, "\"\\$`")),
            Some(_) => Some(rest.replace('\'', r"'\''")),
        }
    }
}

/// `text` with a backslash before all that a shell may read as more than itself.
fn escape(text: &str) -> String {
    let is_plain = |char: char| char.is_alphanumeric() || "_-./:@%+,=".contains(char);
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        if !is_plain(char) {
            escaped.push('\\');
        }
        escaped.push(char);
    }
    escaped
}

fn escape_all(text: &str, special: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        if special.contains(char) {
            escaped.push('\\');
        }
        escaped.push(char);
    }
    escaped
}

/// One word without its quotes.
pub(super) fn unquote(word: &str) -> String {
    // Blanks and separators in the word are its own.
    let mut quote: Option<char> = None;
    let mut plain = String::with_capacity(word.len());
    let mut chars = word.chars();
    while let Some(char) = chars.next() {
        match (quote, char) {
            (None | Some('"'), '\\') => plain.extend(chars.next()),
            (None, '\'' | '"') => quote = Some(char),
            (Some(open), char) if open == char => quote = None,
            (None | Some(_), char) => plain.push(char),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const BREAKS: &str = " \t\n\"'@><=;|&(:";

    fn check(line: &str, words: &[&str], value: &str, reply: Option<&str>) {
        let typed = TypedLine::parse(line, BREAKS);
        assert_eq!(typed.words, words, "{line}");
        assert_eq!(typed.reply(value).as_deref(), reply, "{line}");
    }

    #[test]
    fn words_lose_their_quotes_and_replies_get_them() {
        check("ps show ", &["ps", "show", ""], "my session", Some(r"my\ session"));
        check(r"ps show my\ se", &["ps", "show", "my se"], "my session", Some(r"my\ session"));
        check("ps show 'my se", &["ps", "show", "my se"], "my session's", Some(r"my session'\''s"));
        check("ps show \"my se", &["ps", "show", "my se"], "my session $(x)\"", Some("my session \\$(x)\\\""));
        check("ps show \"my", &["ps", "show", "my"], "my!", None);
        check(
            "ps show $",
            &["ps", "show", "$"],
            "$(rm -rf *)`;&|<>!#~?[]{}",
            Some(r"\$\(rm\ -rf\ \*\)\`\;\&\|\<\>\!\#\~\?\[\]\{\}"),
        );
        check("ps show 'a b' 'c' d\\", &["ps", "show", "a b", "c", "d"], "dä", Some("dä"));
        check("ps show ''  x", &["ps", "show", "", "x"], "x", Some("x"));
        check(r#"ps "a\"b\c" "#, &["ps", r#"a"b\c"#, ""], "x", Some("x"));
    }

    #[test]
    fn what_stands_before_a_break_is_not_given_again() {
        check("ps --root=/tm", &["ps", "--root=/tm"], "--root=/tmp/", Some("/tmp/"));
        check("ps show @la", &["ps", "show", "@la"], "@last", Some("@last"));
        check("ps show a:b@c", &["ps", "show", "a:b@c"], "a:b@cd", Some("@cd"));
        check("ps --at='my l", &["ps", "--at=my l"], "--at=my label", Some("my label"));
        check("ps --at=x", &["ps", "--at=x"], "other", None);
    }

    #[test]
    fn the_last_command_of_a_line_counts() {
        check("cd x; ps sh", &["ps", "sh"], "show", Some("show"));
        check("ps list | ps 'a;b' ", &["ps", "a;b", ""], "x", Some("x"));
        check("", &[""], "x", Some("x"));
    }

    #[test]
    fn a_word_without_its_quotes() {
        for (word, plain) in [("'my fi", "my fi"), (r"my\ fi", "my fi"), ("\"a'b\"", "a'b"), ("a b", "a b"), ("x\\", "x")] {
            assert_eq!(unquote(word), plain, "{word}");
        }
    }
}
