//! What a program's surroundings leave it: how much of the third level of cache, and how many cycles memory takes.
//!
//! Other cores share the third level, and of a virtual machine other guests: what is left changes with them, and with it the
//! cycles of all programs whose data fits some shares and not others. Memory takes its time, so many nanoseconds, and the core's
//! clock moves with what its neighbours do: cycles that wait for memory are as many more as that is quicker. So both belong to a measurement
//! as much as the CPU does.

use std::sync::Arc;

use super::CpuModel;
use super::hierarchy::MAX_WAYS;
use super::params::Core;

/// `model` with so many KiB of its third level, in whole ways, at least one; its full name says so.
///
/// # Errors
/// When the model has no third level of cache.
pub fn with_last_level(model: &CpuModel, kib: u32) -> Result<Arc<CpuModel>, String> {
    let mut core = model.core.clone();
    let level = core.cache.as_mut().and_then(|cache| cache.l3.as_mut());
    let level = level.ok_or_else(|| format!("{} has no third level of cache", model.full_name))?;
    let way = (level.kib / level.ways.max(1)).max(1);
    level.ways = ((kib + way / 2) / way).clamp(1, MAX_WAYS);
    level.kib = level.ways * way;
    let what = format!("{} KiB of the third level", level.kib);
    Ok(changed(model, core, &what))
}

/// `model` with the core at so many MHz; its full name says so. Memory, and a third level with a clock of its own, take as many nanoseconds
/// as before: on a Granite Rapids a load from memory took 169 to 170 of them at 3.48 and at 3.59 GHz, one from the third level 146.8, 149.3, 151.2 and
/// 157.9 cycles at 3.48, 3.59, 3.74 and 3.95 GHz, and one from the second level 20 cycles at 3.54 to 4.06.
///
/// # Errors
/// When the model does not say at which clock its cycles of memory are.
pub fn with_clock(model: &CpuModel, mhz: u32) -> Result<Arc<CpuModel>, String> {
    let mut core = model.core.clone();
    let known = |what| format!("{} does not say {what}", model.full_name);
    let caches = core
        .cache
        .as_mut()
        .ok_or_else(|| known("how its caches are"))?;
    let at = caches
        .clock_mhz
        .ok_or_else(|| known("at which clock its memory takes the cycles that it says"))?;
    let ratio = f64::from(mhz) / f64::from(at);
    let more = |cycles: u64| (cycles as f64 * (ratio - 1.0)).round() as i64;
    let mut at_cores_clock = caches.l2.latency;
    if let Some(l3) = &mut caches.l3 {
        at_cores_clock = l3.latency - l3.own_clock_cycles.min(l3.latency);
        if l3.own_clock_cycles > 0 {
            l3.latency = l3.latency.saturating_add_signed(more(l3.own_clock_cycles));
            l3.own_clock_cycles = l3
                .own_clock_cycles
                .saturating_add_signed(more(l3.own_clock_cycles));
            l3.bytes_per_cycle /= ratio;
        }
    }
    if let Some(dram) = &mut core.dram {
        let its_own = dram.latency - at_cores_clock.min(dram.latency);
        dram.latency = dram.latency.saturating_add_signed(more(its_own));
        dram.bytes_per_cycle /= ratio;
    }
    caches.clock_mhz = Some(mhz);
    Ok(changed(model, core, &format!("{mhz} MHz")))
}

/// `model` with another core, and what is changed in its full name.
fn changed(model: &CpuModel, core: Core, what: &str) -> Arc<CpuModel> {
    Arc::new(CpuModel {
        name: model.name.clone(),
        full_name: format!("{}, {what}", model.full_name),
        core,
        instructions: model.instructions.clone(),
        qemu_cpu: model.qemu_cpu.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine;

    #[test]
    fn a_share_is_whole_ways_of_as_many_sets() {
        let zen4 = machine::cpu("zen4").unwrap();
        let whole = zen4.core.cache.as_ref().and_then(|cache| cache.l3).unwrap();
        let way = whole.kib / whole.ways;
        for (kib, ways) in [
            (1, 1),
            (way, 1),
            (3 * way, 3),
            (3 * way + way / 3, 3),
            (whole.kib, whole.ways),
        ] {
            let share = with_last_level(&zen4, kib).unwrap();
            let level = share
                .core
                .cache
                .as_ref()
                .and_then(|cache| cache.l3)
                .unwrap();
            assert_eq!((level.kib, level.ways), (ways * way, ways));
            assert!(share.full_name.contains(&format!("{} KiB", ways * way)));
        }
    }

    #[test]
    fn what_has_no_third_level_says_so() {
        let without = machine::cpus().iter().find_map(|info| {
            let cpu = machine::cpu(info.name).ok()?;
            let cache = cpu.core.cache.as_ref();
            cache.is_none_or(|cache| cache.l3.is_none()).then_some(cpu)
        });
        let error = with_last_level(&without.unwrap(), 1024).unwrap_err();
        assert!(error.contains("no third level"), "{error}");
    }

    #[test]
    fn memory_takes_its_time_whatever_the_clock() {
        let rwc = machine::cpu("rwc").unwrap();
        let of = |model: &CpuModel| {
            let caches = model.core.cache.unwrap();
            let dram = model.core.dram.unwrap();
            (caches.l2.latency, caches.l3.unwrap(), dram)
        };
        let (l2, l3, dram) = of(&rwc);
        let mhz = rwc.core.cache.unwrap().clock_mhz.unwrap();
        assert_eq!(with_clock(&rwc, mhz).unwrap().core, rwc.core);
        let twice = with_clock(&rwc, 2 * mhz).unwrap();
        let (l2_twice, l3_twice, dram_twice) = of(&twice);
        assert_eq!(l2_twice, l2);
        assert_eq!(l3_twice.latency, l3.latency + l3.own_clock_cycles);
        let back = with_clock(&twice, mhz).unwrap();
        assert_eq!(back.core, rwc.core);
        let at_cores_clock = l3.latency - l3.own_clock_cycles;
        assert_eq!(dram_twice.latency, 2 * dram.latency - at_cores_clock);
        assert_eq!(2.0 * dram_twice.bytes_per_cycle, dram.bytes_per_cycle);
        assert!(twice.full_name.ends_with(&format!("{} MHz", 2 * mhz)));
        twice.core.check().unwrap();
        with_clock(&rwc, 500).unwrap().core.check().unwrap();

        let error = with_clock(&machine::cpu("skl").unwrap(), 3000).unwrap_err();
        assert!(error.contains("at which clock"), "{error}");
    }
}
