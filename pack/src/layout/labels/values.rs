//! Values of further fields: parses table cells for the plan, and encodes the plan's values for a
//! shard.

use gular_bundle::{Dtype, Field, FieldKind, FieldName, file_head};
use serde_json::Value;

use super::cell::Cell;
use super::columns::{NPY, ValueKind};

/// The plan's value for a cell; `None` if the cell is not of that kind.
pub(super) fn planned(cell: &Cell, kind: &ValueKind) -> Option<Value> {
    let integer = |cell: &Cell| cell.integer().map(Value::from);
    Some(match (kind, cell) {
        (ValueKind::Texts, Cell::Missing) => Value::from(""),
        (ValueKind::Texts, Cell::Text(text) | Cell::Written(text)) => Value::from(text.as_str()),
        (ValueKind::Bools, Cell::Bool(b)) => Value::from(u8::from(*b)),
        (ValueKind::Integers, cell) => integer(cell)?,
        (ValueKind::Floats, Cell::Missing) => Value::Null,
        (ValueKind::Floats, cell) => float(cell.number()?),
        (ValueKind::Numbers { len, integers }, Cell::List(cells)) if cells.len() as u64 == *len => {
            let number = |cell| if *integers { integer(cell) } else { cell.number().map(float) };
            Value::Array(cells.iter().map(number).collect::<Option<_>>()?)
        }
        (ValueKind::Arrays { row, integers }, Cell::List(cells)) => array(cells, *row, *integers)?,
        (ValueKind::Lists { integers: true }, Cell::List(cells)) => array(cells, None, true)?,
        (ValueKind::Lists { integers: false }, Cell::List(cells)) => texts(cells)?,
        (ValueKind::Lists { integers: false }, Cell::Missing) => Value::from("[]"),
        (ValueKind::Lists { integers: true }, Cell::Missing) => array(&[], None, true)?,
        _ => return None,
    })
}

/// The text of a JSON list of texts.
fn texts(cells: &[Cell]) -> Option<Value> {
    let text = |cell: &Cell| match cell {
        Cell::Text(text) | Cell::Written(text) => Some(Value::from(text.as_str())),
        _ => None,
    };
    let list: Option<Vec<Value>> = cells.iter().map(text).collect();
    list.map(|list| Value::from(Value::Array(list).to_string()))
}

/// Type, shape and numbers of an array: what an empty one does not say by itself.
fn array(cells: &[Cell], row: Option<u64>, integers: bool) -> Option<Value> {
    let mut numbers = Vec::new();
    for cell in cells {
        let of_row = match (cell, row) {
            (Cell::List(of_row), Some(len)) if of_row.len() as u64 == len => of_row.as_slice(),
            (cell, None) => std::slice::from_ref(cell),
            _ => return None,
        };
        for cell in of_row {
            numbers.push(match integers {
                true => Value::from(cell.integer()?),
                false => float(cell.number()?),
            });
        }
    }
    let shape: Vec<u64> = std::iter::once(cells.len() as u64).chain(row).collect();
    let dtype = if integers { Dtype::I64 } else { Dtype::F64 };
    Some(serde_json::json!([dtype, shape, numbers]))
}

/// Returns the npy file of an array in the plan.
fn npy(value: &Value) -> Option<Vec<u8>> {
    let (dtype, shape, numbers): (Dtype, Vec<u64>, Vec<Value>) =
        serde_json::from_value(value.clone()).ok()?;
    let n = shape.iter().try_fold(1_u64, |n, dim| n.checked_mul(*dim))?;
    (n == numbers.len() as u64).then_some(())?;
    // A field of that type and shape says how such a file begins.
    let mut file = file_head(&Field::fixed(FieldName::image(), dtype, shape));
    for value in &numbers {
        file.extend(number(dtype, value)?);
    }
    Some(file)
}

/// JSON has no name for what is not a finite number.
fn float(x: f64) -> Value {
    match x {
        f64::INFINITY => Value::from("inf"),
        f64::NEG_INFINITY => Value::from("-inf"),
        // NaN becomes null.
        x => Value::from(x),
    }
}

/// The bytes that a shard has for each of `fields`, given the plan's values; `None` when these are
/// not theirs.
pub(crate) fn stored(fields: &[Field], values: &[Value]) -> Option<Vec<Vec<u8>>> {
    (values.len() == fields.len()).then_some(())?;
    values.iter().zip(fields).map(|(value, field)| bytes(field, value)).collect()
}

/// The classes of a sample that may have several, given the plan's list of values.
pub(crate) fn hot_classes(planned: &str) -> Vec<usize> {
    let values: Option<Vec<Value>> = serde_json::from_str(planned).ok();
    let first = values.and_then(|values| values.into_iter().next());
    let classes = first.as_ref().and_then(Value::as_array).into_iter().flatten();
    classes.filter_map(|class| usize::try_from(class.as_u64()?).ok()).collect()
}

fn bytes(field: &Field, value: &Value) -> Option<Vec<u8>> {
    let Some((dtype, shape)) = field.as_fixed() else {
        if matches!(&field.kind, FieldKind::Bytes { media_types } if media_types == &[NPY]) {
            return npy(value);
        }
        return value.as_str().map(|text| text.as_bytes().to_vec());
    };
    match (dtype, shape) {
        (Dtype::U8, [classes]) => {
            let mut hot = vec![0; usize::try_from(*classes).ok()?];
            for class in value.as_array()? {
                *hot.get_mut(usize::try_from(class.as_u64()?).ok()?)? = 1;
            }
            Some(hot)
        }
        (_, []) => number(dtype, value),
        (_, [len]) => {
            let list = value.as_array().filter(|list| list.len() as u64 == *len)?;
            let numbers: Option<Vec<Vec<u8>>> = list.iter().map(|v| number(dtype, v)).collect();
            numbers.map(|numbers| numbers.concat())
        }
        _ => None,
    }
}

fn number(dtype: Dtype, value: &Value) -> Option<Vec<u8>> {
    match dtype {
        Dtype::U8 => Some(vec![u8::try_from(value.as_u64()?).ok()?]),
        Dtype::I64 => Some(value.as_i64()?.to_le_bytes().to_vec()),
        Dtype::F64 => {
            let number = match value {
                Value::Null => f64::NAN,
                Value::String(text) if text == "inf" => f64::INFINITY,
                Value::String(text) if text == "-inf" => f64::NEG_INFINITY,
                value => value.as_f64()?,
            };
            Some(number.to_le_bytes().to_vec())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gular_bundle::FieldName;

    #[test]
    fn every_float_comes_through_the_plan_as_it_was() {
        let field = Field::fixed(FieldName::parse("x").unwrap(), Dtype::F64, Vec::new());
        for x in [0.1, -0.0, 5e-324, f64::MAX, f64::INFINITY, f64::NEG_INFINITY, 1e22, 3.0] {
            let planned = planned(&Cell::Float(x), &ValueKind::Floats).unwrap();
            let line = Value::Array(vec![planned]).to_string();
            let line: Vec<Value> = serde_json::from_str(&line).unwrap();
            let back = stored(std::slice::from_ref(&field), &line).unwrap();
            assert_eq!(back, [x.to_le_bytes().to_vec()], "{line:?}");
        }
        let line = [planned(&Cell::Missing, &ValueKind::Floats).unwrap()];
        let back = stored(std::slice::from_ref(&field), &line).unwrap();
        assert!(f64::from_le_bytes(back[0][..].try_into().unwrap()).is_nan());
    }
}
