use pagelab_addr::parse_quantity;

/// A number that can be set.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its key.
    pub name: &'static str,
    /// Meaning.
    pub description: &'static str,
    /// Its value unless set.
    pub default: u64,
    /// The smallest value.
    pub min: u64,
    /// The largest value.
    pub max: u64,
}

/// Parameters of every workload.
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
    Parameter {
        name: "sparsity",
        description: "address space for its memory: 2 MiB in use of every so many times 2 MiB",
        default: 1,
        min: 1,
        max: 1024,
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
        /// Name that was given.
        name: String,
        /// The valid keys.
        valid: String,
    },
    /// No number, or out of range.
    #[error("{name} = {value:?} is not a number (or a size such as 10GiB) from {min} to {max}")]
    Value {
        /// The key.
        name: &'static str,
        /// Value that was given.
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
            match parse_quantity(text) {
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

    /// Values that decide which accesses a program makes, and how many of them are looked at: all
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
