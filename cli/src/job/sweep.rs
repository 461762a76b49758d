//! What `gular job new` does for a sweep: its parameters, and the commands that follow the jobs.

use gular_jobs::write::{Parameters, Select};

use crate::exit::Failure;

/// Splits a command as a shell does.
pub(super) fn words(command: &str) -> Result<Vec<String>, Failure> {
    shlex::split(command).ok_or_else(|| {
        let message = format!("`{command}` has a quote that is not closed, or ends with `\\`");
        Failure::new(message, Some("quote the command as for a shell".to_owned()))
    })
}

/// Returns all combinations of `name=a,b` and `name=1..8`.
pub(super) fn parameters(sweep: &[String]) -> Result<Option<Parameters>, Failure> {
    let wrong = |text: &str| {
        let hint = "write `--sweep lr=1e-3,3e-4` or `--sweep seed=1..8`";
        Failure::new(format!("`{text}` is not of the form NAME=VALUES"), Some(hint.to_owned()))
    };
    let mut names = Vec::new();
    let mut rows: Vec<Vec<String>> = vec![Vec::new()];
    for text in sweep {
        let (name, values) = text
            .split_once('=')
            .filter(|(_, values)| !values.is_empty())
            .ok_or_else(|| wrong(text))?;
        let range = values
            .split_once("..")
            .and_then(|(from, to)| Some((from.parse::<i64>().ok()?, to.parse::<i64>().ok()?)));
        let values: Vec<String> = match range {
            Some((from, to)) if from <= to && to - from < 100_000 => {
                (from..=to).map(|n| n.to_string()).collect()
            }
            Some(_) => return Err(wrong(text)),
            None if values.contains("..") => return Err(wrong(text)),
            None => values.split(',').map(|value| value.trim().to_owned()).collect(),
        };
        if rows.len().saturating_mul(values.len()) > 100_000 {
            return Err(Failure::new(
                "the sweep makes more than 100000 jobs",
                Some("sweep fewer values".to_owned()),
            ));
        }
        let name = name.trim().to_owned();
        if names.contains(&name) {
            let message = format!("the parameter `{name}` is swept twice");
            let hint =
                format!("write all values of the parameter at once, as in `--sweep {name}=1,2,3`");
            return Err(Failure::new(message, Some(hint)));
        }
        names.push(name);
        let with = |row: &Vec<String>, value: &String| {
            [row.as_slice(), std::slice::from_ref(value)].concat()
        };
        rows =
            rows.iter().flat_map(|row| values.iter().map(move |value| with(row, value))).collect();
    }
    Ok((!names.is_empty()).then_some(Parameters { names, rows }))
}

/// Parses `accuracy`, `max:accuracy` or `min:loss`.
pub(super) fn select(text: &str) -> Select {
    let (lowest, metric) = match text.split_once(':') {
        Some(("min", metric)) => (true, metric),
        Some(("max", metric)) => (false, metric),
        _ => (false, text),
    };
    Select { metric: metric.to_owned(), lowest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_split_as_a_shell_does() {
        assert_eq!(
            words("python3 'my eval.py' --title \"a b\"").unwrap(),
            ["python3", "my eval.py", "--title", "a b"]
        );
        assert!(words("python3 'eval.py").is_err());
    }

    #[test]
    fn a_sweep_has_every_combination() {
        let sweep = |texts: &[&str]| {
            parameters(&texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>())
        };
        let found = sweep(&["lr=1e-3,3e-4", "seed=1..2"]).unwrap().unwrap();
        assert_eq!(found.names, ["lr", "seed"]);
        let rows: Vec<String> = found.rows.iter().map(|row| row.join(" ")).collect();
        assert_eq!(rows, ["1e-3 1", "1e-3 2", "3e-4 1", "3e-4 2"]);
        assert!(sweep(&[]).unwrap().is_none());
        for bad in ["lr", "lr=", "seed=5..1", "seed=1..9999999", "lr=1..0.1"] {
            assert!(sweep(&[bad]).is_err(), "{bad}");
        }
        assert!(sweep(&["lr=1", "lr=2"]).is_err());
    }
}
