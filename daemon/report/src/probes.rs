//! What probes of a core came to: curves, measured on a CPU at hand and simulated.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the JSON layout; raised on incompatible change.
pub const SCHEMA_VERSION: u32 = 1;
/// How far a simulated point may be from the measured one, of the measured one.
pub const TOLERANCE: f64 = 0.1;
/// Share of a curve's points that must be that near.
pub const SHARE: f64 = 0.8;

/// All curves of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Probes {
    /// See [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The CPU that was measured, as it calls itself; none: none was.
    pub host: Option<String>,
    /// Short name of the model that was simulated; none: none was.
    pub model: Option<String>,
    /// The curves.
    pub curves: Vec<Curve>,
}

/// One probe's curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Curve {
    /// Short name of the probe.
    pub name: String,
    /// The mechanism, for people.
    pub what: String,
    /// Name of the axis.
    pub axis: String,
    /// Its unit; empty for plain numbers.
    pub axis_unit: String,
    /// It is drawn by powers of two.
    pub logarithmic: bool,
    /// Unit of the figures.
    pub unit: String,
    /// Points by place.
    pub points: Vec<CurvePoint>,
}

/// One point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CurvePoint {
    /// Place on the axis.
    pub x: f64,
    /// What it stands for, where the axis has no numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Measured: least over the rounds.
    pub native: Option<f64>,
    /// Measured: median.
    pub native_median: Option<f64>,
    /// Simulated: least over the rounds.
    pub simulated: Option<f64>,
    /// Why a figure is missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// How a curve's two sides agree.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Points with both figures.
    pub compared: usize,
    /// Those within [`TOLERANCE`].
    pub near: usize,
    /// Mean distance, of the measured figure.
    pub mean_error: f64,
}

impl Verdict {
    /// Whether enough points are near.
    #[must_use]
    pub fn agrees(&self) -> bool {
        self.near as f64 >= SHARE * self.compared as f64
    }
}

impl CurvePoint {
    /// Distance of the simulated figure from the measured one, of the measured one, with sign.
    #[must_use]
    pub fn error(&self) -> Option<f64> {
        let native = self.native.filter(|n| *n > 0.0)?;
        Some(self.simulated? / native - 1.0)
    }
}

impl Curve {
    /// Compares the two sides; `None` where a side is missing.
    #[must_use]
    pub fn verdict(&self) -> Option<Verdict> {
        let errors: Vec<f64> = self.points.iter().filter_map(CurvePoint::error).collect();
        if errors.is_empty() {
            return None;
        }
        Some(Verdict {
            compared: errors.len(),
            near: errors.iter().filter(|e| e.abs() <= TOLERANCE).count(),
            mean_error: errors.iter().map(|e| e.abs()).sum::<f64>() / errors.len() as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(Option<f64>, Option<f64>)]) -> Curve {
        let point = |(n, &(native, simulated)): (usize, &(Option<f64>, Option<f64>))| CurvePoint {
            x: n as f64,
            label: None,
            native,
            native_median: native,
            simulated,
            missing: Vec::new(),
        };
        Curve {
            name: "test".into(),
            what: String::new(),
            axis: String::new(),
            axis_unit: String::new(),
            logarithmic: false,
            unit: String::new(),
            points: points.iter().enumerate().map(point).collect(),
        }
    }

    #[test]
    fn a_curve_agrees_when_four_of_five_points_do() {
        let near = (Some(10.0), Some(10.9));
        let far = (Some(10.0), Some(8.0));
        let verdict = curve(&[near, near, near, near, far]).verdict().unwrap();
        assert_eq!((verdict.compared, verdict.near), (5, 4));
        assert!(verdict.agrees());
        assert!((verdict.mean_error - (4.0 * 0.09 + 0.2) / 5.0).abs() < 1e-9);
        assert!(!curve(&[near, near, near, far]).verdict().unwrap().agrees());
        assert_eq!(
            curve(&[(Some(1.0), None), (None, Some(1.0))]).verdict(),
            None
        );
    }
}
