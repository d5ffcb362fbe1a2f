//! Repeated string instructions by size.

use super::{Axis, Point, Probe, Source, counted};

const SIZE: Axis = Axis {
    name: "bytes",
    unit: "",
    logarithmic: true,
};
const UNIT: &str = "cycles per execution";

pub(super) const PROBES: &[Probe] = &[
    Probe {
        name: "rep-movsb",
        what: "rep movsb between places that are used again and again",
        axis: SIZE,
        unit: UNIT,
        points: || sizes("rep movsb", 1),
    },
    Probe {
        name: "rep-stosb",
        what: "rep stosb to a place that is used again and again",
        axis: SIZE,
        unit: UNIT,
        points: || sizes("rep stosb", 1),
    },
    Probe {
        name: "rep-movsq",
        what: "rep movsq between places that are used again and again",
        axis: SIZE,
        unit: UNIT,
        points: || sizes("rep movsq", 8),
    },
];

fn sizes(instruction: &str, unit: u64) -> Vec<Point> {
    let point = |bytes: u64| {
        let times = (200_000 / bytes.max(32)).clamp(4, 200);
        let body = format!(
            "    mov rdi, rbx
    lea rsi, [rbx + {}]
    mov ecx, {}
    {instruction}",
            bytes.next_multiple_of(4096) + 2048 + 64,
            bytes / unit
        );
        let run = format!(
            "    mov rbx, rdi\n    mov eax, 1\n{}",
            counted(times, &body)
        );
        Point::new(
            bytes as f64,
            Source {
                // The pages are touched.
                setup: format!(
                    "    mov rbx, rdi
    mov ecx, {}
    mov eax, 1
    rep stosb",
                    2 * bytes.next_multiple_of(4096) + 8192
                ),
                run,
                data: 2 * bytes.next_multiple_of(4096) as usize + 16_384,
                operations: times as f64,
                ..Source::default()
            },
        )
    };
    [
        8, 16, 32, 64, 96, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 262_144,
    ]
    .map(point)
    .into()
}
