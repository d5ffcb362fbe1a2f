//! The same work for many things, on some threads at once.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};

/// Does `work` for every item, each on whatever thread is free; results in the items' order.
///
/// # Errors
/// The first item's, in their order, that has one; all others are worked on all the same.
pub fn map<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<Result<R>>>> = Mutex::new(items.iter().map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((at, item)) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    items.get(at).map(|item| (at, item))
                } {
                    let result = work(item);
                    if let Ok(mut results) = results.lock() {
                        results[at] = Some(result);
                    }
                }
            });
        }
    });
    let results = results.into_inner().unwrap_or_default();
    results
        .into_iter()
        .map(|result| result.context("a thread did not do its work")?)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_items_order() {
        let items: Vec<u64> = (0..40).collect();
        let results = map(&items, 3, |item| {
            // The earlier, the later done.
            std::thread::sleep(std::time::Duration::from_micros(40 - item));
            Ok(item * 2)
        });
        let expected: Vec<u64> = items.iter().map(|item| item * 2).collect();
        assert_eq!(results.unwrap(), expected);
    }

    #[test]
    fn an_items_error_is_the_whole_ones() {
        let work = |item: &u64| match item {
            3 | 5 => Err(anyhow::anyhow!("{item} cannot be done")),
            _ => Ok(()),
        };
        let error = map(&[1, 5, 3], 2, work).unwrap_err();
        assert_eq!(error.to_string(), "5 cannot be done");
    }
}
