//! The parameters of what lies behind a core's loads, stores and fetches: caches, translation,
//! prefetchers and memory. Whole programs only: in a single block every access hits.
//!
//! Latencies are cycles of the core from the start of a load that finds its data there to its
//! use, as pointer chases measure them, so they contain those of the levels before. A figure of
//! memory holds for the clock that the CPU's file names.

use serde::{Deserialize, Serialize};

use super::params::check::MAX_DELAY;
use super::params::is_default;

/// Bytes of a line, of all CPUs that are modelled.
pub const LINE_BYTES: u64 = 64;

/// Most ways of a cache or a buffer of translations.
pub const MAX_WAYS: u32 = 128;

/// What a full set gives up for a new line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Replacement {
    /// The line that was used longest ago.
    #[default]
    Lru,
    /// The first line that was not used since all others were ("bit PLRU"; Abel & Reineke,
    /// "nanoBench", ISPASS 2020, section VI, call it MRU).
    NotRecent,
    /// The first line of the greatest of four ages: one that comes in is of age 1, one that is used of age 0, and where none is of
    /// age 3 all others grow older until one is (QLRU_H00_M1_R0_U1 there).
    Qlru,
    /// Any line: of more lines in turn than there is room for, some stay. It stands for a level that others share, too, whose
    /// lines come in between at times that have nothing to do with the program's.
    Any,
}

/// Size and shape of a first-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FirstLevel {
    /// Capacity in KiB.
    pub kib: u32,
    /// Ways.
    pub ways: u32,
    /// What it gives up.
    #[serde(default)]
    pub replacement: Replacement,
}

/// A cache behind the first level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// Capacity in KiB.
    pub kib: u32,
    /// Ways.
    pub ways: u32,
    /// What it gives up.
    #[serde(default)]
    pub replacement: Replacement,
    /// Cycles from a load that finds its data here to its use.
    pub latency: u64,
    /// So many of them, while the core has the clock [`Caches::clock_mhz`], pass at a clock of its own; 0: the level has the core's
    /// clock.
    #[serde(default, skip_serializing_if = "is_default")]
    pub own_clock_cycles: u64,
    /// Bytes a cycle that one core gets out of it.
    pub bytes_per_cycle: f64,
    /// Bytes a cycle of lines that the level before gives back because they were written, in which none come out of it; none: they take
    /// no time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_bytes_per_cycle: Option<f64>,
    /// Bits of a line's place in its page that are folded with bits of the frame's number into the number of the
    /// set: lines at one place of all pages have so many powers of two more sets.
    #[serde(default, skip_serializing_if = "is_default")]
    pub folded_bits: u32,
    /// It is filled with what the level before gives up, not with what passes on the way in.
    #[serde(default)]
    pub victim: bool,
}

/// Where the kernel's page cache is: whether files' pages stay in the last cache from one run of a
/// program to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PageCache {
    /// In the last cache, which holds more than a run uses.
    #[default]
    LastLevel,
    /// In memory: others, or the run itself, have pushed it out.
    Memory,
}

/// What a load takes that comes to a line on its way into the first-level data cache, where it asks the second level itself and
/// does not wait for what is coming.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnItsWay {
    /// From so many cycles before the line is there for who asked first; who comes sooner waits for the same.
    pub before: u64,
    /// Until so many cycles behind that, when the line is in the cache.
    pub behind: u64,
    /// Cycles beyond a load that hits.
    pub late: u64,
}

