//! Why a provider gave no answer, or only a part of one.
//!
//! # Invariants
//! - The texts hold no key and no header value; what a server says is scrubbed, then cut to one short line.
//! - [`classify`] decides by status and body alone: the same response gives the same error.

use std::time::Duration;

use serde::Deserialize;

use crate::session::json::{Fields, well_formed};

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderError {
    /// No connection came about. Transient.
    #[error("cannot reach {address}: {detail}")]
    Unreachable {
        /// The base URL.
        address: String,
        /// What the system said.
        detail: String,
    },
    /// The response, or its next piece, did not come in time. Transient.
    #[error("{address} sent nothing for {timeout_ms} ms")]
    TimedOut {
        /// The base URL.
        address: String,
        /// The time limit, in milliseconds.
        timeout_ms: u64,
    },
    /// The connection broke, or ended before the answer did. Transient.
    #[error("the connection to {address} broke: {detail}")]
    Cut {
        /// The base URL.
        address: String,
        /// What the system said.
        detail: String,
    },
    /// The server has too much to do, or failed. Transient.
    #[error("{address} cannot answer now (status {status}): {detail}")]
    Busy {
        /// The base URL.
        address: String,
        /// The HTTP status, or the one that an error within an answer stands for.
        status: u16,
        /// What the server said.
        detail: String,
        /// How long it asked to be left alone, in milliseconds.
        retry_after_ms: Option<u64>,
    },
    /// The request is larger than the model's context window.
    #[error("the context does not fit into the model's window: {detail}")]
    Overflow {
        /// What the server said.
        detail: String,
    },
    /// The key is missing, wrong, or not allowed to do this.
    #[error("{address} refused the key (status {status}): {detail}")]
    Authentication {
        /// The base URL.
        address: String,
        /// The HTTP status.
        status: u16,
        /// What the server said.
        detail: String,
    },
    /// The server refused the request for another reason.
    #[error("{address} refused the request (status {status}): {detail}")]
    Refused {
        /// The base URL.
        address: String,
        /// The HTTP status.
        status: u16,
        /// What the server said.
        detail: String,
    },
    /// The provider's filter stopped the answer, or the model refused to give one.
    #[error("{address} withheld the answer: {detail}")]
    Withheld {
        /// The base URL.
        address: String,
        /// The reason that was given.
        detail: String,
    },
    /// What came cannot be read as the protocol has it.
    #[error("{address} sent what cannot be read: {detail}")]
    Malformed {
        /// The base URL.
        address: String,
        /// What is wrong with it.
        detail: String,
    },
    /// The request cannot be made from what is configured.
    #[error("the request cannot be made: {detail}")]
    Unusable {
        /// What is wrong.
        detail: String,
    },
    /// A recording or a script holds no further answer.
    #[error("the recording has no further answer after {played}")]
    Exhausted {
        /// How many were played.
        played: usize,
    },
    /// The caller ended it.
    #[error("aborted")]
    Aborted,
}

impl ProviderError {
    /// Whether the same request may succeed a little later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::TimedOut { .. } | Self::Cut { .. } | Self::Busy { .. } => true,
            Self::Overflow { .. }
            | Self::Authentication { .. }
            | Self::Refused { .. }
            | Self::Withheld { .. }
            | Self::Malformed { .. }
            | Self::Unusable { .. }
            | Self::Exhausted { .. }
            | Self::Aborted => false,
        }
    }

    /// Whether the request was larger than the model's context window.
    pub fn is_overflow(&self) -> bool {
        matches!(self, Self::Overflow { .. })
    }

    /// How long the server asked to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Busy { retry_after_ms, .. } => retry_after_ms.map(Duration::from_millis),
            _ => None,
        }
    }

    /// The `stopReason` of a message that this error ended.
    pub fn stop_reason(&self) -> &'static str {
        match self {
            Self::Aborted => "aborted",
            _ => "error",
        }
    }
}

/// What a server said that an error is: an HTTP response that is none of success, or an error within an answer.
#[derive(Debug, Default)]
pub(crate) struct Complaint {
    /// The HTTP status; `None` within an answer, where the body tells.
    pub status: Option<u16>,
    /// The body, scrubbed.
    pub body: String,
    /// How long the server asked to be left alone, in milliseconds.
    pub retry_after_ms: Option<u64>,
}

/// Says what kind of error a complaint is.
pub(crate) fn classify(address: &str, complaint: &Complaint) -> ProviderError {
    let said = Said::read(&complaint.body);
    let status = complaint.status.or(said.status()).unwrap_or(500);
    let (address, detail) = (address.to_owned(), said.detail);
    let is_quota = said.kinds.iter().any(|kind| kind == "insufficient_quota");
    if status != 429 && (status == 413 || is_overflow_text(&said.kinds, &complaint.body)) {
        return ProviderError::Overflow { detail };
    }
    match status {
        401 | 403 => ProviderError::Authentication { address, status, detail },
        // Waiting does not fill an account.
        429 if is_quota => ProviderError::Refused { address, status, detail },
        408 | 425 | 429 | 500.. => ProviderError::Busy { address, status, detail, retry_after_ms: complaint.retry_after_ms },
        _ => ProviderError::Refused { address, status, detail },
    }
}

/// An error body, as far as it can be understood.
struct Said {
    /// The message, in one short line.
    detail: String,
    /// Its `code`, `type` and `status`.
    kinds: Vec<String>,
}

/// A code is a word or a number.
#[derive(Deserialize)]
#[serde(untagged)]
enum Code {
    Word(String),
    Number(u16),
}

