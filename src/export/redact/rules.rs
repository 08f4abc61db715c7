//! What secrets look like: the documented forms of keys and tokens, one a line.
//!
//! To keep: when a service announces a new form of token, add a line, and an example in `tests.rs`.
//!
//! # Invariants
//! - Every pattern compiles, and every kind has an example that it finds (`tests.rs` checks both).
//! - A pattern begins with characters that are rare in prose, or at a word boundary, so that a part of a word is no token.

/// One form of secret.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    /// The name in the marker.
    pub kind: &'static str,
    /// What a match must fulfil besides.
    pub test: Test,
    /// The pattern; the group `s`, else all of it, is the secret.
    pub pattern: &'static str,
}

/// What the text of a match must fulfil to be a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Test {
    /// Nothing.
    Any,
    /// It is no variable or template that stands for a secret, such as `$TOKEN`, `<token>` or `xxxxxxxx`.
    NotPlaceholder,
    /// That, and letters and digits in it are mixed as in a random text.
    Random,
}

impl Test {
    pub(super) fn holds(self, text: &str) -> bool {
        match self {
            Self::Any => true,
            Self::NotPlaceholder => !is_placeholder(text),
            Self::Random => !is_placeholder(text) && looks_random(text),
        }
    }
}

fn is_placeholder(text: &str) -> bool {
    let first = text.chars().next();
    text.is_empty()
        || text.starts_with(['$', '<', '{', '[', '%'])
        || text.contains("...")
        || text.chars().all(|char| Some(char) == first)
        || ["null", "none", "true", "false", "undefined", "process.env", "os.environ", "your_", "your-"]
            .iter()
            .any(|word| text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word)))
}

/// Letters and digits, and at least 2.8 bits in a character (Shannon entropy).
fn looks_random(text: &str) -> bool {
    let has = |test: fn(&u8) -> bool| text.as_bytes().iter().any(test);
    if !has(u8::is_ascii_digit) || !has(u8::is_ascii_alphabetic) {
        return false;
    }
    let mut counts = [0u32; 256];
    text.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let len = text.len() as f64;
    let bits: f64 = counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count) / len).map(|p| -p * p.log2()).sum();
    bits >= 2.8
}

/// Names whose value is secret, as keys of JSON objects.
pub(super) const SECRET_NAME: &str = r"(?i-u)^(?:[a-z0-9_.-]*[_.-])?(?:password|passwd|passphrase|secret|secret[_-]?key|api[_-]?key|access[_-]?token|auth[_-]?token|refresh[_-]?token|client[_-]?secret|private[_-]?key)$";

/// A home folder's name in a path.
pub(super) const HOME_FOLDER: &str =
    r#"(?:^|[^A-Za-z0-9_.])(?:/home/|(?:/|\\{1,4})Users(?:/|\\{1,4}))(?P<s>[^/\\\s"'`<>:*?|,;()\[\]{}$%&=#]+)"#;

const fn token(kind: &'static str, pattern: &'static str) -> Rule {
    Rule { kind, test: Test::Any, pattern }
}

