//! Forms in parts, as browsers and SDKs send files.

use super::Refused;

/// One part.
pub(crate) struct Part<'a> {
    pub(crate) name: String,
    pub(crate) filename: Option<String>,
    pub(crate) bytes: &'a [u8],
}

/// At most so many parts are looked at.
const MOST: usize = 64;

/// The parts of `body`; `kind` is its content type, which names the boundary.
pub(crate) fn parts<'a>(kind: &str, body: &'a [u8]) -> Result<Vec<Part<'a>>, Refused> {
    let bad = || Refused::new("invalid_form_data");
    let boundary = kind.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let value = value.trim().trim_matches('"');
        name.trim()
            .eq_ignore_ascii_case("boundary")
            .then(|| format!("--{value}"))
    });
    let boundary = boundary.ok_or_else(bad)?;
    let mut found = Vec::new();
    let mut rest = after(body, boundary.as_bytes()).ok_or_else(bad)?;
    let next = format!("\r\n{boundary}");
    while !rest.starts_with(b"--") && found.len() < MOST {
        let rest_of_line = rest.strip_prefix(b"\r\n").ok_or_else(bad)?;
        let end = position(rest_of_line, next.as_bytes()).ok_or_else(bad)?;
        let (part, more) = rest_of_line.split_at_checked(end).ok_or_else(bad)?;
        rest = more.get(next.len()..).ok_or_else(bad)?;
        let split = position(part, b"\r\n\r\n").ok_or_else(bad)?;
        let (head, content) = part.split_at_checked(split).ok_or_else(bad)?;
        let head = String::from_utf8_lossy(head).into_owned();
        found.push(Part {
            name: disposition(&head, "name").ok_or_else(bad)?,
            filename: disposition(&head, "filename"),
            bytes: content.get(4..).unwrap_or_default(),
        });
    }
    Ok(found)
}

/// A parameter of the part's `Content-Disposition`.
fn disposition(head: &str, wanted: &str) -> Option<String> {
    let line = head.lines().find(|line| {
        line.split(':')
            .next()
            .unwrap_or_default()
            .trim()
            .eq_ignore_ascii_case("content-disposition")
    })?;
    let mut rest = line.split_once(';')?.1;
    while let Some((name, value)) = rest.split_once('=') {
        // A semicolon within quotation marks is part of a name.
        let (value, more) = match value.trim_start().strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => value.split_once(';').unwrap_or((value, "")),
        };
        if name.trim_matches([';', ' ']) == wanted {
            return Some(value.trim().to_owned());
        }
        rest = more;
    }
    None
}

fn position(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|part| part == wanted)
}

fn after<'a>(text: &'a [u8], wanted: &[u8]) -> Option<&'a [u8]> {
    text.get(position(text, wanted)? + wanted.len()..)
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn parts_are_found_and_broken_forms_refused() {
        let kind = "multipart/form-data; boundary=\"x y\"";
        let body = b"--x y\r\ncontent-disposition: form-data; name=\"a\"\r\n\r\none\r\n\
            --x y\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a;b.csv\"\r\n\
            Content-Type: text/csv\r\n\r\n1\r\n2\r\n--x y--\r\n";
        let found = parts(kind, body).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].name.as_str(), found[0].bytes), ("a", &b"one"[..]));
        assert_eq!(found[1].bytes, b"1\r\n2");
        assert_eq!(found[1].filename.as_deref(), Some("a;b.csv"));
        assert_eq!(found[0].filename, None);
        for broken in [
            &b""[..],
            b"--x y",
            b"--x y\r\nno head\r\n--x y--",
            b"--x y\r\n",
        ] {
            assert!(parts(kind, broken).is_err(), "{broken:?}");
        }
        assert!(parts("multipart/form-data", body).is_err());
    }
}
