//! The rule about Markdown: a link to a file of this repository leads to it.

use crate::tree::Finding;

/// Relative links in `text` whose file is not there, asking `exists` with a path from the root.
pub(crate) fn dead(path: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<Finding> {
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
            let file = target.split(['#', '?']).next().unwrap_or_default();
            let outside = target.contains("://") || target.starts_with("mailto:");
            if outside || file.is_empty() {
                continue;
            }
            if !resolve(path, file).is_some_and(|file| exists(&file)) {
                findings.push(Finding::new(
                    path,
                    index + 1,
                    format!("dead link to {target}"),
                ));
            }
        }
    }
    findings
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

/// `target` as seen from the file `path`, as a path from the root; none if it leads outside.
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
fn links() {
    let check = |text: &str, expect: usize| {
        let found = dead("docs/a.md", text, |path| {
            ["docs/b.md", "README.md"].contains(&path)
        });
        assert_eq!(found.len(), expect, "{text}: {found:?}");
    };
    check(
        "[b](b.md), [b](./b.md#part), [up](../README.md \"title\")",
        0,
    );
    check("[gone](gone.md)", 1);
    check("[gone](README.md) and ![gone](../b.png)", 2);
    check("[out](../../README.md)", 1);
    check("[name]: gone.md", 1);
    check(
        "[web](https://example.org/x.md), [here](#part), [mail](mailto:a@example.org)",
        0,
    );
    check("`[code](gone.md)` and `a[0](x)`", 0);
    check("```\n[code](gone.md)\n```\n[gone](gone.md)", 1);
}