/// Caches.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Caches {
    /// First-level data cache; its latency is `execute.load_latency` and the tables'.
    pub l1d: FirstLevel,
    /// First-level instruction cache.
    pub l1i: FirstLevel,
    /// Second level, for data and instructions.
    pub l2: Level,
    /// Third level, shared by the cores.
    #[serde(default)]
    pub l3: Option<Level>,
    /// Lines that may be on their way into the first-level data cache.
    pub fill_buffers: u32,
    /// Lines that may be on their way into the second level.
    pub l2_fill_buffers: u32,
    /// Loads of lines on their way into the first-level data cache; none: they have their data as soon as the line is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_its_way: Option<OnItsWay>,
    /// A line that comes into the first-level data cache takes a cycle in which no store is written there.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fills_hold_up_stores: bool,
    /// A line that comes into the first-level data cache takes a cycle of all load ports.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fills_hold_up_loads: bool,
    /// A store that is written while no other was in the cycle before is written alone, though the next one goes to the same line and has retired.
    #[serde(default, skip_serializing_if = "is_default")]
    pub first_store_alone: bool,
    /// Stores between issue and the cache, where `execute.store_buffer` does not say.
    pub store_buffer: u32,
    /// Where a program finds a page of a file that it touches first.
    #[serde(default)]
    pub page_cache: PageCache,
    /// The core's clock at which cycles of memory, and of a level with a clock of its own, are given: these take their time, whatever the
    /// core's clock is. None where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_mhz: Option<u32>,
    /// Every data access hits the first level (ablation).
    #[serde(default, skip_serializing_if = "is_default")]
    pub perfect_l1d: bool,
    /// Every fetch hits the first level (ablation).
    #[serde(default, skip_serializing_if = "is_default")]
    pub perfect_l1i: bool,
    /// What misses the first level hits the second (ablation).
    #[serde(default, skip_serializing_if = "is_default")]
    pub perfect_l2: bool,
}

/// Memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dram {
    /// Cycles from a load that finds its data nowhere else to its use.
    pub latency: u64,
    /// Bytes a cycle that one core gets, reads and writes together.
    pub bytes_per_cycle: f64,
}

/// A buffer of translations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlbLevel {
    /// Entries.
    pub entries: u32,
    /// Ways.
    pub ways: u32,
    /// What it gives up.
    #[serde(default)]
    pub replacement: Replacement,
    /// Cycles that an access found here takes longer; 0 in the first level.
    #[serde(default)]
    pub latency: u64,
}

/// Translation of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tlbs {
    /// First level for data.
    pub l1d: TlbLevel,
    /// First level for instructions.
    pub l1i: TlbLevel,
    /// Second level.
    pub l2: TlbLevel,
    /// Second level for instructions, where they have one of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l2i: Option<TlbLevel>,
    /// Cycles of a page walk besides its access to the last table.
    pub walk: u64,
    /// Walks at once.
    pub walkers: u32,
    /// Entries of the cache of page directories, each for 2 MiB.
    pub directories: u32,
    /// Cycles from an access that faults until the first instruction issues again, without those
    /// of the kernel.
    #[serde(default)]
    pub fault: u64,
    /// Lines of code that the kernel goes through to handle a fault: they are in the first level
    /// afterwards, in the place of the program's.
    #[serde(default)]
    pub fault_code_lines: u32,
    /// Lines of data that it reads and writes, likewise.
    #[serde(default)]
    pub fault_data_lines: u32,
    /// The same of code for a system call that reads or writes memory or changes mappings.
    #[serde(default)]
    pub call_code_lines: u32,
    /// And of data.
    #[serde(default)]
    pub call_data_lines: u32,
}

/// Strides told by the load's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StridePrefetch {
    /// Loads that are watched.
    pub entries: u32,
    /// Longest stride in bytes.
    pub most_bytes: u32,
    /// Strides ahead of the load.
    pub ahead: u32,
    /// Only a load that misses the first level is taken to be watched, in place of the one whose use is
    /// longest ago; otherwise each load is, in a place that its address says.
    #[serde(default)]
    pub misses_only: bool,
}

/// Streams told by the lines of a page that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamPrefetch {
    /// Pages that are watched.
    pub pages: u32,
    /// Lines ahead of the last one asked for.
    pub ahead: u32,
    /// Lines asked for at a time.
    pub degree: u32,
    /// It goes on in the next page.
    #[serde(default)]
    pub crosses_pages: bool,
    /// Lines of code that are asked for are not seen.
    #[serde(default)]
    pub data_only: bool,
}

/// Lines around the first one of a region, told by the load that begins it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegionPrefetch {
    /// Places for what loads are followed by.
    pub loads: u32,
    /// Regions that are watched at once.
    pub watched: u32,
    /// Lines below the first one that are learnt.
    pub below: u32,
    /// Lines above it.
    pub above: u32,
    /// An access no more lines away from a region's first one begins none.
    pub near: u32,
    /// Cycles from the access until its lines are asked for.
    pub delay: u64,
    /// They come into the second level, not the first.
    #[serde(default)]
    pub second_level: bool,
}

