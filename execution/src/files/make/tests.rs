//! What comes out opens elsewhere, and runs nothing there.

use super::*;
use crate::files::{InputRules, examine, extract_text};

fn asked(json: Value) -> MakeFile {
    serde_json::from_value(json).unwrap()
}

fn made(json: Value) -> Result<Made, Fault> {
    make(&asked(json), &FileRules::default())
}

fn text(json: Value) -> String {
    String::from_utf8(made(json).unwrap().bytes).unwrap()
}

#[test]
fn cells_are_quoted_where_they_must_be() {
    let rows = json!([
        ["a", "b,c", "say \"hi\"", "two\nlines", ""],
        [1, 2.5, true, null, " x"],
        [""]
    ]);
    assert_eq!(
        text(json!({"file_name": "t.csv", "rows": rows})),
        "a,\"b,c\",\"say \"\"hi\"\"\",\"two\nlines\",\r\n1,2.5,TRUE,,\" x\"\r\n\"\"\r\n"
    );
}

#[test]
fn no_cell_of_a_table_is_a_formula() {
    let rows = json!([[
        "=1+1", "+49 30", "-5", "@SUM(A1)", "-1e3", "+7.5%", "-", "\t=1", " =2"
    ]]);
    assert_eq!(
        text(json!({"file_name": "t.csv", "rows": rows})),
        "'=1+1,'+49 30,-5,'@SUM(A1),-1e3,+7.5%,'-,'\t=1,' =2\r\n"
    );
    // A table that comes as text is looked into as well.
    let content = "name,cmd\r\nx,\"=HYPERLINK(\"\"http://e\"\",1)\"\r\n\"a\nb\",-3\r\n";
    assert_eq!(
        text(json!({"format": "csv", "content": content})),
        "name,cmd\r\nx,\"'=HYPERLINK(\"\"http://e\"\",1)\"\r\n\"a\nb\",-3\r\n"
    );
    let plain = "a;b\n\n1,-2\n";
    assert_eq!(text(json!({"format": "csv", "content": plain})), plain);
}

#[test]
fn json_must_be_json() {
    assert_eq!(
        text(json!({"format": "json", "content": "{\"a\": 1}"})),
        "{\"a\": 1}"
    );
    let value: Value =
        serde_json::from_str(&text(json!({"format": "json", "content": {"a": [1]}}))).unwrap();
    assert_eq!(value, json!({"a": [1]}));
    let fault = made(json!({"format": "json", "content": "{a: 1}"})).unwrap_err();
    assert_eq!(fault.word, ErrorWord::ToolFailure);
}

#[test]
fn a_workbook_is_read_back_as_it_was_written() {
    let made = made(json!({"file_name": "w", "format": "xlsx", "sheets": [
        {"name": "A/B", "rows": [["name", "sum"], ["=1+1", -5], ["long", 12345678901234567890_u64], [null, true]]},
        {"name": "a/b", "rows": [["りんご", 1.5]]},
        {"rows": [["third"]]},
    ]}))
    .unwrap();
    assert_eq!(made.name, "w.xlsx");
    let rules = InputRules::default();
    let kind = examine(&made.bytes, made.media_type, &made.name, &rules).unwrap();
    assert_eq!(kind, Kind::Xlsx);
    assert_eq!(
        extract_text(kind, &made.bytes, &rules).unwrap(),
        "[Sheet AB]\nname\tsum\n=1+1\t-5\nlong\t12345678901234567890\n\tTRUE\n\
         [Sheet Sheet2]\nりんご\t1.5\n[Sheet Sheet3]\nthird\n"
    );
}

#[test]
fn a_workbook_may_come_as_a_table() {
    let made = made(json!({"format": "xlsx", "content": "id,n\n007,7\n"})).unwrap();
    assert!(made.name.starts_with("generated_file_"), "{}", made.name);
    let text = extract_text(Kind::Xlsx, &made.bytes, &InputRules::default()).unwrap();
    assert_eq!(text, "[Sheet Sheet1]\nid\tn\n007\t7\n");
}

