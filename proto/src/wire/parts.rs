//! A report is longer than a frame should be, so it travels in parts.

use crate::wire::limits::{MAX_REPORT_BYTES, REPORT_PART_BYTES};
use crate::wire::{Problem, ReportPart};

/// Cuts a report into parts; an empty report is one empty part.
pub fn report_parts(report: &[u8]) -> impl Iterator<Item = ReportPart<'_>> {
    let total = report.len() as u64;
    let count = report.len().div_ceil(REPORT_PART_BYTES).max(1);
    (0..count).map(move |i| {
        let from = i * REPORT_PART_BYTES;
        let to = report.len().min(from + REPORT_PART_BYTES);
        ReportPart {
            total,
            offset: from as u64,
            data: &report[from..to],
        }
    })
}

/// Puts a report together.
#[derive(Debug, Default)]
pub struct ReportAssembler {
    total: Option<u64>,
    data: Vec<u8>,
}

impl ReportAssembler {
    /// Takes a part; returns the report when it is complete.
    ///
    /// # Errors
    /// [`Problem::Invalid`] when parts are missing, overlap or exceed the limit.
    pub fn push(&mut self, part: &ReportPart<'_>) -> Result<Option<Vec<u8>>, Problem> {
        let total = *self.total.get_or_insert(part.total);
        if total > MAX_REPORT_BYTES {
            return Err(Problem::Invalid(format!(
                "a report of {total} bytes; at most {MAX_REPORT_BYTES} are accepted"
            )));
        }
        let have = self.data.len() as u64;
        let fits = have + part.data.len() as u64 <= total;
        if part.total != total || part.offset != have || !fits {
            return Err(Problem::Invalid(format!(
                "a report part of {} bytes for {} of {}, where {have} of {total} were received",
                part.data.len(),
                part.offset,
                part.total
            )));
        }
        if part.data.is_empty() && total != 0 {
            return Err(Problem::Invalid("an empty report part".into()));
        }
        self.data.extend_from_slice(part.data);
        Ok((self.data.len() as u64 == total).then(|| std::mem::take(&mut self.data)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_make_the_report_again() {
        for len in [0, 1, REPORT_PART_BYTES, 2 * REPORT_PART_BYTES + 3] {
            let report: Vec<u8> = (0..len).map(|i| (i * 7 + i / 256) as u8).collect();
            let mut assembler = ReportAssembler::default();
            let mut whole = None;
            for part in report_parts(&report) {
                assert!(whole.is_none());
                whole = assembler.push(&part).unwrap();
            }
            assert_eq!(whole.as_ref(), Some(&report));
        }
    }

    #[test]
    fn broken_parts_are_refused() {
        let part = |total, offset, data| ReportPart {
            total,
            offset,
            data,
        };
        let refuse = |parts: &[ReportPart<'_>]| {
            let mut assembler = ReportAssembler::default();
            let (last, first) = parts.split_last().unwrap();
            for part in first {
                assembler.push(part).unwrap();
            }
            assert!(assembler.push(last).is_err(), "{parts:?}");
        };
        refuse(&[part(u64::MAX, 0, b"x")]);
        refuse(&[part(4, 1, b"x")]);
        refuse(&[part(4, 0, b"12345")]);
        refuse(&[part(4, 0, b"12"), part(5, 2, b"3")]);
        refuse(&[part(4, 0, b"12"), part(4, 2, b"")]);
    }
}
