//! `mcad eval --categories=lda`: the topics of the blocks at hand.

use anyhow::Context;
use mcad_isa::machine;

use super::hex;
use crate::eval::Pair;
use crate::eval::applications::Applications;
use crate::eval::topics::{self, Corpus, Topic};

/// Topics, and which block has which.
pub(super) struct Found {
    pub(super) topics: Vec<Topic>,
    /// Their names, and last the one of blocks without a topic.
    pub(super) names: Vec<String>,
    /// The place in `names` of each block's.
    pub(super) of: Vec<usize>,
}

/// Finds topics in the blocks of the applications, or of the labels when those are not given, and
/// assigns the labelled blocks to them.
pub(super) fn find(pairs: &[Pair], applications: Option<&Applications>) -> anyhow::Result<Found> {
    let model = machine::cpu(topics::CPU).context("no model for the ports of the topics")?;
    let mut corpus = Corpus::new(&model);
    let bytes = |text: &str| hex::decode(text.as_bytes()).unwrap_or_default();
    // In one order, since the words are numbered as they appear.
    let mut blocks: Vec<&str> = match applications {
        Some(applications) => applications.blocks().collect(),
        None => pairs.iter().map(|p| p.hex.as_str()).collect(),
    };
    blocks.sort_unstable();
    for block in blocks {
        corpus.add(&bytes(block));
    }
    let topics = corpus.topics();
    let mut names: Vec<String> = topics.topics.iter().map(|t| t.name.clone()).collect();
    let none = names.len();
    names.push(topics::NONE.to_owned());
    let category = |pair: &Pair| topics.category(&model, &bytes(&pair.hex)).unwrap_or(none);
    Ok(Found {
        of: pairs.iter().map(category).collect(),
        names,
        topics: topics.topics,
    })
}