impl Said {
    fn read(body: &str) -> Self {
        let body = well_formed(body.as_bytes());
        let outer = Fields::parse(&body).unwrap_or_default();
        let inner = outer.text("error").and_then(|text| Fields::parse(text).ok());
        let fields = inner.as_ref().unwrap_or(&outer);
        let kinds = ["code", "type", "status"].iter().filter_map(|key| {
            fields.get::<Code>(key).map(|code| match code {
                Code::Word(word) => word,
                Code::Number(number) => number.to_string(),
            })
        });
        let message = ["message", "error", "detail", "error_description"].iter().find_map(|key| fields.get::<String>(key));
        let detail = match message.as_deref().map_or_else(|| one_line(&body), one_line) {
            line if line.is_empty() => "no reason given".to_owned(),
            line => line,
        };
        Self { detail, kinds: kinds.collect() }
    }

    /// The HTTP status that the error stands for.
    fn status(&self) -> Option<u16> {
        self.kinds.iter().find_map(|kind| match kind.to_ascii_lowercase().as_str() {
            "overloaded_error" => Some(529),
            "rate_limit_error" | "rate_limit_exceeded" | "resource_exhausted" => Some(429),
            "invalid_request_error" | "bad_request" | "invalid_argument" => Some(400),
            "authentication_error" | "invalid_api_key" => Some(401),
            "permission_error" => Some(403),
            "not_found_error" | "model_not_found" => Some(404),
            "request_too_large" => Some(413),
            "timeout_error" => Some(504),
            number => number.parse().ok().filter(|status| (400..600).contains(status)),
        })
    }
}

/// Whether an error says that the context is too large, in the words of the servers that are in use.
fn is_overflow_text(kinds: &[String], body: &str) -> bool {
    const KINDS: [&str; 3] = ["context_length_exceeded", "exceed_context_size_error", "model_max_prompt_tokens_exceeded"];
    // Each row is a set of words that must all occur.
    const WORDINGS: [&[&str]; 17] = [
        &["context_length_exceeded"],
        &["prompt is too long"],
        &["prompt too long"],
        &["input is too long"],
        &["maximum context length"],
        &["context length", "exceed"],
        &["context length", "greater than"],
        &["context window", "exceed"],
        &["context window", "too"],
        &["context size", "exceed"],
        &["context limit", "exceed"],
        &["input token count", "exceeds"],
        &["prompt token count", "exceeds"],
        &["maximum prompt length"],
        &["exceeded model token limit"],
        &["reduce the length of the messages"],
        &["too large for model with"],
    ];
    let text = body.to_lowercase();
    kinds.iter().any(|kind| KINDS.contains(&kind.as_str()))
        || WORDINGS.iter().any(|words| words.iter().all(|word| text.contains(word)))
}

/// `text` in one line of at most 300 characters, without control characters.
pub(crate) fn one_line(text: &str) -> String {
    const LIMIT: usize = 300;
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let line = words.collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LIMIT) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: Option<u16>, body: &str) -> ProviderError {
        classify("http://h", &Complaint { status, body: body.to_owned(), retry_after_ms: Some(7) })
    }

    #[test]
    fn overflow_is_recognised_in_the_wordings_in_use() {
        for body in [
            r#"{"error":{"message":"too much","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
            r#"{"error":{"message":"This model's maximum context length is 8192 tokens."}}"#,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 1 + 2 > 3"}}"#,
            r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}"#,
            r#"{"error":"The number of tokens to keep from the initial prompt is greater than the context length"}"#,
            r#"{"error":{"message":"The input token count (9) exceeds the maximum number of tokens allowed (8)"}}"#,
            "Please reduce the length of the messages or completion.",
        ] {
            assert!(of(Some(400), body).is_overflow(), "{body}");
        }
        assert!(of(Some(413), "").is_overflow());
        assert!(!of(Some(429), "maximum context length").is_overflow());
        assert!(!of(Some(400), r#"{"error":{"message":"unknown field `max_tokens`"}}"#).is_overflow());
    }

    #[test]
    fn transient_errors_are_told_from_lasting_ones() {
        for status in [408, 429, 500, 502, 503, 504, 529] {
            let error = of(Some(status), "x");
            assert!(error.is_transient(), "{status}");
            assert_eq!(error.retry_after(), Some(Duration::from_millis(7)));
        }
        for status in [301, 400, 401, 403, 404, 422] {
            assert!(!of(Some(status), "x").is_transient(), "{status}");
        }
        assert!(!of(Some(429), r#"{"error":{"code":"insufficient_quota","message":"no money"}}"#).is_transient());
        assert!(matches!(of(Some(401), "x"), ProviderError::Authentication { .. }));
    }

    #[test]
    fn an_error_within_an_answer_gets_the_status_it_stands_for() {
        let status = |body: &str| match of(None, body) {
            ProviderError::Busy { status, .. } | ProviderError::Refused { status, .. } => status,
            other => panic!("{other:?}"),
        };
        assert_eq!(status(r#"{"type":"error","error":{"type":"overloaded_error","message":"m"}}"#), 529);
        assert_eq!(status(r#"{"error":{"code":502,"message":"upstream"}}"#), 502);
        assert_eq!(status(r#"{"error":{"type":"invalid_request_error"}}"#), 400);
        assert_eq!(status(r#"{"error":"?"}"#), 500);
    }

    #[test]
    fn the_reason_is_one_short_line() {
        let error = of(Some(404), &format!("{{\"error\":{{\"message\":\"no\\n such\\u001b[31m model {}\"}}}}", "x".repeat(900)));
        let text = error.to_string();
        assert!(text.starts_with("http://h refused the request (status 404): no such [31m model xxx"), "{text}");
        assert!(text.len() < 400 && text.ends_with("..."));
        assert!(of(Some(404), "").to_string().ends_with("no reason given"));
    }
}
