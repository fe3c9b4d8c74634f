//! Workbooks that agents generate, read by openpyxl: it must see what was requested.

use crate::journeys::peers::run_python;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use interzone_execution::files::{FileRules, generate_file};
use serde_json::{Value, json};
use std::path::Path;

/// Sheets as openpyxl reads them from the generated workbook.
async fn read_back(sheets: Value) -> Vec<Value> {
    let request = json!({"file_name": "w.xlsx", "sheets": sheets});
    let generated = generate_file(
        &serde_json::from_value(request).unwrap(),
        &FileRules::default(),
    );
    let bytes = STANDARD.encode(generated.unwrap().bytes);
    let output = run_python("workbook.py", &[], Path::new("/dev/null"), &bytes).await;
    serde_json::from_str(&output).unwrap()
}

/// Parses a number that Python wrote as an exact hexadecimal float.
fn parse_hex_float(cell: &Value) -> f64 {
    assert_eq!(cell[0], "n", "{cell}");
    let hex = cell[1].as_str().unwrap();
    let (sign, hex) = match hex.strip_prefix('-') {
        Some(hex) => (-1.0, hex),
        None => (1.0, hex),
    };
    let (digits, exponent) = hex.strip_prefix("0x").unwrap().split_once('p').unwrap();
    let (integer, fraction) = digits.split_once('.').unwrap();
    let number = u64::from_str_radix(&format!("{integer}{fraction}"), 16).unwrap();
    let places = 4 * i32::try_from(fraction.len()).unwrap();
    let exponent: i32 = exponent.parse().unwrap();
    // In two steps, so that subnormal numbers do not underflow on the way.
    #[expect(clippy::cast_precision_loss, reason = "it has 53 bits")]
    let number = number as f64 * 2_f64.powi(-places);
    sign * number * 2_f64.powi(exponent / 2) * 2_f64.powi(exponent - exponent / 2)
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_are_read_back_unchanged() {
    let texts = [
        "plain",
        "a & b < c > \"d\" 'e' &amp; <![CDATA[x]]>",
        "日本語のテキスト、全角　空白",
        "👩‍👩‍👧 é 𠮷",
        "  leading",
        "trailing  ",
        "\ttabs\t",
        "two\nlines\n",
        "=1+1",
        "=HYPERLINK(\"http://e\",1)",
        "+1",
        "@SUM(A1)",
        "'quoted",
        "007",
        "TRUE",
        "1e5",
        "2024-01-01",
        "#N/A",
        "_x0041_",
        "_x_ _x41_",
        "\u{7f}\u{85}\u{fffd}",
    ];
    let rows: Vec<Value> = texts.iter().map(|text| json!([text])).collect();
    let sheets = read_back(json!([{"name": "Texts", "rows": rows}])).await;
    let rows = sheets[0]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), texts.len());
    for (row, text) in rows.iter().zip(texts) {
        assert_eq!(*row, json!([["s", text]]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn characters_invalid_in_xml_are_escaped() {
    // openpyxl shows the escapes of Excel as they are stored.
    let rows = json!([
        ["a\u{0}b\u{1}c\u{1f}"],
        ["one\r\ntwo"],
        ["\u{fffe}\u{ffff}"]
    ]);
    let sheets = read_back(json!([{"rows": rows}])).await;
    let expected = json!([
        [["s", "a_x0000_b_x0001_c_x001F_"]],
        [["s", "one_x000D_\ntwo"]],
        [["s", "_xFFFE__xFFFF_"]],
    ]);
    assert_eq!(sheets[0]["rows"], expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_are_read_back_bit_for_bit() {
    let numbers = [
        0.0,
        1.0,
        -1.0,
        0.1,
        -1.0 / 3.0,
        123_456_789.123_456_79,
        9_007_199_254_740_992.0,
        -9_007_199_254_740_991.0,
        1e21,
        1.5e-7,
        1e-9,
        -1e300,
        f64::MAX,
        f64::MIN_POSITIVE,
    ];
    let sheets = read_back(json!([{"rows": [numbers]}])).await;
    let row = sheets[0]["rows"][0].as_array().unwrap();
    assert_eq!(row.len(), numbers.len());
    for (cell, number) in row.iter().zip(numbers) {
        assert_eq!(
            parse_hex_float(cell).to_bits(),
            number.to_bits(),
            "{number}"
        );
    }
    // Integers beyond 53 bits would change, so they are written as text.
    let long = 9_007_199_254_740_993_u64;
    let sheets = read_back(json!([{"rows": [[long, -7]]}])).await;
    let row = &sheets[0]["rows"][0];
    assert_eq!(row[0], json!(["s", "9007199254740993"]));
    assert_eq!(parse_hex_float(&row[1]).to_bits(), (-7_f64).to_bits());
}

#[tokio::test(flavor = "multi_thread")]
async fn cells_are_at_their_positions() {
    let mut wide = vec![Value::Null; 16_384];
    wide[0] = json!(true);
    wide[26] = json!("AA");
    wide[16_383] = json!("XFD");
    let rows = json!([[], [null, "", false, "d"], [], [null], ["e"]]);
    let sheets = read_back(json!([{"rows": rows}, {"rows": [wide]}, {"rows": []}])).await;
    let none = json!(["n", null]);
    assert_eq!(
        sheets[0]["rows"],
        json!([
            [none, none, none, none],
            [none, none, ["b", false], ["s", "d"]],
            [none, none, none, none],
            [none, none, none, none],
            [["s", "e"], none, none, none],
        ])
    );
    let wide = sheets[1]["rows"][0].as_array().unwrap();
    assert_eq!(wide.len(), 16_384);
    assert_eq!(wide[0], json!(["b", true]));
    assert_eq!(wide[25], none);
    assert_eq!(wide[26], json!(["s", "AA"]));
    assert_eq!(wide[16_383], json!(["s", "XFD"]));
    assert_eq!(sheets.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn hundred_sheets_keep_their_names() {
    let name = |number: usize| match number {
        0 => "it's \"R&D\" <1>".to_owned(),
        1 => "売上 🎉".to_owned(),
        number => format!("No. {number}"),
    };
    let sheets: Vec<Value> = (0..100)
        .map(|number| json!({"name": name(number), "rows": [["same", number]]}))
        .collect();
    let sheets = read_back(json!(sheets)).await;
    assert_eq!(sheets.len(), 100);
    for (number, sheet) in (0_u32..).zip(&sheets) {
        assert_eq!(sheet["name"], name(usize::try_from(number).unwrap()));
        let row = &sheet["rows"][0];
        assert_eq!(row[0], json!(["s", "same"]));
        assert_eq!(
            parse_hex_float(&row[1]).to_bits(),
            f64::from(number).to_bits()
        );
    }
}
