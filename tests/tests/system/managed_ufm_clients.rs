//! The table of calls of UFM's clients in docs/tenancy.md: rsm answers each of them as the table
//! says.

use rsm_tests::binaries;
use serde_json::Value;

use crate::managed_ufm::Ufm;

/// A row of the table.
struct Row<'a> {
    method: &'a str,
    path: &'a str,
    /// Null for a call without a body.
    body: Value,
    status: u16,
    /// The parts of the answer that the client reads: paths of fields, or the answer if it is `{}`
    /// or `[]`.
    reads: Vec<&'a str>,
}

/// The parts of a text between backticks.
fn code(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// The rows of the table in a page.
fn rows(page: &str) -> Vec<Row<'_>> {
    let (_, table) = page
        .split_once("| client | call | body | answer |\n|---|---|---|---|\n")
        .expect("the page has the table");
    let lines = table.lines().take_while(|line| line.starts_with('|'));
    let row = |line| {
        let cells: Vec<&str> = str::split(line, '|').map(str::trim).collect();
        let [_, _, call, body, answer, _] = cells[..] else {
            panic!("{line}");
        };
        let (method, _) = call.split_once(' ').expect("a method and a path");
        let status = answer.split(' ').next().expect("a status");
        let status = status.parse().expect("a status");
        Row {
            method,
            path: code(call)[0],
            body: code(body).first().map_or(Value::Null, |body| {
                serde_json::from_str(body).expect("the body is JSON")
            }),
            status,
            // The text after another status says what rsm has instead.
            reads: match status {
                200 | 400 => code(answer),
                _ => Vec::new(),
            },
        }
    };
    lines.map(row).collect()
}

/// The values at a path of fields such as `0x5.guids[].guid`; none if a field or an item is
/// missing.
fn values<'a>(answer: &'a Value, path: &str) -> Vec<&'a Value> {
    let mut values = vec![answer];
    for field in path.split('.') {
        let (name, is_list) = match field.strip_suffix("[]") {
            Some(name) => (name, true),
            None => (field, false),
        };
        let within = |value: &'a Value| match name {
            "" => Some(value),
            name => value.get(name),
        };
        let found: Option<Vec<&Value>> = values.into_iter().map(within).collect();
        values = found.unwrap_or_default();
        if is_list {
            let lists = values.into_iter().filter_map(Value::as_array);
            values = lists.flatten().collect();
        }
    }
    values
}

#[test]
fn calls_of_the_table_of_clients_are_answered_as_it_says() {
    let page = binaries::workspace().join("docs/tenancy.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows = rows(&page);
    assert!(rows.len() > 40, "{}", rows.len());
    let ufm = Ufm::start("");
    for row in rows {
        let call = format!("{} {} {}", row.method, row.path, row.body);
        let (status, answer) = ufm.call(row.method, row.path, &row.body);
        assert_eq!(status, row.status, "{call}: {answer}");
        for read in row.reads {
            if let "{}" | "[]" = read {
                assert_eq!(answer.to_string(), read, "{call}");
                continue;
            }
            let found = values(&answer, read);
            let is_there = !found.is_empty() && found.iter().all(|value| !value.is_null());
            assert!(is_there, "{call} lacks {read}: {answer}");
        }
    }
}

#[test]
fn a_missing_field_of_any_item_is_found() {
    let answer = serde_json::json!({"a": [{"b": 1}, {"c": 2}], "d": []});
    assert_eq!(values(&answer, "a[]").len(), 2);
    assert_eq!(values(&answer, "a[].b"), [&Value::Null; 0]);
    assert_eq!(values(&answer, "d[].b"), [&Value::Null; 0]);
    assert_eq!(values(&answer, "e"), [&Value::Null; 0]);
}
