use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Cuckoo walk tables: elastic cuckoo tables that grow as the others do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CwtConfig {
    /// Ways, 2 to 8.
    pub ways: u32,
    /// Entries of a way, a line each; a power of two, at least 64.
    pub entries: u32,
}

impl Default for CwtConfig {
    fn default() -> Self {
        CwtConfig {
            ways: 2,
            entries: 128,
        }
    }
}
