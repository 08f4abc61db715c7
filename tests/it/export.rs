//! Exports of whole sessions: nothing of a session works in a page, and the other formats hold what they promise.

use std::collections::BTreeSet;

use pi_sessions::export::{ExportOptions, FORMATS, RedactOptions, Scope};
use serde_json::Value;

use crate::support::exported::{export_file, fixture, page_tags};

fn plain(case: &str, format: &str) -> String {
    export_file(&fixture(case), format, &ExportOptions::default()).0
}

fn with_scope(case: &str, format: &str, scope: Scope) -> String {
    export_file(&fixture(case), format, &ExportOptions { scope: Some(scope), redact: None }).0
}

/// Tags and attributes of a page, as `tag` and `tag.attribute`.
fn parts_of(page: &str) -> BTreeSet<String> {
    let mut parts = BTreeSet::new();
    for tag in page_tags(page) {
        parts.extend(tag.attributes.iter().map(|(name, _)| format!("{}.{name}", tag.name)));
        parts.insert(tag.name);
    }
    parts
}

#[test]
fn a_hostile_session_adds_no_tag_and_no_attribute_to_a_page() {
    let page = plain("export/hostile", "html");
    let allowed: BTreeSet<_> = "a a.class a.data-s a.href a.title article article.class article.id aside aside.data-ui body br \
        button button.aria-label button.class button.data-do button.title button.type code code.class dd del details \
        details.class dialog dialog.data-ui div div.class div.data-ui div.id dl dl.class dt footer form form.method h1 h2 head \
        header header.class html html.lang img img.alt img.decoding img.loading img.src input input.aria-label input.data-ui \
        input.placeholder input.type ins kbd li main meta meta.charset meta.content meta.http-equiv meta.name nav \
        nav.aria-label nav.class nav.data-ui option option.value output output.data-ui p p.class pre pre.class script \
        script.data-ui script.type section section.data-s select select.aria-label select.data-ui span span.class span.title \
        style summary table tbody td template template.data-s th thead time time.datetime title tr ul b"
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    let strange: Vec<_> = parts_of(&page).difference(&allowed).cloned().collect();
    assert!(strange.is_empty(), "{strange:?}");
    let tags = page_tags(&page);
    let count = |name: &str| tags.iter().filter(|tag| tag.name == name).count();
    // One script and the data for it, each opened and closed.
    assert_eq!((count("script"), count("style"), count("template")), (4, 2, 4), "scripts, styles, templates");
    assert_eq!(count("img"), 1, "of the images one is of a kind that is shown");
}

#[test]
fn links_of_a_page_lead_to_the_web_to_mail_or_into_the_page() {
    for case in ["export/hostile", "export/branches", "pi/v1-long-conversation"] {
        let page = plain(case, "html");
        for tag in page_tags(&page) {
            for (name, value) in tag.attributes {
                let is_fine = match name.as_str() {
                    "href" => ["#", "https://", "http://", "mailto:", "../"].iter().any(|start| value.starts_with(start)),
                    "src" => value.starts_with("data:image/png;base64,"),
                    _ => true,
                };
                assert!(is_fine, "{case}: {} {name}={value:?}", tag.name);
            }
        }
    }
}

#[test]
fn every_entry_has_one_element_and_one_row_in_the_order_of_the_path() {
    let page = plain("export/branches", "html");
    let tags = page_tags(&page);
    let of = |tag: &str, name: &str| -> Vec<String> {
        let has = |at: &&crate::support::exported::PageTag| at.name == tag;
        tags.iter().filter(has).flat_map(|tag| tag.attributes.clone()).filter(|(key, _)| key == name).map(|(_, id)| id).collect()
    };
    let mut ids = of("article", "id");
    ids.extend(of("div", "id"));
    let rows: Vec<_> = tags
        .iter()
        .filter(|tag| tag.name == "a" && tag.attributes.iter().any(|(name, _)| name == "data-s"))
        .flat_map(|tag| tag.attributes.iter().filter(|(name, _)| name == "href").map(|(_, link)| link[1..].to_owned()))
        .collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "no id twice");
    assert_eq!(ids.iter().collect::<BTreeSet<_>>(), rows.iter().collect::<BTreeSet<_>>());
    // The page is in the order of the path, whatever the ids are.
    let place = |text: &str| page.find(text).expect(text);
    assert!(place("say hello to") < place("The greeting is now") && place("The greeting is now") < place("Leave French"));
    assert!(place("in red") < place("<template"), "the active path is in the page itself");
    assert!(place("Now in French") > place("<template"), "another branch is beside it");
}

