//! What is found, what is left, and how it is counted.

use super::*;

/// Something that looks random, of this length.
fn random(len: usize) -> String {
    "q7Xk2Zp9Lm4Vt8Rb1Ns6Wc3Yf5Hd0Gj".chars().cycle().take(len).collect()
}

fn hex(len: usize) -> String {
    "3f9a0c7e5b1d8246".chars().cycle().take(len).collect()
}

fn upper(len: usize) -> String {
    "Q7XK2ZP4LM3VT5RB6NSWC".chars().cycle().take(len).collect()
}

fn redactor(home: Option<&str>, cwd: &str) -> Redactor {
    let options = Box::leak(Box::new(RedactOptions { home: home.map(str::to_owned) }));
    Redactor::new(options, [&*Box::leak(Box::new(cwd.to_owned()))].into_iter())
}

fn text(input: &str) -> String {
    redactor(None, "").text(input, &mut Redactions::default()).into_owned()
}

/// An example of each kind. They are put together here so that no scanner takes this file for a leak.
fn examples() -> Vec<(&'static str, String)> {
    let a = random;
    vec![
        ("private-key", format!("-----BEGIN RSA {0}-----\n{1}\n{1}\n-----END RSA {0}-----", "PRIVATE KEY", a(60))),
        ("age-key", format!("AGE-SECRET-KEY-{}{}", 1, upper(58))),
        ("jwt", format!("ey{}.ey{}.{}", "JhbGciOiJIUzI1NiJ9", "JzdWIiOiIxMjM0In0", a(30))),
        ("aws-access-key", format!("AK{}{}", "IA", "Q7XK2ZPLM3VT5RB6")),
        ("github-token", format!("gh{}{}", "p_", a(36))),
        ("github-token", format!("github{}{}", "_pat_", a(40))),
        ("gitlab-token", format!("gl{}{}", "pat-", a(20))),
        ("slack-token", format!("xo{}{}", "xb-", a(24))),
        ("slack-webhook", format!("https://hooks.slack.com/{}/{}", "services", a(40))),
        ("discord-webhook", format!("https://discord.com/api/{}/{}/{}", "webhooks", "123456789012345678", a(60))),
        ("discord-token", format!("M{}.{}.{}", a(24), a(6), a(30))),
        ("telegram-token", format!("123456789:A{}", a(34))),
        ("anthropic-key", format!("sk-{}{}", "ant-api03-", a(60))),
        ("openrouter-key", format!("sk-{}{}", "or-v1-", hex(64))),
        ("openai-key", format!("sk-{}{}", "proj-", a(60))),
        ("openai-key", format!("s{}{}", "k-", a(48))),
        ("google-key", format!("AI{}{}", "za", a(35))),
        ("google-oauth", format!("ya{}{}", "29.", a(40))),
        ("stripe-key", format!("sk{}{}", "_live_", a(24))),
        ("npm-token", format!("np{}{}", "m_", a(36))),
        ("pypi-token", format!("py{}{}", "pi-AgEI", a(60))),
        ("crates-token", format!("ci{}{}", "o", a(32))),
        ("docker-token", format!("dck{}{}", "r_pat_", a(27))),
        ("huggingface-token", format!("h{}{}", "f_", a(34))),
        ("groq-key", format!("gs{}{}", "k_", a(52))),
        ("xai-key", format!("xa{}{}", "i-", a(80))),
        ("perplexity-key", format!("ppl{}{}", "x-", a(48))),
        ("replicate-token", format!("r{}{}", "8_", a(37))),
        ("sendgrid-key", format!("S{}{}.{}", "G.", a(22), a(43))),
        ("twilio-key", format!("S{}{}", "K", hex(32))),
        ("mailgun-key", format!("ke{}{}", "y-", hex(32))),
        ("digitalocean-token", format!("do{}{}", "p_v1_", hex(64))),
        ("databricks-token", format!("dap{}{}", "i", hex(32))),
        ("shopify-token", format!("shp{}{}", "at_", hex(32))),
        ("linear-key", format!("lin{}{}", "_api_", a(40))),
        ("notion-token", format!("nt{}{}", "n_", a(46))),
        ("figma-token", format!("fig{}{}", "d_", a(40))),
        ("atlassian-token", format!("ATA{}{}", "TT3", a(100))),
        ("azure-storage-key", format!("Account{}={}==;", "Key", a(86))),
        ("vault-token", format!("hv{}{}", "s.", a(24))),
        ("terraform-token", format!("{}.{}.{}", a(14), "atlasv1", a(60))),
        ("doppler-token", format!("dp.{}.{}", "pt", a(43))),
        ("supabase-key", format!("sb{}{}", "p_", hex(40))),
        ("grafana-token", format!("gl{}{}_{}", "sa_", a(32), hex(8))),
        ("newrelic-key", format!("NR{}{}", "AK-", upper(27))),
        ("sentry-token", format!("sntr{}{}", "yu_", hex(64))),
        ("postman-key", format!("PM{}{}-{}", "AK-", hex(24), hex(34))),
        ("pulumi-token", format!("pu{}{}", "l-", hex(40))),
        ("fly-token", format!("fo{}{}", "1_", a(43))),
        ("1password-token", format!("op{}{}", "s_eyJ", a(60))),
        ("aws-secret-key", format!("aws_secret_access_{} = {}", "key", a(40))),
        ("url-password", "postgres://bob:h7nter2@db.example/x".to_owned()),
        ("url-secret", format!("https://x/y?a=1&access_{}={}", "token", a(20))),
        ("authorization", format!("Authorization: {} {}", "Bearer", a(30))),
        ("secret", format!("API_{}=\"{}\"", "KEY", a(24))),
    ]
}