/// Prefetchers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prefetch {
    /// A load that goes up through a line that has just come asks for the next one, into the
    /// first level.
    #[serde(default)]
    pub next_line: bool,
    /// Into the first level.
    #[serde(default)]
    pub stride: Option<StridePrefetch>,
    /// Of loads that miss the first level.
    #[serde(default)]
    pub region: Option<RegionPrefetch>,
    /// Into the first level, of lines that miss it.
    #[serde(default)]
    pub l1_stream: Option<StreamPrefetch>,
    /// Into the second level, of lines that miss the first.
    #[serde(default)]
    pub stream: Option<StreamPrefetch>,
    /// A line that misses the second level brings the other one of its 128 bytes.
    #[serde(default)]
    pub adjacent_line: bool,
}

impl Caches {
    /// Checks what the types cannot say.
    ///
    /// # Errors
    /// A text that names the parameter and its bound.
    pub fn check(&self) -> Result<(), String> {
        let mut shapes = vec![
            ("cache.l1d", self.l1d.kib, self.l1d.ways),
            ("cache.l1i", self.l1i.kib, self.l1i.ways),
            ("cache.l2", self.l2.kib, self.l2.ways),
        ];
        let mut levels = vec![("cache.l2", &self.l2)];
        if let Some(l3) = &self.l3 {
            shapes.push(("cache.l3", l3.kib, l3.ways));
            levels.push(("cache.l3", l3));
        }
        for (name, kib, ways) in shapes {
            within(&format!("{name}.kib"), kib, 1, 1 << 21)?;
            within(&format!("{name}.ways"), ways, 1, MAX_WAYS)?;
            if !(kib * 1024 / LINE_BYTES as u32).is_multiple_of(ways) {
                return Err(format!("{name}: {kib} KiB cannot have {ways} ways"));
            }
        }
        let mut before = 0;
        for (name, level) in levels {
            if level.latency <= before || level.latency > 4096 {
                return Err(format!(
                    "{name}.latency = {} is not in {}..=4096",
                    level.latency,
                    before + 1
                ));
            }
            let least = before.max(self.l2.latency);
            if level.own_clock_cycles >= level.latency.saturating_sub(least).max(1) {
                return Err(format!(
                    "{name}.own_clock_cycles = {} is more than the {} cycles that it is behind the second level",
                    level.own_clock_cycles,
                    level.latency.saturating_sub(least)
                ));
            }
            if level.own_clock_cycles > 0 && self.clock_mhz.is_none() {
                return Err(format!("{name}.own_clock_cycles without cache.clock_mhz"));
            }
            before = level.latency;
            rate(&format!("{name}.bytes_per_cycle"), level.bytes_per_cycle)?;
            within(&format!("{name}.folded_bits"), level.folded_bits, 0, 6)?;
            if let Some(written) = level.written_bytes_per_cycle {
                rate(&format!("{name}.written_bytes_per_cycle"), written)?;
            }
        }
        if let Some(mhz) = self.clock_mhz {
            within("cache.clock_mhz", mhz, 100, 10_000)?;
        }
        within("cache.fill_buffers", self.fill_buffers, 1, 256)?;
        within("cache.l2_fill_buffers", self.l2_fill_buffers, 1, 256)?;
        if let Some(p) = self.on_its_way {
            delay("cache.on_its_way.late", p.late, MAX_DELAY)?;
            // None waits less than if it waited for the line.
            delay("cache.on_its_way.before", p.before, p.late)?;
            delay("cache.on_its_way.behind", p.behind, MAX_DELAY)?;
        }
        within("cache.store_buffer", self.store_buffer, 1, 512)
    }

    /// Latency of the last cache before memory.
    #[must_use]
    pub fn last_latency(&self) -> u64 {
        self.l3.map_or(self.l2.latency, |l3| l3.latency)
    }
}

impl Dram {
    /// Checks it behind `caches`.
    ///
    /// # Errors
    /// As [`Caches::check`].
    pub fn check(&self, caches: &Caches) -> Result<(), String> {
        let least = caches.last_latency() + 1;
        if self.latency < least || self.latency > 8192 {
            return Err(format!(
                "dram.latency = {} is not in {least}..=8192",
                self.latency
            ));
        }
        rate("dram.bytes_per_cycle", self.bytes_per_cycle)
    }
}

