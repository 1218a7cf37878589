//! Every design, a line each, with what a page table or a TLB is described by. Its keys and what it
//! counts are in the folder of what a line names; of a design around both, its description, too.

/// Gives a macro every design.
///
/// - `page_tables`: `NAME: TABLE, KEYS = DESCRIPTION`, each with every TLB.
/// - `tlbs`: the same, of which the conventional one has no keys of its own.
/// - `around`: `FOLDER: KEYS`, what is built around the conventional TLB and some page tables, which
///   the folder's `DESIGN` names (`mmu/FOLDER/mod.rs`).
///
/// The name is that of the design, and of its keys in a machine's description.
macro_rules! registered {
    ($then:ident) => {
        $then! {
            page_tables {
                radix: Radix, RadixConfig = "the radix tree of x86-64 with a split page-walk cache (4 or 5 levels)";
                flattened: Flattened, FlattenedConfig = "the radix tree with two levels a node of 2 MiB";
                clustered: Clustered, ClusteredConfig = "a hashed table, eight entries a line, open addressing";
                ecpt: Ecpt, EcptConfig = "elastic cuckoo page tables: hashed tables of several ways, read at once";
                me_hpt: MeHpt, MeHptConfig = "memory-efficient hashed page tables: the same in small chunks";
                dpt: Dpt, DptConfig = "the distributed page table: physical memory as one hashed table";
            }
            tlbs {
                conventional: ConventionalTlb = "a two-level TLB as processors have it";
                mosaic: MosaicTlb, MosaicConfig = "TLB entries for 4 to 64 neighbouring pages with hashed frames";
                range: RangeTlb, RangeConfig = "a range TLB over redundant memory mappings, placed eagerly";
            }
            around {
                victima: VictimaConfig;
                revelator: RevelatorConfig;
                pom_tlb: PomTlbConfig;
            }
        }
    };
}
pub(crate) use registered;