#[test]
fn a_page_of_the_path_alone_holds_no_other_branch() {
    let page = with_scope("export/branches", "html", Scope::Path);
    assert!(!page.contains("<template") && !page.contains("Now in French") && page.contains("Leave French"));
}

#[test]
fn damage_is_told() {
    assert!(plain("export/hostile", "html").contains("<li>line 7, byte "));
    assert!(plain("export/hostile", "markdown").contains("> - line 7, byte "));
}

#[test]
fn markdown_reads_well() {
    insta::assert_snapshot!("branches_markdown", plain("export/branches", "markdown"));
}

#[test]
fn hostile_text_does_not_leave_its_place_in_markdown() {
    let text = with_scope("export/hostile", "markdown", Scope::All);
    // Outside code the document is our headings, tables and folds; a reader of Markdown says what is HTML and what a link.
    for event in pulldown_cmark::Parser::new_ext(&text, pulldown_cmark::Options::ENABLE_TABLES) {
        match event {
            pulldown_cmark::Event::Html(html) | pulldown_cmark::Event::InlineHtml(html) => {
                let tags: BTreeSet<_> = page_tags(&html).into_iter().map(|tag| (tag.name, tag.attributes.len())).collect();
                let allowed = ["details", "summary", "b", "i", "code"];
                assert!(tags.iter().all(|(name, attributes)| allowed.contains(&name.as_str()) && *attributes == 0), "{html}");
            }
            pulldown_cmark::Event::Start(
                pulldown_cmark::Tag::Link { dest_url, .. } | pulldown_cmark::Tag::Image { dest_url, .. },
            ) => {
                assert!(["http", "mailto:", "../"].iter().any(|start| dest_url.starts_with(start)), "{dest_url}");
            }
            _ => {}
        }
    }
}

