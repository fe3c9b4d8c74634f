//! Minimal lexer for Rust files: separates code, strings and comments, and marks test code. It contains no
//! rules.

/// Rust file, split into lines.
pub(crate) struct SourceFile {
    pub(crate) path: String,
    pub(crate) lines: Vec<SourceLine>,
    pub(crate) literals: Vec<StringLiteral>,
}

/// One line in three views: each keeps its own characters and blanks the others.
#[derive(Debug, Default)]
pub(crate) struct SourceLine {
    pub(crate) number: usize,
    pub(crate) code: String,
    pub(crate) text: String,
    pub(crate) comment: String,
    /// Inside an item under `#[cfg(test)]`.
    pub(crate) in_test: bool,
}

/// Content of a string literal, and the line it begins on.
pub(crate) struct StringLiteral {
    pub(crate) line: usize,
    pub(crate) value: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CharKind {
    Code,
    Text,
    Comment,
}

impl SourceFile {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        let mut kinds = vec![CharKind::Code; chars.len()];
        let mut literals = Vec::new();
        let mut at = 0;
        while at < chars.len() {
            let (kind, end) = next_token(&chars, at);
            kinds[at..end].fill(kind);
            if kind == CharKind::Text {
                let line = 1 + chars[..at].iter().filter(|&&c| c == '\n').count();
                let raw: String = chars[at..end].iter().collect();
                let value = raw.trim_start_matches(['r', 'b', 'c']).trim_matches('#');
                literals.push(StringLiteral {
                    line,
                    value: value.trim_matches('"').to_owned(),
                });
            }
            at = end;
        }
        let mut lines = split(&chars, &kinds);
        mark_tests(&mut lines);
        Self {
            path: path.to_owned(),
            lines,
            literals,
        }
    }

    /// Returns true if all of the file is test or benchmark code, by its folder or its name.
    pub(crate) fn is_harness(&self) -> bool {
        let mut folders: Vec<&str> = self.path.split('/').collect();
        let file = folders.pop();
        file == Some("tests.rs")
            || folders
                .iter()
                .any(|f| matches!(*f, "tests" | "bench" | "benches" | "fuzz"))
    }

    /// Lines of product code.
    pub(crate) fn product(&self) -> impl Iterator<Item = &SourceLine> {
        let harness = self.is_harness();
        self.lines
            .iter()
            .filter(move |line| !harness && !line.in_test)
    }

    /// Lines of test code.
    pub(crate) fn tests(&self) -> impl Iterator<Item = &SourceLine> {
        let harness = self.is_harness();
        self.lines
            .iter()
            .filter(move |line| harness || line.in_test)
    }
}

/// Returns the kind of the token that begins at `at`, and its end.
fn next_token(chars: &[char], at: usize) -> (CharKind, usize) {
    let tail = &chars[at..];
    let word_before = at > 0 && is_word(chars[at - 1]);
    match tail {
        ['/', '/', ..] => (
            CharKind::Comment,
            at + find(tail, 0, &['\n']).unwrap_or(tail.len()),
        ),
        ['/', '*', ..] => (CharKind::Comment, at + block_comment(tail)),
        ['"', ..] => (CharKind::Text, at + quoted(tail, '"')),
        ['r', ..] | ['b' | 'c', 'r', ..] if !word_before => match raw_string(tail) {
            Some(length) => (CharKind::Text, at + length),
            None => (CharKind::Code, at + 1),
        },
        ['\'', '\\', ..] => (CharKind::Text, at + quoted(tail, '\'')),
        ['\'', _, '\'', ..] => (CharKind::Text, at + 3),
        // All other characters, including lifetimes.
        _ => (CharKind::Code, at + 1),
    }
}

