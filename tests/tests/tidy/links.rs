//! Rule about Markdown: a link to a file of this repository resolves, including the heading that it names.

use crate::tree::Finding;
use std::collections::HashMap;

/// Relative links in `text` whose file or heading does not exist. `exists` is called with a path from the root,
/// and `page` returns the text of a page.
pub(crate) fn dead_links(
    path: &str,
    text: &str,
    exists: impl Fn(&str) -> bool,
    page: impl Fn(&str) -> String,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        for target in targets(line) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (file, heading) = target.split_once('#').unwrap_or((&target, ""));
            let file = file.split('?').next().unwrap_or_default();
            let file = match file {
                "" => Some(path.to_owned()),
                file => resolve(path, file).filter(|file| exists(file)),
            };
            let resolves = file.is_some_and(|file| {
                heading.is_empty()
                    || !file.ends_with(".md")
                    || anchors(&page(&file)).iter().any(|anchor| anchor == heading)
            });
            if !resolves {
                let what = format!("dead link to {target}");
                findings.push(Finding::new(path, index + 1, what));
            }
        }
    }
    findings
}

/// Anchors that GitHub generates for the headings of a page.
fn anchors(text: &str) -> Vec<String> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    let mut anchors = Vec::new();
    let mut fenced = false;
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        let title = line.trim_start_matches('#');
        if fenced || title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        // Of a link in a heading, only its text counts.
        let mut shown = String::new();
        for (at, piece) in title.split("](").enumerate() {
            let piece = match at {
                0 => piece,
                _ => piece.split_once(')').map_or("", |(_, rest)| rest),
            };
            shown.push_str(piece);
        }
        let is_allowed = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        let name: String = shown
            .trim()
            .to_lowercase()
            .chars()
            .filter(is_allowed)
            .collect();
        let name = name.replace(' ', "-");
        let count = counts.entry(name.clone()).or_default();
        anchors.push(match *count {
            0 => name,
            count => format!("{name}-{count}"),
        });
        *count += 1;
    }
    anchors
}

/// `[text](target)`, `[text](<target> "title")` and `[name]: target`, outside of `code`.
fn targets(line: &str) -> Vec<String> {
    let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("_");
    let inline = prose
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    let definition = prose
        .starts_with('[')
        .then(|| prose.split_once("]: "))
        .flatten();
    inline
        .chain(definition.map(|(_, rest)| rest))
        .filter_map(|target| target.split_whitespace().next())
        .map(|target| target.trim_matches(['<', '>']).to_owned())
        .collect()
}

/// Resolves `target` relative to the file `path`, as a path from the root; `None` if it is outside.
fn resolve(path: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    if target.starts_with('/') {
        parts.clear();
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[test]
fn dead_links_are_found() {
    let check = |text: &str, expect: usize| {
        let exists = |path: &str| ["docs/b.md", "README.md"].contains(&path);
        let page = |path: &str| match path {
            "docs/a.md" => text.to_owned(),
            _ => "# Some `part`\n## Some part\n```\n# none\n```\n".to_owned(),
        };
        let found = dead_links("docs/a.md", text, exists, page);
        assert_eq!(found.len(), expect, "{text}: {found:?}");
    };
    check(
        "[b](b.md), [b](./b.md#some-part), [b](b.md#some-part-1), [up](../README.md \"title\")",
        0,
    );
    check("[gone](gone.md)", 1);
    check("[gone](README.md) and ![gone](../b.png)", 2);
    check("[out](../../README.md)", 1);
    check("[name]: gone.md", 1);
    check(
        "[web](https://example.org/x.md), [here](#the-part), [mail](mailto:a@example.org)\n## The *part*",
        0,
    );
    check("[b](b.md#none), [b](b.md#some-part-2), [here](#gone)", 3);
    check("`[code](gone.md)` and `a[0](x)`", 0);
    check("```\n[code](gone.md)\n```\n[gone](gone.md)", 1);
}
