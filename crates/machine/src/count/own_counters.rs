use serde_json::Value;
use std::collections::BTreeMap;

/// Counters of the design alone, from the machine's first access on.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct OwnCounters {
    /// Everything but the page table's, all cores together. They only ever grow.
    pub(crate) tlb: BTreeMap<&'static str, u64>,
    /// The page table's, sizes among them.
    pub(crate) page_table: Value,
}

/// By how much they have changed in a window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) tlb: BTreeMap<&'static str, u64>,
    /// By their names in all, joined by dots.
    pub(crate) page_table: BTreeMap<String, i64>,
}

impl OwnCounters {
    /// Changes since an earlier moment.
    pub(crate) fn since(&self, earlier: &OwnCounters) -> Changes {
        let grown = |(&name, &count): (&&'static str, &u64)| {
            let before = earlier.tlb.get(name).copied().unwrap_or_default();
            (name, count - before)
        };
        let mut page_table = BTreeMap::new();
        collect(
            &self.page_table,
            &earlier.page_table,
            String::new(),
            &mut page_table,
        );
        Changes {
            tlb: self.tlb.iter().map(grown).collect(),
            page_table,
        }
    }
}

/// The whole numbers within a value, less those at the same places within another.
fn collect(now: &Value, then: &Value, name: String, into: &mut BTreeMap<String, i64>) {
    let below = |key: &str| match name.as_str() {
        "" => key.to_owned(),
        name => format!("{name}.{key}"),
    };
    match now {
        Value::Object(fields) => {
            for (key, value) in fields {
                let then = then.get(key).unwrap_or(&Value::Null);
                collect(value, then, below(key), into);
            }
        }
        Value::Array(items) => {
            for (place, value) in items.iter().enumerate() {
                let then = then.get(place).unwrap_or(&Value::Null);
                collect(value, then, below(&place.to_string()), into);
            }
        }
        _ => {
            if let Some(count) = now.as_i64() {
                into.insert(name, count - then.as_i64().unwrap_or_default());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_has_changed_has_the_name_of_its_place() {
        let earlier = OwnCounters {
            tlb: [("fills", 3)].into(),
            page_table: json!({ "nodes": 9, "moves": { "all": 1 }, "steps": [[1, 2]], "kind": "x" }),
        };
        let now = OwnCounters {
            tlb: [("fills", 5), ("hits", 2)].into(),
            page_table: json!({ "nodes": 7, "moves": { "all": 4 }, "steps": [[1, 5], [6]], "kind": "y" }),
        };
        let changes = now.since(&earlier);
        assert_eq!(changes.tlb, [("fills", 2), ("hits", 2)].into());
        let named = |counts: [i64; 5]| -> BTreeMap<String, i64> {
            let names = ["nodes", "moves.all", "steps.0.0", "steps.0.1", "steps.1.0"];
            names.map(str::to_owned).into_iter().zip(counts).collect()
        };
        assert_eq!(changes.page_table, named([-2, 3, 0, 3, 6]));
        let nothing = OwnCounters::default();
        assert_eq!(nothing.since(&nothing), Changes::default());
    }
}
