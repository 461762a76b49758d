//! The columns of a file, and the types of their values.

use crate::Dtype;
use crate::envelope::foreign::parquet::thrift::Value;

/// Groups nested deeper than this are refused.
const MAX_DEPTH: usize = 64;
/// Files of more columns are refused.
const MAX_COLUMNS: usize = 1 << 16;
/// Names of columns may take no more bytes than this together, since a column repeats the names of
/// all groups around it.
const MAX_NAMES: usize = 16 << 20;

/// A column that holds values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Leaf {
    /// The names of the groups around the column and its own, joined by dots, without those of the
    /// elements of lists.
    pub(super) name: String,
    pub(super) kind: ColumnKind,
    /// The definition level of values that exist; rows with lower levels are null.
    pub(super) max_def: u32,
    /// The definition levels of the elements of the lists that values are in, also of those without a
    /// value; the outermost list is first.
    pub(super) list_defs: Vec<u32>,
}

impl Leaf {
    /// Whether its values are lists.
    pub(super) fn is_list(&self) -> bool {
        !self.list_defs.is_empty()
    }
}

/// The type of values, and how a plain page stores them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ColumnKind {
    /// A length in four bytes, then the bytes.
    Bytes,
    /// A length in four bytes, then a UTF-8 text.
    Texts,
    /// Values of one size, back to back.
    Fixed(u64),
    /// Numbers, each in the first bytes of `stored`.
    Number { dtype: Dtype, stored: u64 },
    /// u64, which is not a type of a field.
    Unsigned64,
    /// Truth values, a bit each.
    Bools,
    /// Lists of values of this type.
    List(Box<ColumnKind>),
    /// A type that is not read, for this reason.
    Other(String),
}

impl ColumnKind {
    /// The type of single values.
    pub(super) fn of_element(&self) -> &Self {
        match self {
            Self::List(element) => element.of_element(),
            kind => kind,
        }
    }
}

/// One line of a file's schema.
#[derive(Debug)]
struct Element {
    name: String,
    children: u64,
    repetition: Option<i64>,
    kind: ColumnKind,
}

impl Element {
    fn parse(value: &Value<'_>) -> Option<Self> {
        let name = value.text(4)?;
        let (children, repetition) = (value.count(5).unwrap_or(0), value.int(3));
        let kind = if children == 0 { kind(value) } else { ColumnKind::Other(String::new()) };
        Some(Self { name, children, repetition, kind })
    }
}

/// A group whose columns are being read.
struct Open {
    left: u64,
    name: Option<String>,
    max_def: u32,
    /// As in [`Leaf`].
    list_defs: Vec<u32>,
    /// Whether it has several members, whose names tell them apart.
    several: bool,
}

/// Returns the columns of a schema, which lists each group before its members. The error is the
/// reason why the schema is damaged or too large.
pub(super) fn leaves<'a>(
    mut elements: impl Iterator<Item = Option<Value<'a>>>,
) -> Result<Vec<Leaf>, String> {
    const DAMAGED: &str = "its schema is damaged";
    let mut next =
        || elements.next().map(|e| e.as_ref().and_then(Element::parse).ok_or(DAMAGED)).transpose();
    let root = next()?.ok_or(DAMAGED)?;
    let (left, several) = (root.children, true);
    let mut open = vec![Open { left, name: None, max_def: 0, list_defs: Vec::new(), several }];
    let (mut leaves, mut names) = (Vec::new(), 0_usize);
    while let Some(element) = next()? {
        while open.last().is_some_and(|group| group.left == 0) {
            open.pop();
        }
        let depth = open.len();
        let group = open.last_mut().ok_or(DAMAGED)?;
        group.left = group.left.saturating_sub(1);
        // The values are 0 for required, 1 for optional and 2 for repeated.
        let repetition = element.repetition.filter(|r| (0..=2).contains(r)).ok_or(DAMAGED)?;
        let max_def = group.max_def.saturating_add(u32::from(repetition != 0));
        let mut list_defs = group.list_defs.clone();
        if repetition == 2 {
            list_defs.push(max_def);
        }
        let name = match &group.name {
            None => element.name,
            // The names of a list's elements are left out, since they have no meaning.
            Some(name) if !list_defs.is_empty() && !group.several => name.clone(),
            Some(name) => format!("{name}.{}", element.name),
        };
        names = names.saturating_add(name.len());
        if names > MAX_NAMES {
            return Err(format!("the names of its columns take more than {MAX_NAMES} bytes"));
        }
        if element.children > 0 {
            if depth >= MAX_DEPTH {
                return Err(format!("its groups are nested more than {MAX_DEPTH} deep"));
            }
            let (left, name, several) = (element.children, Some(name), element.children > 1);
            open.push(Open { left, name, max_def, list_defs, several });
        } else {
            if leaves.len() >= MAX_COLUMNS {
                return Err(format!("it has more than {MAX_COLUMNS} columns"));
            }
            let list = |kind| ColumnKind::List(Box::new(kind));
            let kind = match list_defs.len() {
                0 => element.kind,
                1 => list(element.kind),
                2 => list(list(element.kind)),
                _ => ColumnKind::Other("it holds lists of lists of lists".to_owned()),
            };
            leaves.push(Leaf { name, kind, max_def, list_defs });
        }
    }
    if open.iter().any(|group| group.left > 0) {
        return Err(DAMAGED.to_owned());
    }
    Ok(leaves)
}

