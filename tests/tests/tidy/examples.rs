//! Rule that documentation of public items has an example.

use crate::source::SourceFile;
use crate::tree::Finding;

/// Crates whose users have only their documentation.
const CHECKED_FOLDERS: &[&str] = &["jsonrpc/src/"];

/// Words that may stand between `pub` and the item keyword. `const` is also an item of its own.
const QUALIFIERS: &[&str] = &["const", "async", "unsafe", "extern"];
const ITEMS: &[&str] = &["fn", "struct", "enum", "union", "trait", "static", "type"];

/// Items nameable by other crates have an example that is run as a test: `pub` items, and the items of public
/// traits. Modules and re-exports need none.
pub(crate) fn public_items_have_examples(source: &SourceFile) -> Vec<Finding> {
    if !CHECKED_FOLDERS
        .iter()
        .any(|folder| source.path.starts_with(folder))
    {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut docs = DocState::default();
    let mut depth = 0_usize;
    // Depth of the public trait around the line, and whether its brace has been reached.
    let mut within: Option<(usize, bool)> = None;
    for line in source.product() {
        let code = line.code.trim();
        if let Some(text) = line.comment.trim_start().strip_prefix("///") {
            docs.read(text);
        }
        if code.is_empty() || docs.is_attribute(code) {
            continue;
        }
        let in_public_trait = within.is_some_and(|(at, _)| depth == at + 1);
        let public = code.strip_prefix("pub ");
        if let Some((kind, name)) = public
            .or(in_public_trait.then_some(code))
            .and_then(parse_item)
        {
            if !docs.has_example {
                let what = format!("`{name}` has no example");
                found.push(Finding::new(&source.path, line.number, what));
            }
            if kind == "trait" {
                within = Some((depth, false));
            }
        }
        docs = DocState::default();
        for c in code.chars() {
            match c {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        within = within
            .map(|(at, open)| (at, open || code.contains('{')))
            .filter(|&(at, open)| !open || depth > at);
    }
    found
}

/// Documentation above an item.
#[derive(Default)]
struct DocState {
    /// Inside a fenced block.
    fenced: bool,
    /// There was a block that is compiled and run.
    has_example: bool,
    /// Open brackets of an attribute.
    open: usize,
}

impl DocState {
    fn read(&mut self, text: &str) {
        let Some(info) = text.trim().strip_prefix("```") else {
            return;
        };
        self.fenced = !self.fenced;
        self.has_example |= self.fenced && matches!(info.trim(), "" | "rust" | "should_panic");
    }

    /// Returns true if the code belongs to an attribute, which may take several lines or come from a macro's caller
    /// as `$(#[…])*`.
    fn is_attribute(&mut self, code: &str) -> bool {
        if self.open == 0 && !code.starts_with("#[") && !code.starts_with("$(#[") {
            return false;
        }
        let closed = code.matches(']').count();
        self.open = (self.open + code.matches('[').count()).saturating_sub(closed);
        true
    }
}

/// Returns the kind and name of the item declared here, without its `pub`.
fn parse_item(code: &str) -> Option<(&str, &str)> {
    let words: Vec<&str> = code.split_whitespace().collect();
    let at = words.iter().position(|word| !QUALIFIERS.contains(word))?;
    let (kind, name) = if ITEMS.contains(&words[at]) {
        (words[at], *words.get(at + 1)?)
    } else if at > 0 && words[at - 1] == "const" {
        ("const", words[at])
    } else {
        return None;
    };
    let end = name.find(|c: char| !crate::source::is_word(c));
    Some((kind, &name[..end.unwrap_or(name.len())]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &[&str]) {
        let found = public_items_have_examples(&SourceFile::new("jsonrpc/src/a.rs", text));
        let names: Vec<&str> = found
            .iter()
            .filter_map(|finding| finding.description.split('`').nth(1))
            .collect();
        assert_eq!(names, expect, "{text}");
    }

    #[test]
    fn every_kind_of_item_needs_an_example() {
        for item in [
            "fn a() {}",
            "fn a<T>(x: T) {}",
            "const fn a() {}",
            "const unsafe extern \"C\" fn a() {}",
            "async fn a() {}",
            "struct a;",
            "struct a<'a>(&'a str);",
            "enum a {}",
            "trait a {}",
            "const a: u8 = 1;",
            "static a: u8 = 1;",
            "type a = u8;",
        ] {
            check(&format!("pub {item}\n"), &["a"]);
            check(&format!("/// Words.\n#[must_use]\npub {item}\n"), &["a"]);
            check(
                &format!("/// Words.\n///\n/// ```\n/// a();\n/// ```\npub {item}\n"),
                &[],
            );
        }
    }

    #[test]
    fn private_items_need_no_example() {
        check("fn a() {}\nstruct B;\nconst C: u8 = 1;\n", &[]);
        check("pub(crate) fn a() {}\npub(in crate::b) struct B;\n", &[]);
        check("pub use a::A;\npub mod b;\n", &[]);
        check("impl fmt::Display for A {\n    fn fmt(&self) {}\n}\n", &[]);
        check("trait A {\n    fn b(&self);\n}\n", &[]);
        check("#[cfg(test)]\nmod tests {\n    pub fn a() {}\n}\n", &[]);
        check("/// ```\n/// ```\npub struct A {\n    pub b: u8,\n}\n", &[]);
        let elsewhere = SourceFile::new("protocol/src/a.rs", "pub fn a() {}\n");
        assert_eq!(public_items_have_examples(&elsewhere), []);
    }

    #[test]
    fn example_must_be_compiled_and_above_its_item() {
        check("/// ```text\n/// a\n/// ```\npub fn a() {}\n", &["a"]);
        check("/// ```ignore\n/// a\n/// ```\npub fn a() {}\n", &["a"]);
        check("/// ```rust\n/// a\n/// ```\npub fn a() {}\n", &[]);
        check("// ```\n// a\n// ```\npub fn a() {}\n", &["a"]);
        check("const A: &str = \"/// ```\";\npub fn a() {}\n", &["a"]);
        check("/// ```\n/// ```\npub fn a() {}\npub fn b() {}\n", &["b"]);
        check(
            "/// ```\n/// ```\n#[derive(\n    Clone,\n    Debug,\n)]\npub struct A;\n",
            &[],
        );
        check("/// ```\n/// ```\n$(#[$doc])*\npub struct A;\n", &[]);
        check("$(#[$doc])*\npub struct A;\n", &["A"]);
    }

    #[test]
    fn items_of_public_traits_need_examples() {
        let shown = "/// ```\n/// ```\n";
        check(
            &format!(
                "{shown}pub trait A\nwhere\n    Self: Sized,\n{{\n    type B;\n    const C: u8;\n    \
                 fn d(&self) {{\n        fn inner() {{}}\n    }}\n}}\nfn e() {{\n    fn f() {{}}\n}}\n"
            ),
            &["B", "C", "d"],
        );
        check(
            &format!("{shown}pub trait A {{\n    {shown}    fn b(&self);\n}}\nfn c() {{}}\n"),
            &[],
        );
    }
}
