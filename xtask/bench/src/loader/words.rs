//! Prints the record as a table for people.

use std::fmt::Write as _;

use serde_json::Value;

use super::rows::Row;

/// Prints the rows that were measured in this run.
pub(crate) fn table(record: &Value, rows: &[Row]) -> String {
    let mut out = String::new();
    for row in rows {
        write(&mut out, row.name, &record["rows"][row.name]);
    }
    out
}

fn write(out: &mut String, name: &str, row: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let _ = writeln!(out, "\n{name}: {}", text(&row["title"]));
    let _ = writeln!(
        out,
        "  {:<36}{:>12}  {:<22}{:>14}",
        "",
        text(&row["unit"]),
        "slowest to fastest",
        "CPU µs/sample"
    );
    for contestant in list(&row["contestants"]) {
        let range = format!("{} to {}", shown(&contestant["min"]), shown(&contestant["max"]));
        let _ = writeln!(
            out,
            "  {:<36}{:>12}  {range:<22}{:>14}",
            text(&contestant["name"]),
            shown(&contestant["median"]),
            shown(&contestant["cpu_us_per_sample"]["median"]),
        );
    }
    for target in list(&row["targets"]) {
        let _ = writeln!(out, "  {}", reached(&target, &text(&row["unit"])));
    }
    for absent in list(&row["not_measured"]) {
        let reason = text(&absent["reason"]);
        let first = reason.lines().next().unwrap_or_default().to_owned();
        let _ = writeln!(out, "  not measured: {}: {first}", text(&absent["name"]));
    }
}

fn reached(target: &Value, unit: &str) -> String {
    let ours = target["ours"].as_str().unwrap_or("?");
    let wanted = match (target["at_least"].as_f64(), target["at_most"].as_f64()) {
        (Some(least), _) => format!("at least {least}"),
        (_, Some(most)) => format!("at most {most}"),
        _ => String::new(),
    };
    let verdict = match target["met"].as_bool() {
        Some(true) => "reached",
        Some(false) => "NOT reached",
        None => return format!("{ours}: {wanted} wanted, nothing to compare with"),
    };
    let found = &target["found"];
    let range = format!("{} to {}", shown(&found["min"]), shown(&found["max"]));
    let median = shown(&found["median"]);
    match target["against"].as_str() {
        Some(against) => {
            let by_cpu = match target["found_by_cpu"]["median"].as_f64() {
                Some(found) => format!(", per CPU second {}", number(found)),
                None => String::new(),
            };
            format!(
                "{verdict}: {ours} over {against} is {median} ({range}){by_cpu}; {wanted} wanted"
            )
        }
        None => format!("{verdict}: {ours} is {median} {unit} ({range}); {wanted} wanted"),
    }
}

fn shown(value: &Value) -> String {
    value.as_f64().map_or_else(|| "-".to_owned(), number)
}

/// Three digits that count, and no point behind large numbers.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_target_is_said_in_words() {
        let check = |target: Value, expected: &str| {
            assert_eq!(reached(&target, "MiB"), expected);
        };
        check(
            json!({
                "ours": "gular", "against": "best peer: files", "at_least": 1.3, "met": true,
                "found": {"median": 1.4, "min": 1.25, "max": 1.5}, "found_by_cpu": {"median": 1.6},
            }),
            "reached: gular over best peer: files is 1.40 (1.25 to 1.50), per CPU second 1.60; \
             at least 1.3 wanted",
        );
        check(
            json!({
                "ours": "pread", "against": null, "at_most": 64.0, "met": false,
                "found": {"median": 70.0, "min": 69.0, "max": 71.0},
            }),
            "NOT reached: pread is 70.0 MiB (69.0 to 71.0); at most 64 wanted",
        );
        check(
            json!({ "ours": "gular", "against": "best peer", "at_least": 1.2, "met": null }),
            "gular: at least 1.2 wanted, nothing to compare with",
        );
    }

    #[test]
    fn numbers_have_three_digits() {
        for (value, expected) in [(1234.5, "1234"), (12.34, "12.3"), (0.987, "0.99")] {
            assert_eq!(number(value), expected);
        }
        assert_eq!(number(0.001_23), "0.0012");
    }
}
