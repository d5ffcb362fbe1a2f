//! Errors over all blocks, by category and by application, each also weighted by executions.

use mcad_daemon::cli::eval::Set;
use mcad_daemon::eval::{Measures, Pair};
use serde::Serialize;

use crate::applications::{Applications, Weighted};
use crate::topics::{Found, Topic};

/// Everything about a set of predictions.
#[derive(Clone, Debug, Serialize)]
pub struct Evaluation {
    /// All blocks.
    pub all: Measures,
    /// Predictions for blocks that have no label.
    pub without_label: usize,
    /// All blocks, weighted, when it is known which applications have them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weighted: Option<Weighted>,
    /// Blocks by category.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<Group>,
    /// The topics that the categories stand for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<Topic>,
    /// Blocks by application.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub applications: Vec<Group>,
}

/// A part of the blocks.
#[derive(Clone, Debug, Serialize)]
pub struct Group {
    /// Name of the category or application.
    pub name: String,
    /// Each block counted once.
    #[serde(flatten)]
    pub measures: Measures,
    /// Each as often as it is executed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weighted: Option<Weighted>,
}

impl Evaluation {
    /// Evaluates predictions.
    pub fn of(set: &Set, topics: Option<Found>, applications: Option<&Applications>) -> Self {
        let pairs = &set.pairs;
        Self {
            all: Measures::of(pairs.iter()),
            without_label: set.unused,
            weighted: weighted(pairs.iter(), applications),
            categories: topics
                .as_ref()
                .map_or(Vec::new(), |found| categories(pairs, found, applications)),
            topics: topics.map_or(Vec::new(), |found| found.topics),
            applications: applications.map_or(Vec::new(), |a| a.measures(pairs)),
        }
    }
}

fn weighted<'a>(
    pairs: impl Iterator<Item = &'a Pair>,
    applications: Option<&Applications>,
) -> Option<Weighted> {
    let a = applications?;
    Some(Weighted::of(pairs.map(|pair| (pair, a.weight(&pair.hex)))))
}

/// The measures of each category that has blocks.
fn categories(pairs: &[Pair], found: &Found, applications: Option<&Applications>) -> Vec<Group> {
    let groups = found.names.iter().enumerate().map(|(n, name)| {
        let members = || {
            let all = pairs.iter().zip(&found.of);
            all.filter(move |(_, c)| **c == n).map(|(pair, _)| pair)
        };
        Group {
            name: name.clone(),
            measures: Measures::of(members()),
            weighted: weighted(members(), applications),
        }
    });
    groups.filter(|group| group.measures.blocks > 0).collect()
}
