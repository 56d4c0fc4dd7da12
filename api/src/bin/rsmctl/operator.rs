//! The operator's name, which records of orders show beside the identity of the connection.

/// The operator's name in the environment; empty if it has none.
pub(crate) fn operator() -> String {
    operator_in(|variable| std::env::var(variable).ok())
}

/// The operator's name in variables. An empty variable counts as one that is not set.
fn operator_in(variable: impl Fn(&str) -> Option<String>) -> String {
    let mut values = ["SUDO_USER", "USER", "LOGNAME"].into_iter();
    let name = values.find_map(|name| variable(name).filter(|value| !value.is_empty()));
    name.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_variable_hides_no_other_name_of_the_operator() {
        let named = |own: &[(&str, &str)]| {
            operator_in(|variable| {
                let value = own.iter().find(|(name, _)| *name == variable)?.1;
                Some(value.to_owned())
            })
        };
        assert_eq!(named(&[("SUDO_USER", ""), ("USER", "carol")]), "carol");
        assert_eq!(named(&[("SUDO_USER", "bob"), ("USER", "root")]), "bob");
        assert_eq!(named(&[("USER", ""), ("LOGNAME", "dave")]), "dave");
        assert_eq!(named(&[]), "");
    }
}
