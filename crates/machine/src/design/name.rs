/// A name on the command line, and one line about what it stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
}

/// Name of a design, and the keys that are its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DesignName {
    pub(crate) page_table: Named,
    /// The TLB, or what is around the conventional one.
    pub(crate) tlb: Named,
    /// The tables of a machine's keys that are the page table's.
    pub(crate) tables: &'static [&'static str],
    /// Its TLB is the one that a page table has when none is named.
    pub(crate) alone: bool,
}

impl DesignName {
    /// The tables of a machine's keys that are its own, the page table's first.
    pub(crate) fn tables(self) -> Vec<&'static str> {
        let tlb = (!self.alone).then_some(self.tlb.name);
        self.tables.iter().copied().chain(tlb).collect()
    }

    /// Its name on the command line.
    pub(crate) fn name(self) -> String {
        let Named { name, .. } = self.page_table;
        if self.alone {
            name.to_owned()
        } else {
            format!("{name}+{}", self.tlb.name)
        }
    }

    /// One line about it.
    pub(crate) fn description(self) -> String {
        let Named { name, description } = self.page_table;
        if self.alone {
            description.to_owned()
        } else {
            format!("{name} with {}", self.tlb.description)
        }
    }
}