#[test]
fn a_workbook_beyond_the_limits_of_excel_is_not_made() {
    let refused = |sheets: Value| {
        let fault = made(json!({"format": "xlsx", "sheets": sheets})).unwrap_err();
        assert_eq!(fault.word, ErrorWord::ToolFailure);
        fault.text
    };
    let wide = |columns: usize, last: Value| {
        let mut row = vec![Value::Null; columns];
        row.push(last);
        json!([{"rows": [row]}])
    };
    let long = |rows: usize, last: Value| {
        let mut all = vec![json!([]); rows];
        all.push(json!([last]));
        json!([{"rows": all}])
    };
    assert_eq!(
        refused(wide(16_384, json!(1))),
        "the workbook cannot be made"
    );
    assert_eq!(
        refused(wide(70_000, json!("a"))),
        "the workbook cannot be made"
    );
    assert_eq!(
        refused(long(1_048_576, json!(true))),
        "the workbook cannot be made"
    );
    let many: Vec<Value> = vec![json!({"rows": [[1]]}); 101];
    let text = refused(Value::Array(many));
    assert_eq!(text, "the workbook has too many sheets or cells");
    // What is empty is nowhere, so it may be anywhere.
    for sheets in [
        wide(16_383, json!("last")),
        wide(70_000, Value::Null),
        long(1_048_575, json!("last")),
        long(1_048_576, json!("")),
    ] {
        made(json!({"format": "xlsx", "sheets": sheets})).unwrap();
    }
}

#[test]
fn a_workbook_cuts_what_excel_does_not_hold() {
    let (long, name) = ("👍".repeat(20_000), "👍".repeat(20));
    let rows = json!([["a".repeat(40_000)], [long], [[1, {"a": "b"}]]]);
    let sheets = json!([{"name": name, "rows": rows}, {"name": "a\u{ffff}b", "rows": []}]);
    let made = made(json!({"format": "xlsx", "sheets": sheets})).unwrap();
    let text = extract_text(Kind::Xlsx, &made.bytes, &InputRules::default()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], format!("[Sheet {}]", "👍".repeat(15)));
    assert_eq!(lines[1], "a".repeat(32_767));
    assert_eq!(lines[2], "👍".repeat(16_383));
    assert_eq!(lines[3], r#"[1,{"a":"b"}]"#);
}

#[test]
fn a_workbook_of_one_text_is_no_bomb() {
    let row = vec![json!("the same words again and again ".repeat(100)); 100];
    let rows = vec![json!(row); 100];
    let made = made(json!({"file_name": "w.xlsx", "rows": rows})).unwrap();
    let rules = InputRules::default();
    assert!(examine(&made.bytes, made.media_type, &made.name, &rules).is_ok());
    assert!(extract_text(Kind::Xlsx, &made.bytes, &rules).is_ok());
}

#[test]
fn what_may_not_leave_is_not_made() {
    let rules = FileRules {
        max_bytes: 10,
        allow: vec!["text/plain".to_owned()],
        per_reply: 1,
    };
    let refused = |json| make(&asked(json), &rules).unwrap_err();
    let fault = refused(json!({"format": "csv", "rows": [["a"]]}));
    assert_eq!(fault.word, ErrorWord::UnsupportedFileType);
    let fault = refused(json!({"file_name": "a.txt", "content": "01234567890"}));
    assert_eq!(fault.word, ErrorWord::FileTooLarge);
    assert_eq!(
        fault.text,
        "The file \"a.txt\" was left out: it is larger than 10 bytes."
    );
    for bad in [
        json!({"format": "exe", "content": "x"}),
        json!({"format": "pdf", "content": "x"}),
        json!({"file_name": "noformat"}),
        json!({"file_name": "a.txt"}),
        json!({"file_name": "a.txt", "content": 5}),
    ] {
        assert_eq!(refused(bad).word, ErrorWord::ToolFailure);
    }
    let schema = MakeFile::schema(&rules);
    assert_eq!(
        schema.pointer("/properties/format/enum"),
        Some(&json!(["txt"]))
    );
}