/// The annotation that refines the physical type.
enum Annotation {
    None,
    Text,
    Integer { bits: i64, signed: bool },
    Float16,
    Other(&'static str),
}

fn kind(element: &Value<'_>) -> ColumnKind {
    let annotation = annotation(element);
    let other = |name: &str| ColumnKind::Other(format!("it is of type {name}"));
    if let Annotation::Other(name) = annotation {
        return other(name);
    }
    let number = |dtype, stored| ColumnKind::Number { dtype, stored };
    match (element.int(1), annotation) {
        (Some(1), Annotation::None) => number(Dtype::I32, 4),
        (Some(1), Annotation::Integer { bits, signed }) => match (bits, signed) {
            (8, false) => number(Dtype::U8, 4),
            (8, true) => number(Dtype::I8, 4),
            (16, false) => number(Dtype::U16, 4),
            (16, true) => number(Dtype::I16, 4),
            (32, false) => number(Dtype::U32, 4),
            (32, true) => number(Dtype::I32, 4),
            _ => other("integer"),
        },
        (Some(2), Annotation::Integer { signed: false, .. }) => ColumnKind::Unsigned64,
        (Some(2), Annotation::None | Annotation::Integer { .. }) => number(Dtype::I64, 8),
        (Some(4), Annotation::None) => number(Dtype::F32, 4),
        (Some(5), Annotation::None) => number(Dtype::F64, 8),
        (Some(6), Annotation::Text) => ColumnKind::Texts,
        (Some(6), _) => ColumnKind::Bytes,
        (Some(7), annotation) => match (element.count(2), annotation) {
            (Some(2), Annotation::Float16) => number(Dtype::F16, 2),
            (Some(size), _) if size > 0 => ColumnKind::Fixed(size),
            _ => other("fixed_len_byte_array"),
        },
        (Some(0), _) => ColumnKind::Bools,
        (Some(3), _) => other("int96"),
        _ => other("null"),
    }
}

/// Reads the annotation from the logical type, or from the older one that it replaced.
fn annotation(element: &Value<'_>) -> Annotation {
    if let Some(Value::Struct(union)) = element.field(10) {
        return match union.first() {
            Some((1 | 4 | 12, _)) => Annotation::Text,
            Some((5, _)) => Annotation::Other("decimal"),
            Some((6, _)) => Annotation::Other("date"),
            Some((7, _)) => Annotation::Other("time"),
            Some((8, _)) => Annotation::Other("timestamp"),
            Some((10, integer)) => Annotation::Integer {
                bits: integer.int(1).unwrap_or(0),
                signed: integer.field(2) == Some(&Value::Bool(true)),
            },
            Some((11, _)) => Annotation::Other("null"),
            Some((13, _)) => Annotation::Other("bson"),
            Some((14, _)) => Annotation::Other("uuid"),
            Some((15, _)) => Annotation::Float16,
            _ => Annotation::Other("unknown"),
        };
    }
    match element.int(6) {
        None => Annotation::None,
        Some(0 | 4 | 19) => Annotation::Text,
        Some(5) => Annotation::Other("decimal"),
        Some(6) => Annotation::Other("date"),
        Some(7 | 8) => Annotation::Other("time"),
        Some(9 | 10) => Annotation::Other("timestamp"),
        Some(11) => Annotation::Integer { bits: 8, signed: false },
        Some(12) => Annotation::Integer { bits: 16, signed: false },
        Some(13) => Annotation::Integer { bits: 32, signed: false },
        Some(14) => Annotation::Integer { bits: 64, signed: false },
        Some(15) => Annotation::Integer { bits: 8, signed: true },
        Some(16) => Annotation::Integer { bits: 16, signed: true },
        Some(17) => Annotation::Integer { bits: 32, signed: true },
        Some(18) => Annotation::Integer { bits: 64, signed: true },
        Some(20) => Annotation::Other("bson"),
        Some(21) => Annotation::Other("interval"),
        Some(_) => Annotation::Other("unknown"),
    }
}
