//! The page as a whole: its marks and its policy.

use super::*;

#[test]
fn every_mark_of_the_page_is_known() {
    let known = ["policy", "title", "style", "script", "facts", "damage", "path", "others", "rows", "data", "redactions"];
    let mut found: Vec<_> = PAGE.split("{{").skip(1).map(|rest| rest.split_once("}}").expect("closed").0).collect();
    found.sort_unstable();
    found.dedup();
    let mut expected = known.to_vec();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn the_assets_end_nothing_that_they_stand_in() {
    let script = SCRIPT.to_lowercase();
    assert!(!script.contains("</script") && !script.contains("<script") && !script.contains("<!--"));
    assert!(!STYLE.to_lowercase().contains("</style"));
}

#[test]
fn the_policy_lets_in_the_script_and_the_style_sheet_alone() {
    let policy = policy();
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains('*') && !policy.contains("http"), "{policy}");
    assert_eq!(policy.matches("sha256-").count(), 2);
}
