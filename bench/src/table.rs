//! Markdown tables.

use std::fmt;

/// Rows under a header. The first two columns are left-aligned text; the others are right-aligned numbers.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

/// Number of text columns.
const TEXT_COLUMNS: usize = 2;

impl Table {
    /// An empty table.
    pub fn new<const N: usize>(header: [&str; N]) -> Self {
        Self {
            rows: vec![header.map(str::to_owned).to_vec()],
        }
    }

    /// Adds a row.
    pub fn push<const N: usize>(&mut self, row: [String; N]) {
        self.rows.push(row.to_vec());
    }

    fn width(&self, column: usize) -> usize {
        self.rows
            .iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, row) in self.rows.iter().enumerate() {
            f.write_str("|")?;
            for (column, cell) in row.iter().enumerate() {
                let width = self.width(column);
                if column < TEXT_COLUMNS {
                    write!(f, " {cell:<width$} |")?;
                } else {
                    write!(f, " {cell:>width$} |")?;
                }
            }
            f.write_str("\n")?;
            if index == 0 {
                f.write_str("|")?;
                for column in 0..row.len() {
                    let dashes = "-".repeat(self.width(column) + 1);
                    let (left, right) = if column < TEXT_COLUMNS {
                        ("-", "")
                    } else {
                        ("", ":")
                    };
                    write!(f, "{left}{dashes}{right}|")?;
                }
                f.write_str("\n")?;
            }
        }
        Ok(())
    }
}

/// A number with thousands separators: `1,234,567`.
pub fn format_thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_thousands_separators() {
        for (number, expected) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(format_thousands(number), expected);
        }
    }

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(["case", "name", "count"]);
        table.push(["a".into(), "peer".into(), "7".into()]);
        assert_eq!(
            table.to_string(),
            "| case | name | count |\n|------|------|------:|\n| a    | peer |     7 |\n"
        );
    }
}
