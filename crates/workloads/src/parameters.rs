/// A number that can be set.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its key.
    pub name: &'static str,
    /// What it means.
    pub description: &'static str,
    /// Its value unless set.
    pub default: u64,
    /// The smallest value.
    pub min: u64,
    /// The largest value.
    pub max: u64,
}

/// What can be set for every workload.
pub const COMMON: &[Parameter] = &[
    Parameter {
        name: "seed",
        description: "where everything random starts from",
        default: 1,
        min: 0,
        max: u64::MAX,
    },
    Parameter {
        name: "windows",
        description: "windows to sample, 0 for the whole program; unless set, 30 if they are less \
                      than a quarter of it, else 0",
        default: 30,
        min: 0,
        max: 1_000_000,
    },
    Parameter {
        name: "warm_up",
        description: "accesses at the start of each window that are not measured",
        default: 1_000_000,
        min: 0,
        max: 1 << 40,
    },
    Parameter {
        name: "measured",
        description: "accesses of each window that are measured",
        default: 1_000_000,
        min: 1,
        max: 1 << 40,
    },
    Parameter {
        name: "region",
        description: "accesses, from the program's first, over which windows are spread",
        default: 2_000_000_000,
        min: 1,
        max: 1 << 60,
    },
];

/// The values of a workload's parameters.
#[derive(Clone, Debug)]
pub struct Parameters {
    /// Name, value, and whether it was given.
    values: Vec<(&'static str, u64, bool)>,
}

/// A parameter that cannot be set so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// No such key.
    #[error("unknown parameter {name:?}; there are {valid}")]
    Unknown {
        /// What was given.
        name: String,
        /// The valid keys.
        valid: String,
    },
    /// No number, or out of range.
    #[error("{name} = {value:?} is not a number (or a size such as 10GiB) from {min} to {max}")]
    Value {
        /// The key.
        name: &'static str,
        /// What was given.
        value: String,
        /// The smallest value.
        min: u64,
        /// The largest value.
        max: u64,
    },
}

impl Parameters {
    pub(crate) fn new(
        known: &'static [Parameter],
        given: &[(String, String)],
    ) -> Result<Self, ParameterError> {
        let known: Vec<&Parameter> = known.iter().chain(COMMON).collect();
        let mut values: Vec<_> = known.iter().map(|p| (p.name, p.default, false)).collect();
        for (name, text) in given {
            let Some(at) = known.iter().position(|p| p.name == name) else {
                return Err(ParameterError::Unknown {
                    name: name.clone(),
                    valid: known.iter().map(|p| p.name).collect::<Vec<_>>().join(", "),
                });
            };
            let Parameter { name, min, max, .. } = *known[at];
            match parse_number(text) {
                Some(value) if (min..=max).contains(&value) => values[at] = (name, value, true),
                _ => {
                    return Err(ParameterError::Value {
                        name,
                        value: text.clone(),
                        min,
                        max,
                    });
                }
            }
        }
        Ok(Parameters { values })
    }

    /// The value of a parameter.
    ///
    /// # Panics
    /// When the workload has no such parameter.
    pub(crate) fn get(&self, name: &str) -> u64 {
        let value = self.values.iter().find(|v| v.0 == name);
        value.expect("a workload asks for its own parameters").1
    }

    /// What decides which accesses a program makes, and how many of them are looked at: all values
    /// but those that say where windows are.
    pub(crate) fn program(&self) -> String {
        let values = self.values.iter();
        let program = values.filter(|v| !["windows", "warm_up", "measured"].contains(&v.0));
        program.map(|v| format!("{}={} ", v.0, v.1)).collect()
    }

    /// The value of a parameter that was set.
    pub(crate) fn given(&self, name: &str) -> Option<u64> {
        let value = self.values.iter().find(|v| v.0 == name);
        value.filter(|v| v.2).map(|v| v.1)
    }
}

/// A number, with an optional binary (`GiB`) or decimal (`M`) suffix; of what that makes, the
/// whole part.
fn parse_number(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match &text[digits.len()..] {
        "" | "B" => 1,
        "k" | "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return None,
    };
    let (whole, fraction) = digits
        .trim()
        .split_once('.')
        .unwrap_or((digits.trim(), "0"));
    // More decimals than any unit has digits say nothing.
    if fraction.is_empty() || fraction.len() > 12 {
        return None;
    }
    let scale = 10u64.pow(fraction.len() as u32);
    let part = u128::from(fraction.parse::<u64>().ok()?) * u128::from(unit) / u128::from(scale);
    let whole = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    whole.checked_add(part as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_counts_are_read() {
        assert_eq!(parse_number("10GiB"), Some(10 << 30));
        assert_eq!(parse_number("3 M"), Some(3_000_000));
        assert_eq!(parse_number("42"), Some(42));
        assert_eq!(parse_number("1.5G"), Some(1_500_000_000));
        assert_eq!(parse_number("10.25KiB"), Some(10_496));
        assert_eq!(parse_number("2.9"), Some(2));
        for bad in [
            "",
            "GiB",
            "-1",
            "1.G",
            ".5G",
            "1.5.1G",
            "1Q",
            "99999999999999999999",
            "20000000TiB",
        ] {
            assert_eq!(parse_number(bad), None, "{bad}");
        }
    }
}
