use crate::wire::codes::code_enum;

code_enum! {
    /// How a path's value must compare with the value in a query (IBA 15.2.5.16): two bits before
    /// MTU, rate and packet life time.
    Selector {
        /// The path's value must be greater than the value in the query.
        GreaterThan = 0 ">",
        /// The path's value must be less than the value in the query.
        LessThan = 1 "<",
        /// The path's value must equal the value in the query.
        Exactly = 2 "=",
        /// The path must have the largest available value, or the smallest packet life time. The
        /// value in the query is ignored.
        Extreme = 3 "extreme",
    }
}

impl Selector {
    /// Whether `value` satisfies a query with the value `wanted`. The caller handles the extreme
    /// value, which depends on the other paths.
    pub fn accepts<T: Ord>(self, value: T, wanted: T) -> bool {
        match self {
            Self::GreaterThan => value > wanted,
            Self::LessThan => value < wanted,
            Self::Exactly => value == wanted,
            // `Unknown` never occurs: every code of two bits has a variant.
            Self::Extreme | Self::Unknown(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selector_compares_the_value_of_a_path_with_the_value_in_a_query() {
        assert!(Selector::GreaterThan.accepts(5, 4) && !Selector::GreaterThan.accepts(4, 4));
        assert!(Selector::LessThan.accepts(3, 4) && !Selector::LessThan.accepts(4, 4));
        assert!(Selector::Exactly.accepts(4, 4) && !Selector::Exactly.accepts(5, 4));
        assert!(Selector::Extreme.accepts(1, 4));
    }
}
