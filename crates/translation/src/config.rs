/// A configuration that cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {reason}")]
pub struct ConfigError {
    /// The key, as written in a configuration file.
    pub key: &'static str,
    /// Error in its value.
    pub reason: String,
}
