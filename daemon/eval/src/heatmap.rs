//! A heat map of predicted over measured cycles as an SVG file, as the literature prints them
//! (BHive, uiCA): blocks below ten cycles, colour by the logarithm of their number.

use std::fmt::Write;

use mcad_daemon::eval::Pair;

/// Cycles at the ends of the axes.
const LIMIT: f64 = 10.0;
/// Squares per axis.
const BINS: usize = 100;
/// Pixels per square.
const SCALE: usize = 5;
const MARGIN: usize = 60;
const SIDE: usize = BINS * SCALE;

/// Draws the map.
#[must_use]
pub fn svg(pairs: &[Pair], title: &str) -> String {
    let mut counts = vec![0u32; BINS * BINS];
    let mut outside = 0;
    let bin = |cycles: f64| {
        let at = (cycles / LIMIT * BINS as f64).floor();
        (0.0..BINS as f64).contains(&at).then_some(at as usize)
    };
    for pair in pairs {
        let place = pair
            .prediction
            .and_then(|p| Some(bin(pair.label)? + BINS * bin(p)?));
        match place {
            Some(place) => counts[place] += 1,
            None => outside += 1,
        }
    }
    let most = counts.iter().copied().max().unwrap_or(0);
    let (width, height) = (SIDE + MARGIN + 90, SIDE + 2 * MARGIN);
    let mut out = String::new();
    let bottom = MARGIN + SIDE;
    // Writing to a string does not fail.
    let _ = write!(
        out,
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" font-family="sans-serif" font-size="12">
<rect width="{width}" height="{height}" fill="#fff"/>
<text x="{MARGIN}" y="24" font-size="14">{}</text>
<text x="{MARGIN}" y="42" fill="#555">{} blocks; {outside} outside the axes or not predicted</text>
<rect x="{MARGIN}" y="{MARGIN}" width="{SIDE}" height="{SIDE}" fill="#f7f7f7"/>
<g shape-rendering="crispEdges">
"##,
        escape(title),
        pairs.len()
    );
    for (place, count) in counts.iter().enumerate().filter(|(_, c)| **c > 0) {
        let x = MARGIN + place % BINS * SCALE;
        let y = bottom - (place / BINS + 1) * SCALE;
        let colour = colour(*count, most);
        let _ = writeln!(
            out,
            r#"<rect x="{x}" y="{y}" width="{SCALE}" height="{SCALE}" fill="{colour}"/>"#
        );
    }
    let right = MARGIN + SIDE;
    let _ = write!(
        out,
        r##"</g>
<line x1="{MARGIN}" y1="{bottom}" x2="{right}" y2="{MARGIN}" stroke="#000" stroke-opacity=".35"/>
<rect x="{MARGIN}" y="{MARGIN}" width="{SIDE}" height="{SIDE}" fill="none" stroke="#000"/>
"##
    );
    for tick in (0..=LIMIT as usize).step_by(2) {
        let along = tick * SIDE / LIMIT as usize;
        let _ = writeln!(
            out,
            r#"<text x="{}" y="{}" text-anchor="middle">{tick}</text><text x="{}" y="{}" text-anchor="end">{tick}</text>"#,
            MARGIN + along,
            bottom + 18,
            MARGIN - 8,
            bottom - along + 4
        );
    }
    let middle = MARGIN + SIDE / 2;
    let _ = write!(
        out,
        r#"<text x="{middle}" y="{}" text-anchor="middle">measured cycles per iteration</text>
<text transform="translate(18 {middle}) rotate(-90)" text-anchor="middle">predicted cycles per iteration</text>
"#,
        bottom + 40
    );
    let mut count = most.max(1);
    let mut y = MARGIN;
    loop {
        let _ = writeln!(
            out,
            r#"<rect x="{}" y="{y}" width="14" height="14" fill="{}"/><text x="{}" y="{}">{count}</text>"#,
            right + 12,
            colour(count, most),
            right + 32,
            y + 12
        );
        if count == 1 {
            break;
        }
        count = (count / 4).max(1);
        y += 20;
    }
    out.push_str("</svg>\n");
    out
}

/// From light yellow (one block) over red to dark violet.
fn colour(count: u32, most: u32) -> String {
    let share = if most <= 1 {
        1.0
    } else {
        f64::from(count).ln() / f64::from(most).ln()
    };
    const STOPS: [(f64, f64, f64); 4] = [
        (253.0, 224.0, 139.0),
        (244.0, 109.0, 67.0),
        (165.0, 0.0, 80.0),
        (45.0, 0.0, 75.0),
    ];
    let at = share.clamp(0.0, 1.0) * 3.0;
    let from = (at as usize).min(2);
    let t = at - from as f64;
    let (a, b) = (STOPS[from], STOPS[from + 1]);
    let mix = |a: f64, b: f64| (a + (b - a) * t).round() as u8;
    format!(
        "#{:02x}{:02x}{:02x}",
        mix(a.0, b.0),
        mix(a.1, b.1),
        mix(a.2, b.2)
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_lie_where_they_belong() {
        let pair = |label, prediction| Pair {
            hex: "90".into(),
            label,
            prediction,
            reason: None,
        };
        let map = svg(
            &[pair(1.0, Some(2.0)), pair(50.0, Some(1.0)), pair(1.0, None)],
            "a<b",
        );
        let (x, y) = (MARGIN + 10 * SCALE, MARGIN + SIDE - 21 * SCALE);
        assert!(
            map.contains(&format!(r#"<rect x="{x}" y="{y}" width="5""#)),
            "{map}"
        );
        assert!(map.contains("3 blocks; 2 outside"));
        assert!(map.contains("a&lt;b") && map.ends_with("</svg>\n"));
    }
}
