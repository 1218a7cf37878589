//! The designs: every page table with every TLB that makes sense with it, each pair compiled for
//! itself. A page table or a TLB is one line here.

use crate::config::{MachineConfig, suggestion};
use crate::machine::BuildError;
use crate::result::RunResult;
use crate::simulate::{Drive, SimulateError, run};
use pagelab_translation::{
    Clustered, ConventionalTlb, Dpt, Ecpt, Flattened, Ideal, MeHpt, PageTable, PerfectTlb, Radix,
    Tlb,
};
use serde_json::Value;

/// A page table that a configuration describes.
pub(crate) trait ConfiguredTable: PageTable + Sized {
    fn build(config: &MachineConfig) -> Result<Self, BuildError>;

    /// The design's own counters.
    fn statistics(&self) -> serde_json::Result<Value>;
}

/// A TLB that a configuration describes.
pub(crate) trait ConfiguredTlb: Tlb + Sized {
    fn build(config: &MachineConfig) -> Result<Self, BuildError>;
}

pub(crate) type Run = fn(&MachineConfig, &mut Drive) -> Result<RunResult, BuildError>;

/// A name on the command line, and one line about what it stands for.
#[derive(Clone, Copy, Debug)]
struct Named {
    name: &'static str,
    description: &'static str,
}

#[derive(Debug)]
struct PageTableDesign {
    named: Named,
    /// With each of `TLBS`, the conventional one first; without the others where translation is
    /// free.
    runs: &'static [Run],
}

/// `NAME: TYPE = DESCRIPTION`: the name is also that of the page table's part of the
/// configuration.
macro_rules! page_tables {
    ($($name:ident: $table:ty = $description:literal;)*) => {
        $(impl ConfiguredTable for $table {
            fn build(config: &MachineConfig) -> Result<Self, BuildError> {
                Ok(<$table>::new(&config.$name, config.cores as usize)?)
            }

            fn statistics(&self) -> serde_json::Result<Value> {
                serde_json::to_value(self.counters())
            }
        })*

        const PAGE_TABLES: &[PageTableDesign] = &[
            $(PageTableDesign {
                named: Named { name: stringify!($name), description: $description },
                runs: &with_each_tlb::<$table>(),
            },)*
            IDEAL,
        ];
    };
}

/// `NAME: TYPE = DESCRIPTION`.
macro_rules! tlbs {
    ($($name:ident: $tlb:ty = $description:literal;)*) => {
        const TLBS: &[Named] = &[
            $(Named { name: stringify!($name), description: $description }),*
        ];

        const fn with_each_tlb<P: ConfiguredTable>() -> [Run; TLBS.len()] {
            [$(run::<P, $tlb>),*]
        }
    };
}

page_tables! {
    radix: Radix = "the radix tree of x86-64 with a split page-walk cache (4 or 5 levels)";
    flattened: Flattened = "the radix tree with two levels a node of 2 MiB";
    clustered: Clustered = "a hashed table, eight entries a line, open addressing";
    ecpt: Ecpt = "elastic cuckoo page tables: hashed tables of several ways, read at once";
    me_hpt: MeHpt = "memory-efficient hashed page tables: the same in small chunks";
    dpt: Dpt = "the distributed page table: physical memory as one hashed table";
}

tlbs! {
    conventional: ConventionalTlb = "a two-level TLB as processors have it";
}

impl ConfiguredTlb for ConventionalTlb {
    fn build(config: &MachineConfig) -> Result<Self, BuildError> {
        Ok(ConventionalTlb::new(&config.tlb)?)
    }
}

const IDEAL: PageTableDesign = PageTableDesign {
    named: Named {
        name: "ideal",
        description: "every translation free: the bound that no design can pass",
    },
    runs: &[run::<Ideal, PerfectTlb>],
};

impl ConfiguredTable for Ideal {
    fn build(_: &MachineConfig) -> Result<Self, BuildError> {
        Ok(Ideal::new())
    }

    fn statistics(&self) -> serde_json::Result<Value> {
        Ok(Value::Null)
    }
}

impl ConfiguredTlb for PerfectTlb {
    fn build(_: &MachineConfig) -> Result<Self, BuildError> {
        Ok(PerfectTlb)
    }
}

/// A design that can be simulated: a page table and a TLB.
#[derive(Clone, Copy, Debug)]
pub struct Design {
    page_table: &'static PageTableDesign,
    tlb: &'static Named,
    pub(crate) run: Run,
}

impl Design {
    /// Every design, a page table's alone before those with other TLBs.
    pub fn all() -> impl Iterator<Item = Design> {
        let of_table = |page_table: &'static PageTableDesign| {
            let runs = page_table.runs.iter().zip(TLBS);
            runs.map(move |(&run, tlb)| Design {
                page_table,
                tlb,
                run,
            })
        };
        PAGE_TABLES.iter().flat_map(of_table)
    }

    /// The design of a name: `PAGETABLE`, which has the conventional TLB, or `PAGETABLE+TLB`.
    ///
    /// # Errors
    /// [`SimulateError::UnknownDesign`].
    pub fn find(name: &str) -> Result<Design, SimulateError> {
        Design::all().find(|d| d.name() == name).ok_or_else(|| {
            let names: Vec<String> = Design::all().map(Design::name).collect();
            SimulateError::UnknownDesign {
                name: name.to_owned(),
                hint: suggestion(name, names.iter().map(String::as_str)),
                known: names,
            }
        })
    }

    /// Its name on the command line.
    pub fn name(self) -> String {
        let Named { name, .. } = self.page_table.named;
        if self.is_page_table_alone() {
            name.to_owned()
        } else {
            format!("{name}+{}", self.tlb.name)
        }
    }

    /// One line about it.
    pub fn description(self) -> String {
        let Named { description, .. } = self.page_table.named;
        if self.is_page_table_alone() {
            description.to_owned()
        } else {
            format!(
                "{} with {}",
                self.page_table.named.name, self.tlb.description
            )
        }
    }

    /// Whether its TLB is the one that a page table has when none is named.
    fn is_page_table_alone(self) -> bool {
        self.tlb.name == TLBS[0].name
    }
}
