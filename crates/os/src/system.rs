use crate::accounting::accounted;
use crate::frames::buddy::Buddy;
use crate::frames::frame_table::FrameTable;
use crate::frames::random::SplitMix64;
use crate::grouping::gather;
use crate::khugepaged::Khugepaged;
use crate::manager;
use crate::page_size::{self, PageSizes};
use crate::pages::mapper::Mapper;
use crate::placement::{self, Placer};
use crate::reclaim::Reclaim;
use crate::spaces::address_space::AddressSpace;
use crate::{
    AccountingStatistics, Effects, Grouping, OsConfig, OsConfigError, OsError, OsStatistics,
    PagePolicy, Placement, ReclaimStatistics,
};
use pagelab_addr::{Asid, PAGE_BYTES, PageDirectory, Pfn, Vpn};
use pagelab_events::Control;
use pagelab_translation::{Page, PageTable};

/// The operating system of a simulated machine.
#[derive(Clone, Debug)]
pub struct Os {
    config: OsConfig,
    /// Allocations get their frames when they are made.
    eager: bool,
    pub(crate) frames: FrameTable,
    sizes: PageSizes,
    /// Loads from memory that was never written share a frame.
    zero_page: bool,
    khugepaged: Option<Khugepaged>,
    /// By process number.
    pub(crate) spaces: Vec<Option<AddressSpace>>,
    statistics: OsStatistics,
}

impl Os {
    /// A machine just booted, with some memory in use already as the configuration says. The
    /// same configuration and seed give the same machine.
    ///
    /// # Errors
    /// [`OsConfigError`] when the configuration is not a possible one.
    pub fn new(config: OsConfig, seed: u64) -> Result<Self, OsConfigError> {
        Self::with_placement(config, Placement::Buddy, seed)
    }

    /// The same with another way to place 4 KiB pages.
    ///
    /// # Errors
    /// [`OsConfigError`] when the configuration is not a possible one.
    pub fn with_placement(
        config: OsConfig,
        placement: Placement,
        seed: u64,
    ) -> Result<Self, OsConfigError> {
        config.validate()?;
        let (mut tags, placer) = placement::build(&config, placement, seed)?;
        let nodes = config.node_frames();
        go_together(&config, placement)?;
        if config.grouping == Grouping::Region {
            gather(&mut tags, config.max_order);
        }
        let mut buddy =
            Buddy::with_nodes(tags, &config.zone_frames(), nodes.clone(), config.max_order);
        if !config.free_blocks.is_empty() {
            buddy.shuffle(&mut SplitMix64(seed));
        }
        buddy.group(config.grouping);
        let manager = manager::build(&config.manager, &nodes, &mut buddy)?;
        let mut config = config;
        if manager.is_file_system() && !manager.has_large_pages() {
            config.page_policy = PagePolicy::BASE;
        }
        // Elsewhere pages are placed one by one.
        let keeps_folios = placer.is_none() && config.manager.is_default();
        let folios = keeps_folios.then_some(config.accounting);
        let reclaim = Reclaim::new(&config, placement)?;
        let mut frames = FrameTable::new(buddy, placer, manager, folios, reclaim);
        frames.compaction.defrag = config.defrag;
        Ok(Os {
            frames,
            sizes: page_size::build(config.page_policy),
            spaces: Vec::new(),
            statistics: OsStatistics::default(),
            khugepaged: config.khugepaged.map(Khugepaged::new),
            eager: placement == Placement::Eager,
            zero_page: config.zero_page
                && matches!(
                    placement,
                    Placement::Buddy | Placement::Tiered { .. } | Placement::Segmented { .. }
                ),
            config,
        })
    }

    /// The address space of a process.
    ///
    /// # Errors
    /// [`OsError::TooManyProcesses`] when there can be no such process.
    pub fn asid(process: u32) -> Result<Asid, OsError> {
        let asid = u16::try_from(process).map_err(|_| OsError::TooManyProcesses(process))?;
        Ok(Asid(asid))
    }

    /// The frame table: what each frame is used for, and by which pages.
    pub fn frames(&self) -> &FrameTable {
        &self.frames
    }

