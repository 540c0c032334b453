// SPDX-License-Identifier: GPL-2.0-only
//! The difference of two JSON values.
//!
//! - An integer is added to the former integer.
//! - An array of one element replaces the former value.
//! - An object has the differences of the members that changed; null removes one.

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

/// What leads from `prev` to `cur`; none if they are equal.
pub fn difference(prev: &Value, cur: &Value) -> Option<Value> {
    if prev == cur {
        return None;
    }
    match (prev, cur) {
        (Value::Object(prev), Value::Object(cur)) => Some(members(prev, cur)),
        (Value::Number(before), Value::Number(after)) => {
            let step = integer(before)
                .zip(integer(after))
                .and_then(|(before, after)| i64::try_from(after - before).ok());
            Some(step.map_or_else(|| replace(cur), Value::from))
        }
        _ => Some(replace(cur)),
    }
}

fn replace(value: &Value) -> Value {
    Value::Array(vec![value.clone()])
}

fn integer(number: &serde_json::Number) -> Option<i128> {
    let signed = number.as_i64().map(i128::from);
    signed.or_else(|| number.as_u64().map(i128::from))
}

fn members(prev: &Map<String, Value>, cur: &Map<String, Value>) -> Value {
    let mut changes = Map::new();
    for (key, value) in cur {
        let change = match prev.get(key) {
            Some(before) => difference(before, value),
            None => Some(replace(value)),
        };
        if let Some(change) = change {
            changes.insert(key.clone(), change);
        }
    }
    for key in prev.keys().filter(|key| !cur.contains_key(*key)) {
        changes.insert(key.clone(), Value::Null);
    }
    Value::Object(changes)
}

/// Applies a difference.
///
/// # Errors
/// The difference is not one of this value. The value may have changed in part.
pub fn apply(value: &mut Value, change: Value) -> Result<()> {
    match change {
        Value::Array(mut new) if new.len() == 1 => {
            *value = new.pop().context("no value")?;
        }
        Value::Number(step) => {
            let before = value.as_number().and_then(integer);
            let (before, step) = before.zip(integer(&step)).context("no integers")?;
            let after = before + step;
            *value = match (i64::try_from(after), u64::try_from(after)) {
                (Ok(after), _) => after.into(),
                (_, Ok(after)) => after.into(),
                _ => bail!("an integer is out of range"),
            };
        }
        Value::Object(changes) => {
            let members = value.as_object_mut().context("no object")?;
            for (key, change) in changes {
                match (change, members.get_mut(&key)) {
                    (Value::Null, _) => {
                        members.remove(&key);
                    }
                    (change, Some(member)) => apply(member, change)?,
                    (Value::Array(mut new), None) if new.len() == 1 => {
                        members.insert(key, new.pop().context("no value")?);
                    }
                    _ => bail!("{key} changes before it exists"),
                }
            }
        }
        _ => bail!("no difference"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1e6..1e6f64).prop_map(Value::from),
            "[a-c]{0,2}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-c]", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_difference_leads_from_one_value_to_the_other(prev in values(), cur in values()) {
            let mut value = prev.clone();
            if let Some(change) = difference(&prev, &cur) {
                apply(&mut value, change).unwrap();
            }
            prop_assert_eq!(value, cur);
        }

        #[test]
        fn no_difference_makes_it_panic(mut value in values(), change in values()) {
            let _ = apply(&mut value, change);
        }
    }

    #[test]
    fn a_counter_costs_its_growth_alone() {
        let (prev, cur) = (
            json!({"a": 1_000_000_000_000u64, "b": {"c": "x"}}),
            json!({"a": 1_000_000_000_007u64, "b": {"c": "x"}}),
        );
        assert_eq!(difference(&prev, &cur), Some(json!({"a": 7})));
    }
}