#[test]
fn every_kind_finds_its_example_once() {
    let redactor = redactor(None, "");
    for (kind, example) in examples() {
        let mut counts = Redactions::default();
        let input = format!("before {example} after");
        let output = redactor.text(&input, &mut counts);
        assert_eq!(counts.to_string(), format!("1 {kind}"), "{example}");
        assert!(output.starts_with("before ") && output.ends_with(" after") && output.contains("[redacted:"), "{output}");
    }
    let shown: BTreeSet<_> = examples().into_iter().map(|(kind, _)| kind).collect();
    let known: BTreeSet<_> = RULES.iter().map(|rule| rule.kind).collect();
    assert_eq!(shown, known, "each rule has an example");
}

#[test]
fn only_the_secret_part_goes() {
    assert_eq!(text("postgres://bob:h7nter2@db/x"), "postgres://bob:[redacted:url-password]@db/x");
    assert_eq!(text("{\"api_key\": \"q7Xk2Zp9Lm4V\"}"), "{\"api_key\": \"[redacted:secret]\"}");
    assert_eq!(
        text("curl -H 'Authorization: Bearer q7Xk2Zp9Lm4Vt8Rb'"),
        "curl -H 'Authorization: Bearer [redacted:authorization]'"
    );
}

#[test]
fn what_only_looks_like_a_secret_stays() {
    for plain in [
        "token = getTokenFromStore()",
        "password: string;",
        "const secret = process.env.MY_SECRET_1;",
        "export API_KEY=$OTHER_KEY_1",
        "https://user:${PASS}@host/",
        "https://example.com:8080/a@b",
        "totalTokens: 12345678",
        "maxTokens=16384000",
        "sk-short",
        "the task-0123456789abcdef0123456789abcdef0123 ended",
        "3f9a0c7e5b1d82463f9a0c7e5b1d82463f9a0c7e",
        "api_key = your_api_key_1234",
        "Bearer authentication-is-described-below",
    ] {
        assert_eq!(text(plain), plain);
    }
}

#[test]
fn names_of_home_folders_go_from_paths_alone() {
    let with = |home, cwd: &str, input: &str| redactor(home, cwd).text(input, &mut Redactions::default()).into_owned();
    assert_eq!(text("/home/alice/x and /Users/bob"), "/home/[redacted:home]/x and /Users/[redacted:home]");
    assert_eq!(text(r"C:\Users\bob\x"), r"C:\Users\[redacted:home]\x");
    assert_eq!(text("file:///home/alice"), "file:///home/[redacted:home]");
    assert_eq!(text("https://example.com/home/page"), "https://example.com/home/page");
    let folder = "sessions/--home-alice-my-proj--/x";
    assert_eq!(with(None, "/home/alice/my-proj", folder), "sessions/--home-[redacted:home]-my-proj--/x");
    assert_eq!(with(None, "/srv", folder), folder);
    assert_eq!(with(Some("/srv/people/carol"), "", "/srv/people/carol/x, carol"), "/srv/people/[redacted:home]/x, carol");
    assert_eq!(with(Some("/home/alice"), "", "-home-alice-x"), "-home-[redacted:home]-x");
    assert_eq!(with(Some("/root"), "", "/root/x"), "/root/x");
}

#[test]
fn lines_keep_their_shape_and_their_bytes() {
    let redactor = redactor(None, "");
    let line = |input: &str| {
        let mut counts = Redactions::default();
        let output = redactor.line(input.as_bytes(), &mut counts).into_owned();
        (String::from_utf8(output).expect("text"), counts.to_string())
    };
    let plain = r#"{ "a" : 1.0e3, "b\u0041":"caf\u00e9 \ud83d", "c":[null,"x"]}"#;
    assert_eq!(line(plain), (plain.to_owned(), "nothing".to_owned()));
    let (output, counts) = line(r#"{"x":{"text":"in \"/home/alice/x\"\n"},"n":1.0,"y":"/Users/bob"}"#);
    assert_eq!(output, r#"{"x":{"text":"in \"/home/[redacted:home]/x\"\n"},"n":1.0,"y":"/Users/[redacted:home]"}"#);
    assert_eq!(counts, "2 home");
    // A secret that is written with escapes is one still.
    assert_eq!(line(r#"{"a":"\/home\/alice"}"#).1, "1 home");
    // A key is a string too, and names what stands behind it.
    assert_eq!(
        line(r#"{"/home/alice":1,"password":"short"}"#).0,
        r#"{"/home/[redacted:home]":1,"password":"[redacted:secret]"}"#
    );
    assert_eq!(line(r#"{"client_secret":"$FROM_ENV","password":{"type":"string"}}"#).1, "nothing");
    // Torn lines end.
    assert_eq!(line(r#"{"a":"/home/alice"#).1, "nothing");
    assert_eq!(line("\"\\").1, "nothing");
}

#[test]
fn images_are_left_whole() {
    let redactor = redactor(None, "");
    let line = format!(r#"{{"type":"image","data":"iVBORw0KGgo+AK{}Q7XK2ZPLM3VT5RB6/","mimeType":"image/png"}}"#, "IA");
    assert!(matches!(redactor.line(line.as_bytes(), &mut Redactions::default()), Cow::Borrowed(_)));
    let other = line.replace("iVBORw0KGgo", "notanimage");
    assert!(matches!(redactor.line(other.as_bytes(), &mut Redactions::default()), Cow::Owned(_)));
}
