//! Parser for `multipart/form-data`.

use super::SlackApiError;

/// One part.
pub(crate) struct FormPart<'a> {
    pub(crate) name: String,
    pub(crate) filename: Option<String>,
    pub(crate) bytes: &'a [u8],
}

/// Maximum number of parts.
const MAX_PARTS: usize = 64;

/// Parses the parts of `body`; `kind` is its content type, which contains the boundary.
pub(crate) fn parse_parts<'a>(
    content_type: &str,
    body: &'a [u8],
) -> Result<Vec<FormPart<'a>>, SlackApiError> {
    let invalid = || SlackApiError::new("invalid_form_data");
    let boundary = content_type.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let value = value.trim().trim_matches('"');
        name.trim()
            .eq_ignore_ascii_case("boundary")
            .then(|| format!("--{value}"))
    });
    let boundary = boundary.ok_or_else(invalid)?;
    let mut found = Vec::new();
    let mut remaining = after(body, boundary.as_bytes()).ok_or_else(invalid)?;
    let next = format!("\r\n{boundary}");
    while !remaining.starts_with(b"--") && found.len() < MAX_PARTS {
        let rest_of_line = remaining.strip_prefix(b"\r\n").ok_or_else(invalid)?;
        let end = position(rest_of_line, next.as_bytes()).ok_or_else(invalid)?;
        let (part, more) = rest_of_line.split_at_checked(end).ok_or_else(invalid)?;
        remaining = more.get(next.len()..).ok_or_else(invalid)?;
        let split = position(part, b"\r\n\r\n").ok_or_else(invalid)?;
        let (head, content) = part.split_at_checked(split).ok_or_else(invalid)?;
        let head = String::from_utf8_lossy(head).into_owned();
        found.push(FormPart {
            name: disposition_param(&head, "name").ok_or_else(invalid)?,
            filename: disposition_param(&head, "filename"),
            bytes: content.get(4..).unwrap_or_default(),
        });
    }
    Ok(found)
}

/// Returns a parameter of the part's `Content-Disposition`.
fn disposition_param(head: &str, wanted: &str) -> Option<String> {
    let line = head.lines().find(|line| {
        line.split(':')
            .next()
            .unwrap_or_default()
            .trim()
            .eq_ignore_ascii_case("content-disposition")
    })?;
    let mut remaining = line.split_once(';')?.1;
    while let Some((name, value)) = remaining.split_once('=') {
        // A semicolon inside quotation marks is part of a value.
        let (value, more) = match value.trim_start().strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => value.split_once(';').unwrap_or((value, "")),
        };
        if name.trim_matches([';', ' ']) == wanted {
            return Some(value.trim().to_owned());
        }
        remaining = more;
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
    use super::parse_parts;

    #[test]
    fn parts_are_parsed_and_invalid_forms_rejected() {
        let kind = "multipart/form-data; boundary=\"x y\"";
        let body = b"--x y\r\ncontent-disposition: form-data; name=\"a\"\r\n\r\none\r\n\
            --x y\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a;b.csv\"\r\n\
            Content-Type: text/csv\r\n\r\n1\r\n2\r\n--x y--\r\n";
        let found = parse_parts(kind, body).unwrap();
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
            assert!(parse_parts(kind, broken).is_err(), "{broken:?}");
        }
        assert!(parse_parts("multipart/form-data", body).is_err());
    }
}