fn block_comment(tail: &[char]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < tail.len() {
        match &tail[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn quoted(tail: &[char], quote: char) -> usize {
    let mut at = 1;
    while at < tail.len() && tail[at] != quote {
        at += if tail[at] == '\\' { 2 } else { 1 };
    }
    tail.len().min(at + 1)
}

fn raw_string(tail: &[char]) -> Option<usize> {
    let prefix = tail
        .iter()
        .take_while(|c| matches!(c, 'r' | 'b' | 'c'))
        .count();
    let hashes = tail[prefix..].iter().take_while(|&&c| c == '#').count();
    let open = prefix + hashes;
    if tail.get(open) != Some(&'"') {
        return None; // a word that begins with r, or r#type
    }
    let mut close = vec!['"'];
    close.resize(1 + hashes, '#');
    Some(find(tail, open + 1, &close).map_or(tail.len(), |at| at + close.len()))
}

fn find(chars: &[char], from: usize, what: &[char]) -> Option<usize> {
    (from..chars.len()).find(|&at| chars[at..].starts_with(what))
}

pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn split(chars: &[char], kinds: &[CharKind]) -> Vec<SourceLine> {
    let mut lines = vec![SourceLine {
        number: 1,
        ..SourceLine::default()
    }];
    for (&c, &kind) in chars.iter().zip(kinds) {
        let number = lines.len();
        if c == '\n' {
            lines.push(SourceLine {
                number: number + 1,
                ..SourceLine::default()
            });
            continue;
        }
        let line = &mut lines[number - 1];
        line.code.push(if kind == CharKind::Code { c } else { ' ' });
        line.text.push(if kind == CharKind::Text { c } else { ' ' });
        line.comment
            .push(if kind == CharKind::Comment { c } else { ' ' });
    }
    // An empty string after the last line break is not a line.
    lines.pop_if(|line| line.code.is_empty());
    lines
}

/// Marks each item under `#[cfg(test)]`, from the attribute to its closing brace or semicolon.
fn mark_tests(lines: &mut [SourceLine]) {
    let mut depth = None;
    for line in lines {
        let mut code = line.code.as_str();
        if depth.is_none() {
            let Some(at) = ["#[cfg(test)]", "#[cfg(all(test"]
                .iter()
                .find_map(|a| code.find(a))
            else {
                continue;
            };
            depth = Some(0);
            code = &code[at..];
        }
        line.in_test = true;
        for c in code.chars() {
            match (c, depth) {
                ('{', Some(open)) => depth = Some(open + 1),
                ('}', Some(1)) | (';', Some(0)) => depth = None,
                ('}', Some(open)) => depth = Some(open - 1),
                _ => {}
            }
        }
    }
}

#[test]
fn code_strings_and_comments_are_separated() {
    let check = |text: &str, code: &str, string: &str, comment: &str| {
        let source = SourceFile::new("a.rs", text);
        let line = &source.lines[0];
        let views = [&line.code, &line.text, &line.comment].map(|view| view.trim());
        assert_eq!(views, [code, string, comment], "{text}");
    };
    check("a // b", "a", "", "// b");
    check(r#"f("x // y")"#, r#"f(        )"#, r#""x // y""#, "");
    check(
        r##"f(r#"x "q" y"#)"##,
        "f(            )",
        r##"r#"x "q" y"#"##,
        "",
    );
    check(r#"f("\"", 1)"#, "f(    , 1)", r#""\"""#, "");
    check(
        "f('\"', '\\'', '{')",
        "f(   ,     ,    )",
        "'\"'  '\\''  '{'",
        "",
    );
    check("fn f<'a>(x: &'a r#type)", "fn f<'a>(x: &'a r#type)", "", "");
    check(
        "a /* b /* c */ d */ e",
        "a                   e",
        "",
        "/* b /* c */ d */",
    );
}

#[test]
fn cfg_test_items_are_marked_to_their_end() {
    let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n  fn b() { c('}') }\n}\nfn d() {}\n\
                #[cfg(test)]\nmod more;\nfn e() {}\n";
    let source = SourceFile::new("hub/src/a.rs", text);
    let marked: Vec<usize> = source.tests().map(|line| line.number).collect();
    assert_eq!(marked, [2, 3, 4, 5, 7, 8]);
    assert!(
        SourceFile::new("hub/src/tasks/tests.rs", text)
            .product()
            .next()
            .is_none()
    );
    assert!(
        SourceFile::new("tests/tests/it/main.rs", text)
            .product()
            .next()
            .is_none()
    );
}
