//! Which instructions carry the error: the mean error of the blocks that contain a form, against
//! that of all blocks.

use std::collections::BTreeMap;

use iced_x86::Code;
use serde::Serialize;

use super::Pair;

/// Forms in fewer blocks than this say little.
const LEAST_BLOCKS: usize = 5;

/// A form with the error of its blocks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FormError {
    /// As Intel's manual writes it.
    pub form: String,
    /// Blocks that contain it.
    pub blocks: usize,
    /// Their mean error, as a fraction.
    pub mean_error: f64,
    /// Mean of the signed error of those that were predicted; negative: predicted too fast.
    pub bias: f64,
    /// What the mean error over all blocks loses if these blocks had the mean error of the rest.
    pub weight: f64,
}

/// The forms that carry most of the error, worst first.
#[must_use]
pub fn carriers(pairs: &[Pair], most: usize) -> Vec<FormError> {
    #[derive(Default)]
    struct Sum {
        blocks: usize,
        error: f64,
        bias: f64,
        predicted: usize,
    }
    let mut sums: BTreeMap<Code, Sum> = BTreeMap::new();
    for pair in pairs {
        let mut codes: Vec<Code> = pair.instructions().iter().map(|i| i.code()).collect();
        codes.sort_unstable();
        codes.dedup();
        for code in codes {
            let sum = sums.entry(code).or_default();
            sum.blocks += 1;
            sum.error += pair.error();
            if let Some(p) = pair.prediction {
                sum.bias += (p - pair.label) / pair.label;
                sum.predicted += 1;
            }
        }
    }
    let total: f64 = pairs.iter().map(Pair::error).sum();
    let all = pairs.len();
    let mut forms: Vec<FormError> = sums
        .into_iter()
        .filter(|(_, s)| s.blocks >= LEAST_BLOCKS && s.blocks < all)
        .map(|(code, s)| {
            let rest = (total - s.error) / (all - s.blocks) as f64;
            FormError {
                form: code.op_code().instruction_string().to_owned(),
                blocks: s.blocks,
                mean_error: s.error / s.blocks as f64,
                bias: s.bias / s.predicted.max(1) as f64,
                weight: (s.error - rest * s.blocks as f64) / all as f64,
            }
        })
        .collect();
    forms.sort_by(|a, b| {
        b.weight
            .total_cmp(&a.weight)
            .then_with(|| a.form.cmp(&b.form))
    });
    forms.truncate(most);
    forms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_that_is_wrong_comes_first() {
        let pair = |hex: &str, prediction| Pair {
            hex: hex.into(),
            label: 1.0,
            prediction: Some(prediction),
            reason: None,
        };
        let mut pairs: Vec<Pair> = (0..20).map(|_| pair("4801d8", 1.0)).collect();
        pairs.extend((0..10).map(|_| pair("4801d8480fafc1", 0.5)));
        let forms = carriers(&pairs, 10);
        assert_eq!(forms[0].form, "IMUL r64, r/m64");
        assert_eq!((forms[0].blocks, forms[0].mean_error), (10, 0.5));
        assert_eq!(forms[0].bias, -0.5);
        // The whole error of 10 blocks in 30 goes with it.
        assert!((forms[0].weight - 10.0 * 0.5 / 30.0).abs() < 1e-12);
        assert!(forms.iter().all(|f| !f.form.starts_with("ADD")));
    }
}
