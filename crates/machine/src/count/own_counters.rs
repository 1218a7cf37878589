use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Name of a counter that is declared here, or read.
pub(crate) type Name = Cow<'static, str>;

/// Counters of the design alone, from the machine's first access on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct OwnCounters {
    /// Everything but the page table's, all cores together. They only ever grow.
    pub(crate) tlb: BTreeMap<Name, u64>,
    /// The page table's, sizes among them.
    pub(crate) page_table: Value,
}

/// By how much they have changed in a window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Changes {
    pub(crate) tlb: BTreeMap<Name, u64>,
    /// By their names in all, joined by dots.
    pub(crate) page_table: BTreeMap<String, i64>,
}

impl OwnCounters {
    /// Changes since an earlier moment.
    pub(crate) fn since(&self, earlier: &OwnCounters) -> Changes {
        let grown = |(name, &count): (&Name, &u64)| {
            let before = earlier.tlb.get(name).copied().unwrap_or_default();
            (name.clone(), count - before)
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

impl Changes {
    /// Both together.
    pub(crate) fn add(&mut self, more: &Changes) {
        for (name, count) in &more.tlb {
            *self.tlb.entry(name.clone()).or_default() += count;
        }
        for (name, count) in &more.page_table {
            *self.page_table.entry(name.clone()).or_default() += count;
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
            tlb: [("fills".into(), 3)].into(),
            page_table: json!({ "nodes": 9, "moves": { "all": 1 }, "steps": [[1, 2]], "kind": "x" }),
        };
        let now = OwnCounters {
            tlb: [("fills".into(), 5), ("hits".into(), 2)].into(),
            page_table: json!({ "nodes": 7, "moves": { "all": 4 }, "steps": [[1, 5], [6]], "kind": "y" }),
        };
        let mut changes = now.since(&earlier);
        assert_eq!(
            changes.tlb,
            [("fills".into(), 2), ("hits".into(), 2)].into()
        );
        let named = |counts: [i64; 5]| -> BTreeMap<String, i64> {
            let names = ["nodes", "moves.all", "steps.0.0", "steps.0.1", "steps.1.0"];
            names.map(str::to_owned).into_iter().zip(counts).collect()
        };
        assert_eq!(changes.page_table, named([-2, 3, 0, 3, 6]));
        changes.add(&earlier.since(&OwnCounters::default()));
        assert_eq!(
            changes.tlb,
            [("fills".into(), 5), ("hits".into(), 2)].into()
        );
        assert_eq!(changes.page_table, named([7, 4, 1, 5, 6]));
        let nothing = OwnCounters::default();
        assert_eq!(nothing.since(&nothing), Changes::default());
    }
}
