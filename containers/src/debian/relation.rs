//! Relationships: `libc6 (>= 2.36), gawk | mawk` (Policy 7.1).

use super::Version;

/// One alternative of a dependency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relation {
    /// The package's name, or that of something it provides.
    pub name: String,
    /// The versions that satisfy the dependency.
    pub constraint: Option<Constraint>,
}

/// An operator and a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constraint {
    operator: Operator,
    /// The version to compare with.
    pub version: Version,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Earlier,
    UpTo,
    Exactly,
    From,
    Later,
}

impl Constraint {
    /// Returns whether `version` satisfies the constraint.
    pub fn holds(&self, version: &Version) -> bool {
        let order = version.cmp(&self.version);
        match self.operator {
            Operator::Earlier => order.is_lt(),
            Operator::UpTo => order.is_le(),
            Operator::Exactly => order.is_eq(),
            Operator::From => order.is_ge(),
            Operator::Later => order.is_gt(),
        }
    }
}

/// A field's relations: all must hold, of each one of its alternatives. `None`
/// for a text that is none.
pub fn relations(field: &str) -> Option<Vec<Vec<Relation>>> {
    let all = field.split(',').map(str::trim).filter(|relation| !relation.is_empty());
    all.map(|any| any.split('|').map(|one| relation(one.trim())).collect()).collect()
}

fn relation(text: &str) -> Option<Relation> {
    // Architectures and build profiles stand behind; binary packages have none.
    let text = text.split(['[', '<']).next().filter(|_| !text.contains('(')).unwrap_or(text);
    let (name, constraint) = match text.split_once('(') {
        None => (text, None),
        Some((name, rest)) => (name, Some(constraint(rest.split_once(')')?.0)?)),
    };
    // `python3:any`: of any architecture, so of this one.
    let name = name.trim().split(':').next()?;
    let good = |b: u8| b.is_ascii_alphanumeric() || b"+-.".contains(&b);
    let is_name = !name.is_empty() && name.bytes().all(good);
    is_name.then(|| Relation { name: name.to_owned(), constraint })
}

fn constraint(text: &str) -> Option<Constraint> {
    let text = text.trim();
    let operators = [
        ("<<", Operator::Earlier),
        ("<=", Operator::UpTo),
        (">=", Operator::From),
        (">>", Operator::Later),
        ("=", Operator::Exactly),
    ];
    let read = |(sign, operator)| Some((text.strip_prefix(sign)?, operator));
    let (version, operator) = operators.into_iter().find_map(read)?;
    let version = version.trim();
    (!version.is_empty()).then(|| Constraint { operator, version: Version::new(version) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relations_and_alternatives_are_read() {
        let read = relations("libc6 (>= 2.36), gawk | mawk (<<2), python3:any,").unwrap();
        let names: Vec<Vec<_>> =
            read.iter().map(|any| any.iter().map(|one| one.name.as_str()).collect()).collect();
        assert_eq!(names, [vec!["libc6"], vec!["gawk", "mawk"], vec!["python3"]]);
        let libc = read[0][0].constraint.as_ref().unwrap();
        assert!(libc.holds(&Version::new("2.36-9")) && !libc.holds(&Version::new("2.35")));
        let mawk = read[1][1].constraint.as_ref().unwrap();
        assert!(mawk.holds(&Version::new("1.9")) && !mawk.holds(&Version::new("2")));
        for bad in ["a (2)", "a (>= )", "a (>= 1", "bad name", "| a"] {
            assert_eq!(relations(bad), None, "{bad}");
        }
    }
}
