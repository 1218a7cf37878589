use crate::config::MachineConfig;
use crate::design::name::DesignName;
use crate::design::registered::registered;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer, ser::Error};
use serde_json::Value;
use std::borrow::Cow;
use std::ops::{Deref, DerefMut};

/// A machine with one design. Its form in JSON has no keys of other designs.
#[derive(Clone, Debug)]
pub struct DesignedMachine {
    config: MachineConfig,
    /// The tables of keys that are its design's own.
    own: Vec<&'static str>,
}

macro_rules! tables {
    (
        page_tables { $($table:ident: $_table:ident, $table_keys:ident;)* }
        tlbs { $($tlb:ident: $_tlb:ident $(, $tlb_keys:ident)?;)* }
        around { $($around:ident: $around_keys:ident;)* }
    ) => {
        /// The tables of keys that some designs have and others have not.
        const OF_DESIGNS: &[&str] = &[
            $(stringify!($table),)*
            $(stringify!($tlb),)*
            $(stringify!($around),)*
            "nested",
        ];
    };
}

registered!(tables);

impl DesignedMachine {
    pub(crate) fn new(config: &MachineConfig, design: DesignName) -> Self {
        DesignedMachine {
            config: config.clone(),
            own: design.tables(),
        }
    }
}

impl Deref for DesignedMachine {
    type Target = MachineConfig;

    fn deref(&self) -> &MachineConfig {
        &self.config
    }
}

impl DerefMut for DesignedMachine {
    fn deref_mut(&mut self) -> &mut MachineConfig {
        &mut self.config
    }
}

impl JsonSchema for DesignedMachine {
    fn schema_name() -> Cow<'static, str> {
        "DesignedMachine".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = MachineConfig::json_schema(generator);
        if let Some(Value::Array(required)) = schema.get_mut("required") {
            required.retain(|key| !OF_DESIGNS.iter().any(|of_design| key == of_design));
        }
        schema
    }
}

impl Serialize for DesignedMachine {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut machine = serde_json::to_value(&self.config).map_err(S::Error::custom)?;
        if let Value::Object(tables) = &mut machine {
            tables.retain(|name, _| {
                let name = name.as_str();
                self.own.contains(&name) || !OF_DESIGNS.contains(&name)
            });
        }
        machine.serialize(serializer)
    }
}
