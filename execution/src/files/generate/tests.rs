//! Generated files can be opened and contain no formulas.

use super::*;
use crate::files::{InputRules, detect_kind, extract_text};

fn request(json: Value) -> FileRequest {
    serde_json::from_value(json).unwrap()
}

fn generate(json: Value) -> Result<GeneratedFile, FileError> {
    generate_file(&request(json), &FileRules::default())
}

fn text(json: Value) -> String {
    String::from_utf8(generate(json).unwrap().bytes).unwrap()
}

#[test]
fn csv_cells_are_quoted_where_required() {
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
fn csv_formulas_are_escaped() {
    let rows = json!([[
        "=1+1", "+49 30", "-5", "@SUM(A1)", "-1e3", "+7.5%", "-", "\t=1", " =2"
    ]]);
    assert_eq!(
        text(json!({"file_name": "t.csv", "rows": rows})),
        "'=1+1,'+49 30,-5,'@SUM(A1),-1e3,+7.5%,'-,'\t=1,' =2\r\n"
    );
    // A table that is given as text is checked as well.
    let content = "name,cmd\r\nx,\"=HYPERLINK(\"\"http://e\"\",1)\"\r\n\"a\nb\",-3\r\n";
    assert_eq!(
        text(json!({"format": "csv", "content": content})),
        "name,cmd\r\nx,\"'=HYPERLINK(\"\"http://e\"\",1)\"\r\n\"a\nb\",-3\r\n"
    );
    let plain = "a;b\n\n1,-2\n";
    assert_eq!(text(json!({"format": "csv", "content": plain})), plain);
}

#[test]
fn json_content_must_be_valid() {
    assert_eq!(
        text(json!({"format": "json", "content": "{\"a\": 1}"})),
        "{\"a\": 1}"
    );
    let value: Value =
        serde_json::from_str(&text(json!({"format": "json", "content": {"a": [1]}}))).unwrap();
    assert_eq!(value, json!({"a": [1]}));
    let error = generate(json!({"format": "json", "content": "{a: 1}"})).unwrap_err();
    assert_eq!(error.code, ErrorReason::ToolFailure);
}

#[test]
fn workbook_is_read_back_as_written() {
    let file = generate(json!({"file_name": "w", "format": "xlsx", "sheets": [
        {"name": "A/B", "rows": [["name", "sum"], ["=1+1", -5], ["long", 12345678901234567890_u64], [null, true]]},
        {"name": "a/b", "rows": [["りんご", 1.5]]},
        {"rows": [["third"]]},
    ]}))
    .unwrap();
    assert_eq!(file.name, "w.xlsx");
    let rules = InputRules::default();
    let kind = detect_kind(&file.bytes, file.media_type, &file.name, &rules).unwrap();
    assert_eq!(kind, FileKind::Xlsx);
    assert_eq!(
        extract_text(kind, &file.bytes, &rules).unwrap(),
        "[Sheet AB]\nname\tsum\n=1+1\t-5\nlong\t12345678901234567890\n\tTRUE\n\
         [Sheet Sheet2]\nりんご\t1.5\n[Sheet Sheet3]\nthird\n"
    );
}

#[test]
fn workbook_can_be_generated_from_csv() {
    let file = generate(json!({"format": "xlsx", "content": "id,n\n007,7\n"})).unwrap();
    assert!(file.name.starts_with("generated_file_"), "{}", file.name);
    let text = extract_text(FileKind::Xlsx, &file.bytes, &InputRules::default()).unwrap();
    assert_eq!(text, "[Sheet Sheet1]\nid\tn\n007\t7\n");
}

#[test]
fn workbook_beyond_the_limits_of_excel_is_rejected() {
    let error_text = |sheets: Value| {
        let error = generate(json!({"format": "xlsx", "sheets": sheets})).unwrap_err();
        assert_eq!(error.code, ErrorReason::ToolFailure);
        error.text
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
        error_text(wide(16_384, json!(1))),
        "the workbook cannot be made"
    );
    assert_eq!(
        error_text(wide(70_000, json!("a"))),
        "the workbook cannot be made"
    );
    assert_eq!(
        error_text(long(1_048_576, json!(true))),
        "the workbook cannot be made"
    );
    let many: Vec<Value> = vec![json!({"rows": [[1]]}); 101];
    let text = error_text(Value::Array(many));
    assert_eq!(text, "the workbook has too many sheets or cells");
    // Empty cells are not stored, so they may be anywhere.
    for sheets in [
        wide(16_383, json!("last")),
        wide(70_000, Value::Null),
        long(1_048_575, json!("last")),
        long(1_048_576, json!("")),
    ] {
        generate(json!({"format": "xlsx", "sheets": sheets})).unwrap();
    }
}

#[test]
fn workbook_truncates_text_to_the_limits_of_excel() {
    let (long, name) = ("👍".repeat(20_000), "👍".repeat(20));
    let rows = json!([["a".repeat(40_000)], [long], [[1, {"a": "b"}]]]);
    let sheets = json!([{"name": name, "rows": rows}, {"name": "a\u{ffff}b", "rows": []}]);
    let file = generate(json!({"format": "xlsx", "sheets": sheets})).unwrap();
    let text = extract_text(FileKind::Xlsx, &file.bytes, &InputRules::default()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], format!("[Sheet {}]", "👍".repeat(15)));
    assert_eq!(lines[1], "a".repeat(32_767));
    assert_eq!(lines[2], "👍".repeat(16_383));
    assert_eq!(lines[3], r#"[1,{"a":"b"}]"#);
}

#[test]
fn workbook_with_repeated_text_is_not_a_bomb() {
    let row = vec![json!("the same words again and again ".repeat(100)); 100];
    let rows = vec![json!(row); 100];
    let file = generate(json!({"file_name": "w.xlsx", "rows": rows})).unwrap();
    let rules = InputRules::default();
    assert!(detect_kind(&file.bytes, file.media_type, &file.name, &rules).is_ok());
    assert!(extract_text(FileKind::Xlsx, &file.bytes, &rules).is_ok());
}

#[test]
fn forbidden_or_invalid_files_are_not_generated() {
    let rules = FileRules {
        max_bytes: 10,
        allow: vec!["text/plain".to_owned()],
        per_reply: 1,
    };
    let error_for = |json| generate_file(&request(json), &rules).unwrap_err();
    let error = error_for(json!({"format": "csv", "rows": [["a"]]}));
    assert_eq!(error.code, ErrorReason::UnsupportedFileType);
    let error = error_for(json!({"file_name": "a.txt", "content": "01234567890"}));
    assert_eq!(error.code, ErrorReason::FileTooLarge);
    assert_eq!(
        error.text,
        "The file \"a.txt\" was left out: it is larger than 10 bytes."
    );
    for bad in [
        json!({"format": "exe", "content": "x"}),
        json!({"format": "pdf", "content": "x"}),
        json!({"file_name": "noformat"}),
        json!({"file_name": "a.txt"}),
        json!({"file_name": "a.txt", "content": 5}),
    ] {
        assert_eq!(error_for(bad).code, ErrorReason::ToolFailure);
    }
    let schema = FileRequest::schema(&rules);
    assert_eq!(
        schema.pointer("/properties/format/enum"),
        Some(&json!(["txt"]))
    );
}
