//! Slurm's compressed lists of nodes: `jwb[0021-0023,0045]`.

/// Most nodes of a list; no cluster has as many.
const MAX_NODES: usize = 100_000;

/// The nodes of a list, as `scontrol show hostnames` unfolds it; `None` for what Slurm refuses.
#[must_use]
pub fn unfold(list: &str) -> Option<Vec<String>> {
    let mut nodes = Vec::new();
    for item in split(list)? {
        let mut names = vec![String::new()];
        let mut rest = item;
        let mut after_bracket = false;
        while !rest.is_empty() {
            match rest.strip_prefix('[') {
                Some(inside) => {
                    let (ranges, tail) = inside.split_once(']')?;
                    let numbers = numbers(ranges)?;
                    if names.len().saturating_mul(numbers.len()) > MAX_NODES {
                        return None;
                    }
                    names = names
                        .iter()
                        .flat_map(|name| numbers.iter().map(move |n| format!("{name}{n}")))
                        .collect();
                    rest = tail;
                    after_bracket = true;
                }
                None => {
                    let end = rest.find('[').unwrap_or(rest.len());
                    let (text, tail) = rest.split_at(end);
                    let wrong = text.contains(|c: char| {
                        !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
                    });
                    // Slurm wants nothing but letters and further brackets behind a bracket.
                    if wrong || (after_bracket && tail.is_empty()) {
                        return None;
                    }
                    names.iter_mut().for_each(|name| name.push_str(text));
                    rest = tail;
                }
            }
        }
        if item.is_empty() || nodes.len() + names.len() > MAX_NODES {
            return None;
        }
        nodes.append(&mut names);
    }
    Some(nodes)
}

/// Splits a list at commas that are not in brackets.
fn split(list: &str) -> Option<Vec<&str>> {
    let mut items = Vec::new();
    let (mut start, mut inside) = (0, false);
    for (at, c) in list.char_indices() {
        match c {
            '[' if inside => return None,
            '[' => inside = true,
            ']' if !inside => return None,
            ']' => inside = false,
            ',' if !inside => {
                items.push(list.get(start..at)?);
                start = at + 1;
            }
            _ => {}
        }
    }
    items.push(list.get(start..)?);
    (!inside).then_some(items)
}

/// `0021-0023,0045`, with the zeros that each begins with.
fn numbers(ranges: &str) -> Option<Vec<String>> {
    let mut numbers = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let digits = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
        if !digits(first) || !digits(last) {
            return None;
        }
        let width = first.len();
        let (from, to): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        if to < from || to - from >= MAX_NODES as u64 {
            return None;
        }
        numbers.extend((from..=to).map(|n| format!("{n:0width$}")));
    }
    Some(numbers)
}

/// The node at which the ranks of a job meet: its first one. `suffix` names the network, such as
/// JSC's `i` for InfiniBand.
#[must_use]
pub fn master_addr(list: &str, suffix: &str) -> Option<String> {
    Some(format!("{}{suffix}", unfold(list)?.first()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected names are those of `scontrol show hostnames` in Slurm 22.05.8.
    #[test]
    fn lists_are_unfolded_as_slurm_does() {
        for (list, expected) in [
            ("n[1-3]", "n1 n2 n3"),
            ("jwb[0021-0023,0045]", "jwb0021 jwb0022 jwb0023 jwb0045"),
            ("a,b[08-11]", "a b08 b09 b10 b11"),
            ("r[1-2]n[01-02]", "r1n01 r1n02 r2n01 r2n02"),
            ("jrc0850", "jrc0850"),
            ("n[9-11]", "n9 n10 n11"),
            ("p[001-003]q[7,9]", "p001q7 p001q9 p002q7 p002q9 p003q7 p003q9"),
            ("n[1,3,5-6]", "n1 n3 n5 n6"),
            ("gpu-a100-[1-2]", "gpu-a100-1 gpu-a100-2"),
            ("n[098-101]", "n098 n099 n100 n101"),
            ("a1,a2,b[3]", "a1 a2 b3"),
        ] {
            assert_eq!(
                unfold(list).map(|nodes| nodes.join(" ")).as_deref(),
                Some(expected),
                "{list}"
            );
        }
        for refused in [
            "x[1-2]-ib,y5",
            "n[1",
            "n]1",
            "n[a]",
            "n[3-1]",
            "n[]",
            "",
            "a,,b",
            "n[0-99999999999]",
            "n[[1]]",
        ] {
            assert_eq!(unfold(refused), None, "{refused}");
        }
        assert_eq!(master_addr("jwb[0021-0023]", "i").as_deref(), Some("jwb0021i"));
    }
}