    /// The frame table, to be handed to the page table (to place what it keeps for all address
    /// spaces when the machine is built).
    pub fn frames_mut(&mut self) -> &mut FrameTable {
        &mut self.frames
    }

    /// The configuration.
    pub fn config(&self) -> &OsConfig {
        &self.config
    }

    /// Carries a control event of a process out. What it did is added to `effects`.
    ///
    /// # Errors
    /// [`OsError`]; the event is then carried out in part, and page table, frames and reverse map
    /// agree.
    pub fn control<T: PageTable>(
        &mut self,
        table: &mut T,
        directory: &mut PageDirectory,
        process: u32,
        event: &Control,
        effects: &mut Effects,
    ) -> Result<(), OsError> {
        let asid = Self::asid(process)?;
        let done = self.call(table, directory, effects).carry_out(asid, event);
        self.account(effects);
        self.resize_region(table, directory, effects);
        done
    }

    /// Makes a page accessible that is not: mapped, and writable if the access is a `store`. What
    /// it did is added to `effects`. Afterwards the page table has a translation for it.
    ///
    /// # Errors
    /// [`OsError`]; the page is then as it was, and page table, frames and reverse map agree.
    pub fn fault<T: PageTable>(
        &mut self,
        table: &mut T,
        directory: &mut PageDirectory,
        page: Page,
        store: bool,
        effects: &mut Effects,
    ) -> Result<(), OsError> {
        self.statistics.faults += 1;
        let done = self.call(table, directory, effects).fault(page, store);
        self.account(effects);
        self.resize_region(table, directory, effects);
        done
    }

    /// Makes a page accessible from which an instruction is fetched. Where no event has announced
    /// what is there, it is a file's.
    ///
    /// # Errors
    /// As [`Os::fault`].
    pub fn fault_code<T: PageTable>(
        &mut self,
        table: &mut T,
        directory: &mut PageDirectory,
        page: Page,
        effects: &mut Effects,
    ) -> Result<(), OsError> {
        self.statistics.faults += 1;
        let done = self.call(table, directory, effects).fault_code(page);
        self.account(effects);
        self.resize_region(table, directory, effects);
        done
    }

    /// Time until the next tick of the memory manager or of khugepaged, in nanoseconds, if there is any.
    pub fn tick_ns(&self) -> Option<f64> {
        match &self.khugepaged {
            Some(khugepaged) => Some(khugepaged.sleep_ns()),
            None => self.frames.manager().interval_ns(),
        }
    }

    /// True if the work of ticks is done by a thread that has a processor for itself.
    pub fn works_aside(&self) -> bool {
        self.khugepaged.is_some()
    }

    /// True if page walks have to say which pages they found.
    pub fn tells_accesses(&self) -> bool {
        self.frames.manager().interval_ns().is_some() || self.frames.tells_accesses()
    }

    /// True if stores have to be noted.
    #[inline]
    pub fn notes_stores(&self) -> bool {
        self.frames.notes_stores()
    }

    /// Notes that a page is stored to, before it is.
    #[inline]
    pub fn note_store(&mut self, asid: Asid, vpn: Vpn) {
        self.frames.note_store(asid, vpn);
    }

    /// Sets the accessed bit of the page in a frame, as a page walk does.
    #[inline]
    pub fn access(&mut self, pfn: Pfn) {
        self.frames.accessed(pfn);
    }

    /// Moves the page around this one into its set of a restrictive segment, if that can be. What it
    /// did is added to `effects`.
    pub fn move_in<T: PageTable>(
        &mut self,
        table: &mut T,
        directory: &mut PageDirectory,
        page: Page,
        effects: &mut Effects,
    ) {
        self.call(table, directory, effects).mapper.move_in(page);
    }

    /// Lets the memory manager or khugepaged do what it does every [`Os::tick_ns`]. What that was is added to
    /// `effects`.
    ///
    /// # Errors
    /// [`OsError`] when the page table has no place for a page; everything agrees all the same.
    pub fn tick<T: PageTable>(
        &mut self,
        table: &mut T,
        directory: &mut PageDirectory,
        effects: &mut Effects,
    ) -> Result<(), OsError> {
        let Some(mut khugepaged) = self.khugepaged else {
            self.call(table, directory, effects).mapper.tick();
            return Ok(());
        };
        let done = (self.call(table, directory, effects)).khugepaged_scan(&mut khugepaged);
        self.khugepaged = Some(khugepaged);
        self.account(effects);
        done
    }