impl Tlbs {
    /// Checks it.
    ///
    /// # Errors
    /// As [`Caches::check`].
    pub fn check(&self) -> Result<(), String> {
        let own = self.l2i.iter().map(|level| ("tlb.l2i", level));
        let levels = [
            ("tlb.l1d", &self.l1d),
            ("tlb.l1i", &self.l1i),
            ("tlb.l2", &self.l2),
        ];
        for (name, level) in levels.into_iter().chain(own) {
            within(&format!("{name}.entries"), level.entries, 1, 1 << 16)?;
            within(&format!("{name}.ways"), level.ways, 1, MAX_WAYS)?;
            if !level.entries.is_multiple_of(level.ways) {
                return Err(format!(
                    "{name}: {} entries cannot have {} ways",
                    level.entries, level.ways
                ));
            }
            delay(&format!("{name}.latency"), level.latency, 4096)?;
        }
        delay("tlb.walk", self.walk, 4096)?;
        delay("tlb.fault", self.fault, 1 << 20)?;
        within("tlb.walkers", self.walkers, 1, 64)?;
        within("tlb.fault_code_lines", self.fault_code_lines, 0, 4096)?;
        within("tlb.fault_data_lines", self.fault_data_lines, 0, 4096)?;
        within("tlb.call_code_lines", self.call_code_lines, 0, 4096)?;
        within("tlb.call_data_lines", self.call_data_lines, 0, 4096)?;
        within("tlb.directories", self.directories, 1, 4096)
    }
}

impl Prefetch {
    /// Checks it.
    ///
    /// # Errors
    /// As [`Caches::check`].
    pub fn check(&self) -> Result<(), String> {
        if let Some(s) = &self.stride {
            within("prefetch.stride.entries", s.entries, 1, 4096)?;
            within("prefetch.stride.most_bytes", s.most_bytes, 1, 4096)?;
            within("prefetch.stride.ahead", s.ahead, 1, 64)?;
        }
        if let Some(r) = &self.region {
            within("prefetch.region.loads", r.loads, 1, 1 << 16)?;
            within("prefetch.region.watched", r.watched, 1, 256)?;
            within("prefetch.region.below", r.below, 0, 15)?;
            within("prefetch.region.above", r.above, 0, 16)?;
            within("prefetch.region.near", r.near, r.below.max(r.above), 64)?;
            delay("prefetch.region.delay", r.delay, MAX_DELAY)?;
        }
        for (name, stream) in [
            ("prefetch.l1_stream", &self.l1_stream),
            ("prefetch.stream", &self.stream),
        ] {
            if let Some(s) = stream {
                within(&format!("{name}.pages"), s.pages, 1, 256)?;
                within(&format!("{name}.ahead"), s.ahead, 1, 64)?;
                within(&format!("{name}.degree"), s.degree, 1, 16)?;
            }
        }
        Ok(())
    }
}

fn within(name: &str, value: u32, least: u32, most: u32) -> Result<(), String> {
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        Err(format!("{name} = {value} is not in {least}..={most}"))
    }
}

fn delay(name: &str, value: u64, most: u64) -> Result<(), String> {
    if value <= most {
        Ok(())
    } else {
        Err(format!("{name} = {value} is not in 0..={most}"))
    }
}

fn rate(name: &str, value: f64) -> Result<(), String> {
    if (0.1..=512.0).contains(&value) {
        Ok(())
    } else {
        Err(format!("{name} = {value} is not in 0.1..=512"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_that_cannot_be_are_refused_by_name() {
        let model = crate::machine::cpu("skl").unwrap();
        let good = model.core.cache.unwrap();
        assert_eq!(good.check(), Ok(()));
        type Change = fn(&mut Caches);
        let wrong: [(&str, Change); 5] = [
            ("cache.l1d", |c| c.l1d.ways = 7),
            ("cache.l2.latency", |c| c.l2.latency = 0),
            ("cache.fill_buffers", |c| c.fill_buffers = 0),
            ("cache.l2.bytes_per_cycle", |c| c.l2.bytes_per_cycle = 0.0),
            ("cache.on_its_way.before", |c| {
                c.on_its_way = Some(OnItsWay {
                    before: 9,
                    behind: 0,
                    late: 8,
                });
            }),
        ];
        for (name, change) in wrong {
            let mut caches = good;
            change(&mut caches);
            let error = caches.check().unwrap_err();
            assert!(error.contains(name), "{error}");
        }
        let near = Dram {
            latency: 3,
            bytes_per_cycle: 8.0,
        };
        assert!(near.check(&good).unwrap_err().contains("dram.latency"));
    }
}
