//! Attributes that restrict code to tests.

use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, Lit, Meta, Token};

/// The value of a condition in a build without `cfg(test)`; other conditions may be true or false.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Value {
    No,
    Maybe,
    Yes,
}

/// Tells whether only tests compile an item with these attributes: its `cfg` cannot be true without
/// `test`.
pub(super) fn is_test_only(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || (attribute.path().is_ident("cfg")
                && attribute
                    .parse_args::<Meta>()
                    .is_ok_and(|condition| value(&condition) == Value::No))
    })
}

/// The path in `#[path = "…"]`; `None` without such an attribute.
pub(super) fn path_of(attributes: &[Attribute]) -> Option<String> {
    attributes
        .iter()
        .find_map(|attribute| match &attribute.meta {
            Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
                Expr::Lit(literal) => match &literal.lit {
                    Lit::Str(text) => Some(text.value()),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        })
}

/// The value of a condition in `cfg`.
fn value(condition: &Meta) -> Value {
    if condition.path().is_ident("test") {
        return Value::No;
    }
    let Meta::List(list) = condition else {
        return Value::Maybe;
    };
    let operands: Vec<Value> = list
        .parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
        .map(|operands| operands.iter().map(value).collect())
        .unwrap_or_default();
    let has = |value| operands.contains(&value);
    if list.path.is_ident("not") {
        match operands.as_slice() {
            [Value::No] => Value::Yes,
            [Value::Yes] => Value::No,
            _ => Value::Maybe,
        }
    } else if list.path.is_ident("all") {
        if has(Value::No) {
            Value::No
        } else if has(Value::Maybe) {
            Value::Maybe
        } else {
            Value::Yes
        }
    } else if list.path.is_ident("any") {
        if has(Value::Yes) {
            Value::Yes
        } else if has(Value::Maybe) {
            Value::Maybe
        } else {
            Value::No
        }
    } else {
        Value::Maybe
    }
}
