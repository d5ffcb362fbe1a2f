//! Categories of blocks by their use of ports, as BHive has them (Chen et al., IISWC 2019, section
//! 4.3): a block is a document, the ports that each of its µops may use on Haswell are its words,
//! and latent Dirichlet allocation finds six topics (α = 1/6, β = 1/13). A block belongs to the
//! topic that most of its µops have.
//!
//! A topic is named by what its words do ([`name`]), in BHive's terms. What a word does is counted:
//! the same ports serve scalar and vector µops, loads and store addresses.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context;
use iced_x86::InstructionInfoFactory;
use mcad_core::block::Block;
use mcad_daemon::eval::Pair;
use mcad_isa::machine::params::{PortLayout, PortSet};
use mcad_isa::machine::{self, CpuModel};
use mcad_isa::uop::UopKind;
use serde::Serialize;

use crate::applications::Applications;
use crate::lda::{Document, Model, TOPICS};

/// The CPU whose ports are the words, as in the paper.
pub const CPU: &str = "hsw";

/// The category of blocks in which no µop needs a port, or that the CPU's table lacks.
pub const NONE: &str = "none";

/// Words of a topic that are shown have at least this probability.
const SHOWN: f64 = 0.02;

/// What a µop does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Load,
    Store,
    Scalar,
    Vector,
}

/// Shares of [`Work`], in its order.
type Works = [f64; 4];

/// A topic for people.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Topic {
    /// BHive's term for it, see [`name`]; numbered when several have the same.
    pub name: String,
    /// Blocks of the corpus that belong to it.
    pub blocks: usize,
    /// Its words with their probabilities, likeliest first; improbable ones are left out.
    pub words: Vec<(String, f64)>,
    /// Share of its µops that load.
    pub load: f64,
    /// That store: address and data.
    pub store: f64,
    /// That compute, in instructions without vector registers.
    pub scalar: f64,
    /// That compute, in instructions with vector registers.
    pub vector: f64,
}

/// Topics of a corpus.
#[derive(Debug)]
pub struct Topics {
    words: Words,
    model: Model,
    /// The topics, most µops first.
    pub topics: Vec<Topic>,
}

/// Numbers of the words seen so far.
#[derive(Debug, Default)]
struct Words(BTreeMap<PortSet, u16>);

/// Collects the blocks that topics are found in.
pub struct Corpus<'m> {
    model: &'m Arc<CpuModel>,
    words: Words,
    documents: Vec<Document>,
    works: Vec<Works>,
    factory: InstructionInfoFactory,
}

impl<'m> Corpus<'m> {
    /// An empty corpus with the ports of `model` as words.
    #[must_use]
    pub fn new(model: &'m Arc<CpuModel>) -> Self {
        Self {
            model,
            words: Words::default(),
            documents: Vec::new(),
            works: Vec::new(),
            factory: InstructionInfoFactory::new(),
        }
    }

    /// Adds a block; one that the CPU's table lacks is left out.
    pub fn add(&mut self, bytes: &[u8]) {
        let Ok(block) = Block::new(self.model, bytes) else {
            return;
        };
        let mut document = BTreeMap::new();
        for (place, uop) in block.port_uops() {
            let next = self.words.0.len() as u16;
            let word = *self.words.0.entry(uop.ports).or_insert(next);
            *document.entry(word).or_default() += 1;
            let works = usize::from(word);
            if works >= self.works.len() {
                self.works.resize(works + 1, Works::default());
            }
            let work = match uop.kind {
                UopKind::Load(_) => Work::Load,
                UopKind::StoreAddress(_) | UopKind::StoreData(_) => Work::Store,
                UopKind::Compute => self.computes(&block, place),
            };
            if let Some(count) = self
                .works
                .get_mut(works)
                .and_then(|w| w.get_mut(work as usize))
            {
                *count += 1.0;
            }
        }
        if !document.is_empty() {
            self.documents.push(document.into_iter().collect());
        }
    }