/// Longer and more particular forms first: what one took out the next does not see.
pub(super) const RULES: &[Rule] = &[
    token(
        "private-key",
        r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----(?:\s|\\n|\\r)*(?:[A-Za-z-]+: [^\n\\]*(?:\s|\\n|\\r)*)*[A-Za-z0-9+/=\s\\]{16,}(?:-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----)?",
    ),
    token("age-key", r"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
    token("jwt", r"(?-u:\b)eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*"),
    token("aws-access-key", r"(?-u:\b)(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}(?-u:\b)"),
    Rule {
        kind: "aws-secret-key",
        test: Test::Random,
        pattern: r#"(?i-u:aws[a-z_ -]{0,20}(?:secret|key)[a-z_ -]{0,20})["']?\s*[:=]{1,2}>?\s*["']?(?P<s>[A-Za-z0-9/+]{40})(?-u:\b)"#,
    },
    token("github-token", r"(?-u:\b)(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255})"),
    token("gitlab-token", r"(?-u:\b)gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|oas|soat)-[A-Za-z0-9_-]{20,}"),
    token("slack-token", r"(?-u:\b)(?:xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[0-9]-[A-Z0-9]+-[0-9]+-[a-z0-9]+)"),
    token("slack-webhook", r"https://hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/_-]{20,}"),
    token("discord-webhook", r"https://(?:canary\.|ptb\.)?discord(?:app)?\.com/api/webhooks/[0-9]{15,}/[A-Za-z0-9_-]{40,}"),
    token("discord-token", r"(?-u:\b)[MNO][A-Za-z0-9_-]{23,25}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}"),
    token("telegram-token", r"(?-u:\b)[0-9]{8,10}:A[A-Za-z0-9_-]{34}(?-u:\b)"),
    token("anthropic-key", r"(?-u:\b)sk-ant-[A-Za-z0-9_-]{20,}"),
    token("openrouter-key", r"(?-u:\b)sk-or-v1-[0-9a-f]{32,}"),
    token("openai-key", r"(?-u:\b)sk-(?:(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,}|[A-Za-z0-9]{32,})"),
    token("google-key", r"(?-u:\b)AIza[A-Za-z0-9_-]{35}"),
    token("google-oauth", r"(?-u:\b)(?:ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{28}|1//0[A-Za-z0-9_-]{40,})"),
    token("stripe-key", r"(?-u:\b)(?:(?:sk|rk)_(?:live|test|prod)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{24,})"),
    token("npm-token", r"(?-u:\b)npm_[A-Za-z0-9]{36}(?-u:\b)"),
    token("pypi-token", r"(?-u:\b)pypi-[A-Za-z0-9_-]{50,}"),
    token("crates-token", r"(?-u:\b)cio[A-Za-z0-9]{32}(?-u:\b)"),
    token("docker-token", r"(?-u:\b)dckr_(?:pat|oat)_[A-Za-z0-9_-]{27,}"),
    token("huggingface-token", r"(?-u:\b)(?:hf|api_org)_[A-Za-z0-9]{30,}(?-u:\b)"),
    token("groq-key", r"(?-u:\b)gsk_[A-Za-z0-9]{40,}"),
    token("xai-key", r"(?-u:\b)xai-[A-Za-z0-9]{60,}"),
    token("perplexity-key", r"(?-u:\b)pplx-[A-Za-z0-9]{40,}"),
    token("replicate-token", r"(?-u:\b)r8_[A-Za-z0-9]{37}(?-u:\b)"),
    token("sendgrid-key", r"(?-u:\b)SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    token("twilio-key", r"(?-u:\b)SK[0-9a-f]{32}(?-u:\b)"),
    token("mailgun-key", r"(?-u:\b)key-[0-9a-f]{32}(?-u:\b)"),
    token("digitalocean-token", r"(?-u:\b)do[opr]_v1_[0-9a-f]{64}"),
    token("databricks-token", r"(?-u:\b)dapi[0-9a-f]{32}(?-u:\b)"),
    token("shopify-token", r"(?-u:\b)shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    token("linear-key", r"(?-u:\b)lin_(?:api|oauth)_[A-Za-z0-9]{40}"),
    token("notion-token", r"(?-u:\b)(?:ntn_[A-Za-z0-9]{40,}|secret_[A-Za-z0-9]{43}(?-u:\b))"),
    token("figma-token", r"(?-u:\b)fig[dou][rh]?_[A-Za-z0-9_-]{40,}"),
    token("atlassian-token", r"(?-u:\b)AT(?:ATT3|CTT3|BBT3)[A-Za-z0-9_=-]{60,}"),
    token("azure-storage-key", r"(?-u:\b)AccountKey=(?P<s>[A-Za-z0-9+/]{60,}=*)"),
    token("vault-token", r"(?-u:\b)hv[bsr]\.[A-Za-z0-9_-]{24,}"),
    token("terraform-token", r"(?-u:\b)[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}"),
    token("doppler-token", r"(?-u:\b)dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9.]{40,}"),
    token("supabase-key", r"(?-u:\b)sb(?:p_[0-9a-f]{40}|_secret_[A-Za-z0-9_-]{20,})"),
    token("grafana-token", r"(?-u:\b)glsa_[A-Za-z0-9]{32}_[0-9a-fA-F]{8}"),
    token("newrelic-key", r"(?-u:\b)NRAK-[A-Z0-9]{27}"),
    token("sentry-token", r"(?-u:\b)(?:sntrys_eyJ[A-Za-z0-9+/=_-]{40,}|sntryu_[0-9a-f]{64})"),
    token("postman-key", r"(?-u:\b)PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    token("pulumi-token", r"(?-u:\b)pul-[0-9a-f]{40}"),
    token("fly-token", r"(?-u:\b)(?:fo1_[A-Za-z0-9_-]{43}|fm[12][ar]?_[A-Za-z0-9+/=]{60,})"),
    token("1password-token", r"(?-u:\b)ops_eyJ[A-Za-z0-9+/=]{60,}"),
    Rule {
        kind: "url-password",
        test: Test::NotPlaceholder,
        pattern: r#"(?-u:\b)[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@"'<>]*:(?P<s>[^\s/@"'<>]+)@"#,
    },
    Rule {
        kind: "url-secret",
        test: Test::NotPlaceholder,
        pattern: r#"[?&](?i-u:api[_-]?key|access[_-]?token|auth[_-]?token|token|secret|password|sig|x-amz-signature|x-goog-signature)=(?P<s>[^&\s"'#<>]{8,})"#,
    },
    Rule {
        kind: "authorization",
        test: Test::Random,
        pattern: r#"(?i-u:(?:authorization["']?\s*[:=]\s*["']?(?:basic|bearer|token)|bearer)\s+)(?P<s>[A-Za-z0-9._~+/=-]{16,})"#,
    },
    Rule {
        kind: "secret",
        test: Test::Random,
        pattern: r#"(?i-u:api[_-]?key|apikey|secret|secret[_-]?key|access[_-]?key|auth[_-]?token|access[_-]?token|token|passw(?:or)?d|passphrase|pwd)["']?\s*(?:=>|:=|=|:)\s*["'`]?(?P<s>[A-Za-z0-9_.~+/=@!#^*-]{8,})"#,
    },
];