#[test]
fn json_is_one_object_of_the_documented_shape() {
    let json: Value = serde_json::from_str(&plain("export/branches", "json")).expect("one object");
    let keys: Vec<_> = json.as_object().expect("an object").keys().cloned().collect();
    let mut documented = [
        "format",
        "formatVersion",
        "session",
        "name",
        "leafId",
        "labels",
        "stats",
        "damage",
        "entries",
        "messages",
        "redactions",
    ];
    documented.sort_unstable();
    assert_eq!(keys, documented);
    let mut rest = json.clone();
    rest["entries"] = Value::Null;
    rest["messages"] = Value::Null;
    insta::assert_snapshot!(serde_json::to_string_pretty(&rest).expect("JSON"), @r#"
    {
      "damage": [],
      "entries": null,
      "format": "pi-sessions-export",
      "formatVersion": 1,
      "labels": {
        "00000009": "first version"
      },
      "leafId": "00000015",
      "messages": null,
      "name": "Greeter: a better hello",
      "redactions": null,
      "session": {
        "cwd": "/home/alice/greeter",
        "id": "01a22992-b540-7005-ac70-3fa13af3a900",
        "timestamp": "2026-11-29T23:10:10.241Z",
        "type": "session",
        "version": 3
      },
      "stats": {
        "assistantMessages": 7,
        "branches": 2,
        "compactions": 1,
        "cost": 0.07,
        "messages": 16,
        "tokens": {
          "cacheRead": 56000,
          "cacheWrite": 3500,
          "input": 8400,
          "output": 2380,
          "total": 70280
        },
        "toolCalls": 5,
        "toolResults": 5,
        "userMessages": 3
      }
    }
    "#);
    let entries = json["entries"].as_array().expect("entries");
    let source = std::fs::read_to_string(fixture("export/branches")).expect("the fixture");
    assert_eq!(entries.len(), source.lines().count() - 1);
    assert!(entries.iter().any(|entry| entry["onPath"] == false) && entries[0]["onPath"] == true);
    let roles: Vec<_> =
        json["messages"].as_array().expect("messages").iter().map(|said| said["message"]["role"].as_str()).collect();
    let expected = "user assistant toolResult toolResult assistant toolResult assistant branchSummary user assistant toolResult \
        compactionSummary bashExecution assistant";
    assert_eq!(roles, expected.split_whitespace().map(Some).collect::<Vec<_>>());
}

#[test]
fn json_lines_are_the_bytes_of_the_file() {
    let source = std::fs::read_to_string(fixture("export/branches")).expect("the fixture");
    assert_eq!(plain("export/branches", "jsonl"), source);
    let path = with_scope("export/branches", "jsonl", Scope::Path);
    assert!(path.lines().all(|line| source.lines().any(|other| other == line)) && path.len() < source.len());
    assert!(!path.contains("Now in French") && path.contains("Leave French"));
}

#[test]
fn an_older_version_goes_out_in_the_current_one() {
    let text = plain("pi/v1-long-conversation", "jsonl");
    let header: Value = serde_json::from_str(text.lines().next().expect("a header")).expect("JSON");
    assert_eq!(header["version"], 3);
    assert!(header["parentSession"].is_string());
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("copy.jsonl");
    std::fs::write(&copy, &text).expect("written");
    assert_eq!(export_file(&copy, "jsonl", &ExportOptions::default()).0, text, "what was exported opens and is the same");
}

#[test]
fn what_is_taken_out_is_out_of_every_format_and_counted_once() {
    let secret = format!("gh{}{}", "p_", "q7Xk2Zp9Lm4Vt8Rb1Ns6Wc3Yf5Hd0Gj8aB2c");
    let source = std::fs::read_to_string(fixture("export/branches")).expect("the fixture");
    let source = source.replace("Now in French", &format!("Now with {secret}")).replace("first version", &format!("v {secret}"));
    let source = source.replace("Greeter: a better hello", "Greeter in /home/alice/greeter");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("s.jsonl");
    std::fs::write(&path, source).expect("written");
    let options = ExportOptions { scope: Some(Scope::All), redact: Some(RedactOptions::default()) };
    for format in FORMATS {
        let (text, exported) = export_file(&path, format.name(), &options);
        assert!(!text.contains(&secret), "{}", format.name());
        assert!(!text.contains("/home/alice") && !text.contains("alice"), "{}", format.name());
        assert!(text.contains("redacted:github-token"), "{}", format.name());
        assert_eq!(exported.redactions.to_string(), "2 github-token, 4 home", "{}", format.name());
        assert_eq!(export_file(&path, format.name(), &ExportOptions::default()).1.redactions.total(), 0);
    }
    let (page, _) = export_file(&path, "html", &options);
    assert!(page.contains("Taken out of this page: 2 github-token, 4 home."));
}

#[test]
fn every_session_of_the_fixtures_goes_out_in_every_format() {
    for area in ["context", "pi", "export"] {
        let folder = fixture(area).parent().expect("a folder").to_owned();
        for case in std::fs::read_dir(folder).expect("the area") {
            let path = case.expect("a case").path().join("input.jsonl");
            if path.to_string_lossy().contains("v1-") {
                continue;
            }
            for format in FORMATS {
                for scope in [Scope::Path, Scope::All] {
                    let redact = (area == "export").then(RedactOptions::default);
                    let options = ExportOptions { scope: Some(scope), redact };
                    let (text, _) = export_file(&path, format.name(), &options);
                    assert!(!text.is_empty());
                    if format.name() == "html" {
                        page_tags(&text);
                    }
                }
            }
        }
    }
}

#[test]
fn an_empty_session_goes_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("s.jsonl");
    std::fs::write(&path, "{\"type\":\"session\",\"version\":3,\"id\":\"x\",\"timestamp\":\"\",\"cwd\":\"\"}\n")
        .expect("written");
    for format in FORMATS {
        let (text, exported) = export_file(&path, format.name(), &ExportOptions::default());
        assert!(text.contains('x'), "{}", format.name());
        assert_eq!(exported.entries, 0);
    }
}
