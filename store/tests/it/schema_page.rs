//! `docs/stores.md` lists every column of both engines.

use std::collections::BTreeMap;

const SQLITE: &str = include_str!("../../src/sqlite/schema.sql");
const POSTGRES: &str = include_str!("../../src/postgres/schema.sql");

/// Columns by table, in the order of the schema.
fn columns(schema: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut tables: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut table = None;
    for line in schema.lines() {
        if let Some(name) = line.strip_prefix("CREATE TABLE ") {
            table = name.strip_suffix(" (");
        } else if line.starts_with(')') {
            table = None;
        } else if let Some(table) = table {
            let first = line.split_whitespace().next().unwrap_or_default();
            let is_column = first
                .chars()
                .all(|letter| letter.is_ascii_lowercase() || letter == '_');
            if is_column && !first.is_empty() {
                tables.entry(table).or_default().push(first);
            }
        }
    }
    tables
}

fn listed<'a>(columns: impl Iterator<Item = &'a &'a str>, empty: &str) -> String {
    let quoted: Vec<String> = columns.map(|column| format!("`{column}`")).collect();
    match quoted.is_empty() {
        true => empty.to_owned(),
        false => quoted.join(", "),
    }
}

#[test]
fn stores_page_lists_all_columns_of_both_engines() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/stores.md");
    let page = std::fs::read_to_string(folder).unwrap();
    let (sqlite, postgres) = (columns(SQLITE), columns(POSTGRES));
    assert!(sqlite.len() > 20 && postgres.len() > 20);
    let empty = Vec::new();
    for table in sqlite.keys().chain(postgres.keys()) {
        let in_sqlite = sqlite.get(table).unwrap_or(&empty);
        let in_postgres = postgres.get(table).unwrap_or(&empty);
        let if_none = |columns: &Vec<&str>| match columns.is_empty() {
            true => "no such table",
            false => "–",
        };
        let both = in_postgres.iter().filter(|name| in_sqlite.contains(name));
        let one = in_sqlite.iter().filter(|name| !in_postgres.contains(name));
        let other = in_postgres.iter().filter(|name| !in_sqlite.contains(name));
        let row = format!(
            "| `{table}` | {} | {} | {} |",
            listed(both, "–"),
            listed(one, if_none(in_sqlite)),
            listed(other, if_none(in_postgres))
        );
        assert!(page.contains(&row), "docs/stores.md lacks this row:\n{row}");
    }
}
