//! How much of the third level of cache a program has to itself.
//!
//! Other cores share it, and of a virtual machine other guests: what is left changes with them, and with it the
//! cycles of all programs whose data fits some shares and not others. So it belongs to a measurement as much as the CPU
//! does.

use std::sync::Arc;

use super::CpuModel;
use super::hierarchy::MAX_WAYS;

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
    let full_name = format!("{}, {} KiB of the third level", model.full_name, level.kib);
    Ok(Arc::new(CpuModel {
        name: model.name.clone(),
        full_name,
        core,
        instructions: model.instructions.clone(),
        qemu_cpu: model.qemu_cpu.clone(),
    }))
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
}
