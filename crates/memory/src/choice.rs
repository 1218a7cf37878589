//! Parts of a machine that are chosen by name and have keys of their own.
//!
//! A description has the name alone, `"ship"`, or a table with some keys: `{ name = "ship",
//! signature = "region" }`. A key that is left out has its default.

use schemars::Schema;
use serde_json::json;

#[doc(hidden)]
pub use serde_json::{Map, Value};

#[doc(hidden)]
pub type Table = Map<String, Value>;

/// An enum of such parts: `"NAME": VARIANT;`, or `"NAME": VARIANT(KEYS);` where `KEYS` is a struct
/// with a default for every key. Its doc comments are the reference.
#[macro_export]
macro_rules! choices {
    (
        $(#[$about:meta])*
        pub enum $choice:ident {
            $($(#[$doc:meta])* $name:literal: $variant:ident $(($keys:ty))?;)*
        }
    ) => {
        $(#[$about])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize,
            schemars::JsonSchema,
        )]
        #[serde(tag = "name", remote = "Self", deny_unknown_fields)]
        #[schemars(transform = $crate::choice::names)]
        pub enum $choice {
            $($(#[$doc])* #[serde(rename = $name)] $variant $(($keys))?,)*
        }

        impl $choice {
            /// Its name in a machine's description.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $name,)*
                }
            }

            fn has_keys(&self) -> bool {
                match self {
                    $(Self::$variant { .. } => <[&str]>::len(&[$(stringify!($keys))?]) > 0,)*
                }
            }

            /// The one of a name, with its defaults.
            pub fn named(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant $((<$keys>::default()))?),)*
                    _ => None,
                }
            }
        }

        impl<'de> serde::Deserialize<'de> for $choice {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                struct NameOrTable;

                impl<'de> serde::de::Visitor<'de> for NameOrTable {
                    type Value = $choice;

                    fn expecting(&self, to: &mut std::fmt::Formatter) -> std::fmt::Result {
                        to.write_str("a string, or a table with a name")
                    }

                    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<$choice, E> {
                        let unknown = || E::unknown_variant(name, &[$($name),*]);
                        <$choice>::named(name).ok_or_else(unknown)
                    }

                    fn visit_map<A>(self, table: A) -> Result<$choice, A::Error>
                    where
                        A: serde::de::MapAccess<'de>,
                    {
                        use serde::de::Error;
                        let table = serde::de::value::MapAccessDeserializer::new(table);
                        let table = <$crate::choice::Table as serde::Deserialize>::deserialize(table)?;
                        let other = table.keys().find(|key| *key != "name").cloned();
                        let choice = <$choice>::deserialize($crate::choice::Value::from(table));
                        let choice = choice.map_err(A::Error::custom)?;
                        // A unit variant does not refuse it by itself.
                        match other.filter(|_| !choice.has_keys()) {
                            Some(key) => Err(A::Error::unknown_field(&key, &["name"])),
                            None => Ok(choice),
                        }
                    }
                }

                from.deserialize_any(NameOrTable)
            }
        }

        impl serde::Serialize for $choice {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                if Self::named(self.name()) == Some(*self) {
                    return to.serialize_str(self.name());
                }
                <$choice>::serialize(self, to)
            }
        }
    };
}

/// Adds the names alone to the schema of tables with a name; tables without other keys leave it.
#[doc(hidden)]
pub fn names(schema: &mut Schema) {
    let Some(Value::Array(tables)) = schema.remove("oneOf") else {
        return;
    };
    let mut either = Vec::new();
    for mut table in tables {
        let has_keys = table["properties"]
            .as_object()
            .is_some_and(|keys| keys.len() > 1);
        let mut name = json!({ "type": "string", "const": table["properties"]["name"]["const"] });
        if has_keys {
            either.extend([name, table]);
        } else {
            name["description"] = table["description"].take();
            either.push(name);
        }
    }
    schema.insert("oneOf".to_owned(), Value::Array(either));
}

#[cfg(test)]
mod tests {
    use super::Value;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};
    use serde_json::{from_value, json, to_value};

    crate::choices! {
        /// Two parts.
        pub enum Part {
            /// Nothing to say.
            "plain": Plain;
            /// Something to say.
            "keyed": Keyed(Keys);
        }
    }

    /// Keys.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct Keys {
        /// Number of them.
        count: u32,
    }

    fn read(value: Value) -> Result<Part, String> {
        from_value(value).map_err(|error| error.to_string())
    }

    #[test]
    fn a_name_alone_has_the_defaults() {
        for (written, part, shortest) in [
            (json!("plain"), Part::Plain, json!("plain")),
            (json!({ "name": "plain" }), Part::Plain, json!("plain")),
            (
                json!("keyed"),
                Part::Keyed(Keys { count: 0 }),
                json!("keyed"),
            ),
            (
                json!({ "name": "keyed", "count": 3 }),
                Part::Keyed(Keys { count: 3 }),
                json!({ "name": "keyed", "count": 3 }),
            ),
        ] {
            assert_eq!(read(written), Ok(part));
            assert_eq!(to_value(part).unwrap(), shortest);
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (written, said) in [
            (
                json!("?"),
                "unknown variant `?`, expected `plain` or `keyed`",
            ),
            (
                json!({ "name": "?" }),
                "unknown variant `?`, expected `plain` or `keyed`",
            ),
            (
                json!({ "name": "keyed", "size": 3 }),
                "unknown field `size`, expected `count`",
            ),
            (
                json!({ "name": "plain", "count": 3 }),
                "unknown field `count`, expected `name`",
            ),
            (
                json!(3),
                "invalid type: integer `3`, expected a string, or a table with a name",
            ),
        ] {
            let error = read(written).unwrap_err();
            assert!(error.starts_with(said), "{error}");
        }
    }

    #[test]
    fn the_schema_has_names_and_keys() {
        let schema = to_value(schemars::schema_for!(Part)).unwrap();
        let [plain, keyed, keys] = &schema["oneOf"].as_array().unwrap()[..] else {
            panic!("{schema}");
        };
        let plain_has = json!({
            "type": "string", "const": "plain", "description": "Nothing to say."
        });
        assert_eq!(plain, &plain_has);
        assert_eq!(keyed, &json!({ "type": "string", "const": "keyed" }));
        assert_eq!(keys["description"], "Something to say.");
        assert_eq!(
            keys["properties"]["count"]["description"],
            "Number of them."
        );
    }
}