    /// Counts so far, and the state of memory.
    pub fn statistics<T: PageTable>(&self, table: &T) -> OsStatistics {
        let bytes = |frames: u32| u64::from(frames) * PAGE_BYTES;
        let buddy = self.frames.buddy();
        OsStatistics {
            resident_bytes: self.resident_bytes(),
            peak_resident_bytes: bytes(self.frames.peak_data_frames()),
            partly_mapped_bytes: bytes(self.frames.folios.unmapped_frames()),
            partly_mapped: self.frames.folios.deferred(),
            table_bytes: table.table_bytes(),
            peak_table_bytes: bytes(self.frames.peak_table_frames()),
            preallocated_bytes: bytes(self.frames.preallocated_frames()),
            memory_bytes: self.config.memory_bytes,
            free_blocks: buddy.free_blocks(),
            free_2m_blocks: buddy.free_pageblocks(),
            unusable_free_space_index: buddy.unusable_free_space_index(),
            grouping: buddy.grouping(),
            hashed: self.frames.placer().and_then(Placer::hashed),
            segments: self.frames.placer().and_then(Placer::segments),
            pieces: self.frames.manager().pieces().to_vec(),
            placed: self.frames.manager().placed().to_vec(),
            tiers: self.frames.manager().tiers(),
            reclaim: self.reclaim_statistics(),
            accounting: self.accounting_statistics(),
            ..self.statistics.clone()
        }
    }

    /// None where pages are placed one by one, and of reservations, which Linux has not.
    fn accounting_statistics(&self) -> Option<AccountingStatistics> {
        if !self.frames.keeps_folios || self.sizes.reserves() {
            return None;
        }
        accounted::statistics(&self.statistics, self.config.accounting)
    }

    fn reclaim_statistics(&self) -> Option<ReclaimStatistics> {
        let config = self.config.reclaim?;
        let counts = self.statistics.reclaim.unwrap_or_default();
        let aside = counts.kswapd.map_or(0, |kswapd| kswapd.written);
        let written = counts.swapped_out + counts.files_written - aside;
        let microseconds = (counts.swapped_in + counts.files_read) as f64 * config.read_us
            + written as f64 * config.write_us;
        Some(ReclaimStatistics {
            in_swap: self.frames.swapped_pages(),
            device_ns: (microseconds * 1e3) as u64,
            ..counts
        })
    }

    /// Bytes of the programs' data in memory.
    pub fn resident_bytes(&self) -> u64 {
        u64::from(self.frames.data_frames()) * PAGE_BYTES
    }

    /// Books what the page table did besides what it was asked to do.
    #[inline]
    fn account(&mut self, effects: &mut Effects) {
        if !effects.work.displaced.is_empty() {
            let before = effects.pages_migrated;
            effects.note_displaced();
            self.statistics.pages_migrated += effects.pages_migrated - before;
        }
    }

    /// Has the region for pages that cannot be moved grow or shrink, where there is one.
    #[inline]
    fn resize_region<T: PageTable>(
        &mut self,
        table: &mut T,
        directory: &mut PageDirectory,
        effects: &mut Effects,
    ) {
        if self.config.grouping == Grouping::Region {
            self.call(table, directory, effects).mapper.resize_region();
        }
    }

    #[inline]
    fn call<'a, T: PageTable>(
        &'a mut self,
        table: &'a mut T,
        directory: &'a mut PageDirectory,
        effects: &'a mut Effects,
    ) -> Call<'a, T> {
        Call {
            config: &self.config,
            eager: self.eager,
            zero_page: self.zero_page,
            spaces: &mut self.spaces,
            mapper: Mapper {
                frames: &mut self.frames,
                sizes: &mut self.sizes,
                statistics: &mut self.statistics,
                table,
                directory,
                effects,
            },
        }
    }
}