    fn computes(&mut self, block: &Block, place: usize) -> Work {
        let vector = block.decoded.get(place).is_some_and(|d| {
            let info = self.factory.info(&d.instruction);
            let mut used = info.used_registers().iter().map(|u| u.register());
            used.any(|r| r.is_vector_register() || r.is_mm())
        });
        if vector { Work::Vector } else { Work::Scalar }
    }

    /// Finds the topics.
    #[must_use]
    pub fn topics(self) -> Topics {
        let vocabulary = self.words.0.len();
        let model = Model::fit(&self.documents, vocabulary);
        let mut blocks = [0; TOPICS];
        let mut labels: BTreeMap<&Document, Option<usize>> = BTreeMap::new();
        for document in &self.documents {
            let label = labels
                .entry(document)
                .or_insert_with(|| model.label(document));
            if let Some(blocks) = label.and_then(|l| blocks.get_mut(l)) {
                *blocks += 1;
            }
        }
        let names: Vec<String> = self.words.names(&self.model.core.ports);
        let mut topics: Vec<Topic> = blocks
            .iter()
            .enumerate()
            .map(|(n, &blocks)| {
                let likely: Vec<f64> = model.topic(n).collect();
                describe(&likely, &names, &self.works, blocks)
            })
            .collect();
        number(&mut topics);
        Topics {
            words: self.words,
            model,
            topics,
        }
    }
}

impl Words {
    /// The names of the words in the order of their numbers.
    fn names(&self, layout: &PortLayout) -> Vec<String> {
        let mut names: Vec<(u16, String)> = self
            .0
            .iter()
            .map(|(ports, word)| (*word, format!("p{}", layout.text(*ports))))
            .collect();
        names.sort();
        names.into_iter().map(|(_, name)| name).collect()
    }
}

impl Topics {
    /// The category of a block, a place in [`Topics::topics`]; `None` when the CPU's table lacks
    /// the block, or none of its µops uses ports that the corpus has.
    #[must_use]
    pub fn category(&self, model: &Arc<CpuModel>, bytes: &[u8]) -> Option<usize> {
        let block = Block::new(model, bytes).ok()?;
        let mut document: BTreeMap<u16, u32> = BTreeMap::new();
        for (_, uop) in block.port_uops() {
            if let Some(word) = self.words.0.get(&uop.ports) {
                *document.entry(*word).or_default() += 1;
            }
        }
        self.model.label(&document.into_iter().collect())
    }
}

fn describe(likely: &[f64], names: &[String], works: &[Works], blocks: usize) -> Topic {
    let mut shares = Works::default();
    for (probability, works) in likely.iter().zip(works) {
        let all: f64 = works.iter().sum();
        for (share, count) in shares.iter_mut().zip(works) {
            *share += probability * count / all.max(1.0);
        }
    }
    let mut words: Vec<(String, f64)> = names.iter().cloned().zip(likely.iter().copied()).collect();
    words.retain(|word| word.1 >= SHOWN);
    words.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let [load, store, scalar, vector] = shares;
    Topic {
        name: name(load, store, scalar, vector).to_owned(),
        blocks,
        words,
        load,
        store,
        scalar,
        vector,
    }
}

/// The name of a topic by the shares of its µops. When at least half of them access memory: *load*
/// or *store* if that is three quarters of those, else *load/store*; otherwise *scalar* or *vec* if
/// that is three quarters of those that compute, else *scalar/vec*.
fn name(load: f64, store: f64, scalar: f64, vector: f64) -> &'static str {
    let most = |part: f64, rest: f64| part >= 3.0 * rest;
    if load + store >= scalar + vector {
        match (most(load, store), most(store, load)) {
            (true, _) => "load",
            (_, true) => "store",
            _ => "load/store",
        }
    } else {
        match (most(scalar, vector), most(vector, scalar)) {
            (true, _) => "scalar",
            (_, true) => "vec",
            _ => "scalar/vec",
        }
    }
}

/// Numbers the topics that have the same name, from the second on.
fn number(topics: &mut [Topic]) {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for topic in topics {
        let times = seen.entry(topic.name.clone()).or_default();
        *times += 1;
        if *times > 1 {
            topic.name = format!("{} {times}", topic.name);
        }
    }
}

