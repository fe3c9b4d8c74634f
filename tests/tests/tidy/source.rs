//! A Rust file taken apart just enough for the rules: what is code, what is the inside of a
//! string, what is a comment, and which lines are test code. Nothing here knows a rule.

/// A Rust file, line by line.
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) lines: Vec<Line>,
    pub(crate) literals: Vec<Literal>,
}

/// One line, three times over: each view keeps its own characters and blanks the rest.
#[derive(Debug, Default)]
pub(crate) struct Line {
    pub(crate) number: usize,
    pub(crate) code: String,
    pub(crate) text: String,
    pub(crate) comment: String,
    /// Inside an item under `#[cfg(test)]`.
    pub(crate) in_test: bool,
}

/// What is between the quotes of a string, and the line it begins on.
pub(crate) struct Literal {
    pub(crate) line: usize,
    pub(crate) value: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Text,
    Comment,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        let mut kinds = vec![Kind::Code; chars.len()];
        let mut literals = Vec::new();
        let mut at = 0;
        while at < chars.len() {
            let (kind, end) = token(&chars, at);
            kinds[at..end].fill(kind);
            if kind == Kind::Text {
                let line = 1 + chars[..at].iter().filter(|&&c| c == '\n').count();
                let raw: String = chars[at..end].iter().collect();
                let value = raw.trim_start_matches(['r', 'b', 'c']).trim_matches('#');
                literals.push(Literal {
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

    /// Whether the whole file is test or measurement code, by where it is or what it is called.
    pub(crate) fn is_harness(&self) -> bool {
        let mut folders: Vec<&str> = self.path.split('/').collect();
        let file = folders.pop();
        file == Some("tests.rs")
            || folders
                .iter()
                .any(|f| matches!(*f, "tests" | "bench" | "benches" | "fuzz"))
    }

    /// The lines that end up in the product.
    pub(crate) fn product(&self) -> impl Iterator<Item = &Line> {
        let harness = self.is_harness();
        self.lines
            .iter()
            .filter(move |line| !harness && !line.in_test)
    }

    /// The lines that only test.
    pub(crate) fn tests(&self) -> impl Iterator<Item = &Line> {
        let harness = self.is_harness();
        self.lines
            .iter()
            .filter(move |line| harness || line.in_test)
    }
}

/// What begins at `at`, and where it ends.
fn token(chars: &[char], at: usize) -> (Kind, usize) {
    let rest = &chars[at..];
    let word_before = at > 0 && is_word(chars[at - 1]);
    match rest {
        ['/', '/', ..] => (
            Kind::Comment,
            at + find(rest, 0, &['\n']).unwrap_or(rest.len()),
        ),
        ['/', '*', ..] => (Kind::Comment, at + block_comment(rest)),
        ['"', ..] => (Kind::Text, at + quoted(rest, '"')),
        ['r', ..] | ['b' | 'c', 'r', ..] if !word_before => match raw_string(rest) {
            Some(length) => (Kind::Text, at + length),
            None => (Kind::Code, at + 1),
        },
        ['\'', '\\', ..] => (Kind::Text, at + quoted(rest, '\'')),
        ['\'', _, '\'', ..] => (Kind::Text, at + 3),
        // Everything else, lifetimes too.
        _ => (Kind::Code, at + 1),
    }
}

fn block_comment(rest: &[char]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match &rest[at..] {
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

fn quoted(rest: &[char], quote: char) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == '\\' { 2 } else { 1 };
    }
    rest.len().min(at + 1)
}

fn raw_string(rest: &[char]) -> Option<usize> {
    let prefix = rest
        .iter()
        .take_while(|c| matches!(c, 'r' | 'b' | 'c'))
        .count();
    let hashes = rest[prefix..].iter().take_while(|&&c| c == '#').count();
    let open = prefix + hashes;
    if rest.get(open) != Some(&'"') {
        return None; // a word that begins with r, or r#type
    }
    let mut close = vec!['"'];
    close.resize(1 + hashes, '#');
    Some(find(rest, open + 1, &close).map_or(rest.len(), |at| at + close.len()))
}

fn find(chars: &[char], from: usize, what: &[char]) -> Option<usize> {
    (from..chars.len()).find(|&at| chars[at..].starts_with(what))
}

pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn split(chars: &[char], kinds: &[Kind]) -> Vec<Line> {
    let mut lines = vec![Line {
        number: 1,
        ..Line::default()
    }];
    for (&c, &kind) in chars.iter().zip(kinds) {
        let number = lines.len();
        if c == '\n' {
            lines.push(Line {
                number: number + 1,
                ..Line::default()
            });
            continue;
        }
        let line = &mut lines[number - 1];
        line.code.push(if kind == Kind::Code { c } else { ' ' });
        line.text.push(if kind == Kind::Text { c } else { ' ' });
        line.comment
            .push(if kind == Kind::Comment { c } else { ' ' });
    }
    // What follows the last line break is not a line when there is nothing.
    lines.pop_if(|line| line.code.is_empty());
    lines
}

/// Marks each item under `#[cfg(test)]`, from the attribute to its closing brace or semicolon.
fn mark_tests(lines: &mut [Line]) {
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
fn code_strings_and_comments_are_told_apart() {
    let check = |text: &str, code: &str, string: &str, comment: &str| {
        let source = Source::new("a.rs", text);
        let line = &source.lines[0];
        let seen = [&line.code, &line.text, &line.comment].map(|view| view.trim());
        assert_eq!(seen, [code, string, comment], "{text}");
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
fn test_items_are_marked_to_their_end() {
    let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n  fn b() { c('}') }\n}\nfn d() {}\n\
                #[cfg(test)]\nmod more;\nfn e() {}\n";
    let source = Source::new("hub/src/a.rs", text);
    let marked: Vec<usize> = source.tests().map(|line| line.number).collect();
    assert_eq!(marked, [2, 3, 4, 5, 7, 8]);
    assert!(
        Source::new("hub/src/tasks/tests.rs", text)
            .product()
            .next()
            .is_none()
    );
    assert!(
        Source::new("tests/tests/it/main.rs", text)
            .product()
            .next()
            .is_none()
    );
}