/// Threads of the kernel that work beside programs, each on a processor of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelThread {
    /// Takes pages where free memory is low.
    Kswapd,
    /// Moves pages together where a block of 2 MiB is wanted.
    Kcompactd,
}

impl KernelThread {
    /// All of them.
    pub const ALL: [KernelThread; 2] = [KernelThread::Kswapd, KernelThread::Kcompactd];
}

impl Os {
    /// True if there are such threads.
    #[inline]
    pub fn has_threads(&self) -> bool {
        self.frames.has_kswapd() || self.frames.compaction.defrag.defers()
    }

    /// Wakes a thread, if it sleeps and has something to do. Whether it woke.
    pub fn wake(&mut self, thread: KernelThread) -> bool {
        let wakes = match thread {
            KernelThread::Kswapd => self.frames.wake_kswapd(),
            KernelThread::Kcompactd => self.frames.wake_kcompactd(),
        };
        if wakes {
            let (reclaim, compaction) = (
                &mut self.statistics.reclaim,
                &mut self.statistics.compaction,
            );
            let count = match thread {
                KernelThread::Kswapd => {
                    let counts = reclaim.get_or_insert_default();
                    &mut counts.kswapd.get_or_insert_default().wakes
                }
                KernelThread::Kcompactd => {
                    let counts = compaction.get_or_insert_default();
                    &mut counts.kcompactd.get_or_insert_default().wakes
                }
            };
            *count += 1;
        }
        wakes
    }

    /// True if a thread has something to do.
    pub fn is_awake(&self, thread: KernelThread) -> bool {
        match thread {
            KernelThread::Kswapd => self.frames.kswapd_is_awake(),
            KernelThread::Kcompactd => self.frames.kcompactd_is_awake(),
        }
    }

    /// Lets a thread do some of its work. What that was is added to `effects`.
    pub fn work<T: PageTable>(
        &mut self,
        thread: KernelThread,
        table: &mut T,
        directory: &mut PageDirectory,
        effects: &mut Effects,
    ) {
        let mut call = self.call(table, directory, effects);
        match thread {
            KernelThread::Kswapd => call.mapper.kswapd(),
            KernelThread::Kcompactd => call.mapper.kcompactd(),
        }
        self.account(effects);
    }
}

/// Refuses a manager and folios where pages are placed in other ways.
fn go_together(config: &OsConfig, placement: Placement) -> Result<(), OsConfigError> {
    if placement != Placement::Buddy && !config.manager.is_default() {
        return Err(OsConfigError {
            key: "manager",
            reason: "the design has pages placed in ways of its own; only linux goes with it"
                .to_owned(),
        });
    }
    let anywhere = matches!(placement, Placement::Buddy | Placement::Eager);
    if config.grouping == Grouping::Region && !(anywhere && config.nodes.is_empty()) {
        return Err(OsConfigError {
            key: "grouping",
            reason: "region goes with one node, and pages that may lie anywhere".to_owned(),
        });
    }
    if config.page_policy.is_of_folios() && (!anywhere || !config.manager.takes_folios()) {
        return Err(OsConfigError {
            key: "page_policy",
            reason: format!(
                "{} goes with neither hashed frames (mosaic, revelator), restrictive segments (utopia) nor a manager other than linux",
                config.page_policy
            ),
        });
    }
    Ok(())
}

/// An event or a fault that is being carried out, and all that it needs.
pub(crate) struct Call<'a, T> {
    pub(crate) config: &'a OsConfig,
    pub(crate) eager: bool,
    pub(crate) zero_page: bool,
    pub(crate) spaces: &'a mut Vec<Option<AddressSpace>>,
    pub(crate) mapper: Mapper<'a, T>,
}

impl<T> Call<'_, T> {
    /// The address space of a process, a new one if it has none.
    #[inline]
    pub(crate) fn space(&mut self, asid: Asid) -> &mut AddressSpace {
        let number = usize::from(asid.0);
        if self.spaces.len() <= number {
            self.spaces.resize(number + 1, None);
        }
        self.spaces[number].get_or_insert_default()
    }
}