/// Topics, and which block has which.
pub struct Found {
    /// The topics.
    pub topics: Vec<Topic>,
    /// Their names, and last the one of blocks without a topic.
    pub names: Vec<String>,
    /// The place in `names` of each block's.
    pub of: Vec<usize>,
}

/// Finds topics in the blocks of the applications, or of the labels when those are not given, and
/// assigns the labelled blocks to them.
pub fn find(pairs: &[Pair], applications: Option<&Applications>) -> anyhow::Result<Found> {
    let model = machine::cpu(CPU).context("no model for the ports of the topics")?;
    let mut corpus = Corpus::new(&model);
    // In one order, since the words are numbered as they appear.
    let mut blocks: Vec<String> = match applications {
        Some(applications) => applications.blocks().map(str::to_owned).collect(),
        None => pairs.iter().map(|p| p.hex.clone()).collect(),
    };
    blocks.sort_unstable();
    for block in blocks {
        corpus.add(&hex::decode(&block).unwrap_or_default());
    }
    let topics = corpus.topics();
    let mut names: Vec<String> = topics.topics.iter().map(|t| t.name.clone()).collect();
    let none = names.len();
    names.push(NONE.to_owned());
    let category = |pair: &Pair| topics.category(&model, &pair.bytes()).unwrap_or(none);
    Ok(Found {
        of: pairs.iter().map(category).collect(),
        names,
        topics: topics.topics,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_from_shares() {
        for (load, store, scalar, vector, expected) in [
            (0.8, 0.1, 0.1, 0.0, "load"),
            (0.1, 0.5, 0.4, 0.0, "store"),
            (0.4, 0.3, 0.3, 0.0, "load/store"),
            (0.4, 0.0, 0.6, 0.0, "scalar"),
            (0.1, 0.1, 0.1, 0.7, "vec"),
            (0.0, 0.1, 0.4, 0.5, "scalar/vec"),
            (0.0, 0.0, 0.0, 0.0, "load"),
        ] {
            assert_eq!(name(load, store, scalar, vector), expected);
        }
    }

    #[test]
    fn words_are_the_ports_of_uops_and_what_they_do() {
        let model = machine::cpu(CPU).unwrap();
        let mut corpus = Corpus::new(&model);
        // mov rax,[rdi]; mov [rdi],rax; vmulps; add: and a nop, which needs no port.
        for hex in ["488b07", "488907", "c5fc59c1", "4801d8", "90", "06"] {
            corpus.add(&hex::decode(hex).unwrap());
        }
        assert_eq!(corpus.documents.len(), 4);
        assert_eq!(
            corpus.words.names(&model.core.ports),
            ["p23", "p237", "p4", "p01", "p0156"],
            "in order of appearance"
        );
        assert_eq!(corpus.documents[1], [(1, 1), (2, 1)]);
        let work = |w: Work| {
            let mut works = Works::default();
            works[w as usize] = 1.0;
            works
        };
        let expected = [
            Work::Load,
            Work::Store,
            Work::Store,
            Work::Vector,
            Work::Scalar,
        ];
        assert_eq!(corpus.works, expected.map(work));
    }

    #[test]
    fn blocks_that_use_the_same_ports_have_the_same_category() {
        let model = machine::cpu(CPU).unwrap();
        let mut corpus = Corpus::new(&model);
        let [load, store, add]: [&[u8]; 3] = [
            &[0x48, 0x8b, 0x07],
            &[0x48, 0x89, 0x07],
            &[0x48, 0x01, 0xd8],
        ];
        for _ in 0..30 {
            for block in [load, store, add] {
                for times in 1..4 {
                    corpus.add(&block.repeat(times));
                }
            }
        }
        let topics = corpus.topics();
        let of = |bytes: &[u8]| {
            let place = topics.category(&model, bytes).unwrap();
            topics.topics[place].name.clone()
        };
        assert_eq!(of(load), "load");
        assert_eq!(of(&load.repeat(9)), "load");
        assert_eq!(of(store), "store");
        assert_eq!(of(add), "scalar");
        assert_eq!(topics.category(&model, &[0x90]), None);
        assert_eq!(topics.topics.iter().map(|t| t.blocks).sum::<usize>(), 270);
    }
}
